from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from trivium.reports.drawings.svg import arrow_head, element, picture, text, thickness

anything = st.text(st.characters(exclude_categories=()), max_size=60)


@given(anything, anything)
def test_texts_and_attributes_of_strangers_stay_texts_and_attributes(content, value):
    root = ET.fromstring(element("g", text(content), class_=value.replace("\x00", "") and "a", d=text(value)))
    assert list(root) == []


def test_underscores_become_dashes_and_none_is_left_out():
    assert element("g", class_="a", text_anchor="middle", x=None, y=1.25) == (
        '<g class="a" text-anchor="middle" y="1.2"></g>'
    )


def test_a_picture_has_an_alternative_text():
    root = ET.fromstring(picture(label="a < b", width=10, height=20, class_="graph"))
    assert root.get("role") == "img"
    assert root[0].text == "a < b"
    assert root.get("viewBox") == "0 0 10 20"


def test_an_arrow_head_has_its_tip_at_its_point_and_lies_behind_it():
    points = [
        tuple(map(float, pair.split(",")))
        for pair in ET.fromstring(arrow_head(10, 5, 1, 0)).get("points").split()
    ]
    assert points[0] == (10, 5)
    assert all(x < 10 for x, _ in points[1:])
    assert sorted(y for _, y in points[1:]) == [1.5, 8.5]


@given(st.integers(0, 10**9))
def test_edges_grow_thicker_with_their_count_and_stay_bounded(count):
    assert 1.2 <= thickness(count) <= thickness(count + 1) <= 4.0
