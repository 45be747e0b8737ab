"""A template is filled in one pass, and what is wrong with it is said before anybody is asked."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.suites.rubrics.rubric import fill_template, instruction_problems, material_problems, placeholders

NAMES = st.sampled_from(["rubric", "output", "source"])
PIECES = st.lists(
    st.one_of(
        NAMES.map(lambda name: f"{{{name}}}"), st.text().map(lambda t: t.translate({123: "{{", 125: "}}"}))
    )
)
HOSTILE = st.one_of(
    st.text(), st.sampled_from(["{output}", "{{", "}", "{0.__class__}", "{source!r}", "%s", "$x"])
)


@given(PIECES, st.fixed_dictionaries(dict.fromkeys(("rubric", "output", "source"), HOSTILE)))
def test_it_fills_as_string_formatter_does(pieces, texts):
    template = "".join(pieces)
    assert fill_template(template, texts) == string.Formatter().vformat(template, (), texts)


@given(HOSTILE)
def test_what_fills_a_place_is_not_looked_at_again(text):
    assert fill_template("<{output}>", {"output": text, "source": "SECRET"}) == f"<{text}>"


def test_the_places_of_a_template_are_listed_once_each():
    assert placeholders("{output} {{source}} {trace}{output}") == ["output", "trace"]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{rubrik}", 'line 1: unknown placeholder "{rubrik}". Did you mean "rubric"?'),
        ("{rubric}\n\n{output}", 'line 3: "{output}" is judged: its place is in the template "material"'),
        ("no place", '"{rubric}" is missing'),
        ("{rubric}\n}", 'line 2: a lone "}"; a brace is written twice'),
        ("{rubric} {rubric.__class__}", 'unknown placeholder "{rubric.__class__}"'),
        ("{rubric} {rubric!r}", 'unknown placeholder "{rubric!r}"'),
        ("{rubric} {}", 'unknown placeholder "{}"'),
    ],
)
def test_mistakes_in_instructions_have_their_line(template, expected):
    assert any(expected in each for each in instruction_problems(template, examples=False))


def test_examples_need_a_place():
    assert instruction_problems("{rubric}", examples=True) == [
        '"{examples}" is missing, and the rubric has examples'
    ]


def test_all_that_is_seen_has_a_place_in_the_material():
    seen = {"output": "tone", "source": "truth"}
    assert material_problems("{output}{source}", seen) == material_problems("{material}", seen) == []
    (expected,) = material_problems("{output}", seen)
    assert expected.startswith('"{source}" is missing, which truth sees')
    assert material_problems("{material}{trace}", seen) == ['line 1: no dimension sees "trace"']
    (expected,) = material_problems("{material}\n{outptu}", seen)
    assert expected == 'line 2: unknown placeholder "{outptu}". Did you mean "output"?'
