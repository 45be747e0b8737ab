from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from trivium.reports.drawings.interval import range_svg


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_everything_is_drawn_at_its_number(mean, low, human):
    root = ET.fromstring(range_svg(mean, (low, 1.0), human))
    interval = next(line for line in root.iter("line") if line.get("class") == "interval")
    assert abs(float(root.find("circle").get("cx")[:-1]) - 100 * mean) < 0.01
    assert abs(float(interval.get("x1")[:-1]) - 100 * low) < 0.01
    assert abs(float(root.find("svg").get("x")[:-1]) - 100 * human) < 0.01


def test_it_is_hidden_from_screen_readers_since_the_numbers_stand_beside_it():
    assert ET.fromstring(range_svg(0.5, None)).get("aria-hidden") == "true"


def test_nothing_known_is_an_empty_track():
    assert [child.get("class") for child in ET.fromstring(range_svg(None, None))] == ["track"]
