"""What every report shows of a moved case."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reports import moved_case_samples as samples
from trivium.agents.attempt import StateChange, WorldRecord
from trivium.reports.comparison import what_moved
from trivium.reports.moved_cases.shown import REFERENCES_SHOWN, case_block, plain_text
from trivium.reports.moved_cases.word_diff import Piece, shortened
from trivium.runs.comparing.moved_cases import MovedCases
from trivium.traces.trace import Span, Trace


def shown(base, head, *, chars=1_000, calls=100, **fields):
    return case_block(samples.moved_case("q1", base, head, **fields), chars, calls)


def parts(case, *labels):
    return [part for part in case.parts if part.label in labels]


def lines(case, label):
    return [joined(text) for part in parts(case, label) for text in part.texts]


def joined(text):
    return "".join("…" if piece is None else piece.text for piece in text.pieces)


def marked(text):
    return [piece.text for piece in text.pieces if piece is not None and piece.kind != "same"]


def test_each_output_has_its_own_words_marked():
    case = shown(samples.scored("It is Lima."), samples.scored("It is Cusco.", passed=False))
    (base,), (head,) = (part.texts for part in parts(case, "base", "head"))
    assert (joined(base), marked(base)) == ("It is Lima.", ["Lima"])
    assert (joined(head), marked(head)) == ("It is Cusco.", ["Cusco"])
    assert case.differs == (Piece("deleted", "Lima"), Piece("inserted", "Cusco"))
    assert "passed → not passed" in case.facts


def test_equal_outputs_are_shown_once():
    case = shown(samples.scored("Lima"), samples.scored("Lima", passed=False))
    assert lines(case, "both outputs") == ["Lima"]
    assert (parts(case, "base", "head", ""), case.differs) == ([], ())


def test_long_outputs_have_no_marks_and_say_so():
    case = shown(samples.scored("a " * 11_000), samples.scored("a b " * 6_000))
    assert "too long" in lines(case, "")[0]
    assert [marked(part.texts[0]) for part in parts(case, "base", "head")] == [[], []]


def test_outputs_that_are_no_text_are_shown_as_json():
    case = shown(samples.scored({"city": "Lima"}), samples.scored({"city": "Cusco"}))
    assert [marked(part.texts[0]) for part in parts(case, "base", "head")] == [["Lima"], ["Cusco"]]
    assert lines(case, "base") == ['{\n  "city": "Lima"\n}']


def test_a_failed_attempt_gives_its_error():
    case = shown(samples.scored(None, error="TimeoutError"), samples.scored("Lima"), better=True)
    assert (lines(case, "base"), lines(case, "head")) == (["failed: TimeoutError"], ["Lima"])
    assert [part.tone for part in parts(case, "base", "head")] == ["bad", ""]
    assert case.change == "error → passed"


def test_only_what_judges_said_differently_is_shown():
    same, other = samples.scored("a", reason="Fine."), samples.scored("b", reason="Vague.")
    assert parts(shown(same, same), "clarity") == []
    assert lines(shown(same, other), "clarity") == ["base 1.000: Fine.", "head 1.000: Vague."]
    assert lines(shown(samples.scored("a"), other), "clarity")[0] == "base not judged"


def test_tool_calls_are_aligned_where_they_differ():
    base = samples.scored("a", trace=samples.calls("search x", "read y"))
    head = samples.scored("a", trace=samples.calls("search x", "search x"))
    (aligned,) = parts(shown(base, head), "tool calls")
    assert [text.pieces[0] for text in aligned.texts] == [
        Piece("same", '  search(q: "search x")'),
        Piece("deleted", '− read(q: "read y")'),
        Piece("inserted", '+ search(q: "search x")'),
    ]
    assert parts(shown(base, base), "tool calls") == []
    assert parts(shown(base, samples.scored("a")), "tool calls") == []


def test_what_was_changed_in_worlds_is_aligned_where_it_differs():
    def left(*paths):
        changes = [StateChange(path=path, kind="changed", before=0, after=1) for path in paths]
        return samples.scored("a", world=WorldRecord(world="w", changes=tuple(changes)))

    case = shown(left("a", "b"), left("a", "<c>\n"))
    assert lines(case, "state") == ["  a: 0 → 1", "− b: 0 → 1", "+ <c> : 0 → 1"]
    assert parts(shown(left("a"), left("a")), "state") == []
    assert parts(shown(left("a"), samples.scored("a")), "state") == []
    (many,) = parts(shown(left(), left(*map(str, range(15)))), "state")
    assert (len(many.texts), many.more) == (10, "5 further changes")


def test_a_call_that_failed_is_another_call():
    def trace(ok):
        return Trace(spans=(Span(id="1", kind="tool", name="read", input="a", ok=ok),))

    base, head = samples.scored("a", trace=trace(ok=True)), samples.scored("a", trace=trace(ok=False))
    assert lines(shown(base, head), "tool calls") == ['− read("a")', '+ read("a") failed']


def test_calls_and_references_that_are_not_shown_are_counted():
    base, head = (samples.scored("a", trace=samples.calls(*[name] * 9)) for name in ("read", "search"))
    case = shown(base, head, calls=5, case={"references": tuple("abcdef")})
    (calls,), references = parts(case, "tool calls"), parts(case, "reference")
    assert (len(calls.texts), calls.more) == (5, "13 further calls")
    assert [part.more for part in references] == ["", "", "3 further references"]
    assert len(references) == REFERENCES_SHOWN


def test_with_repeats_the_pass_rate_is_shown_and_which_attempt_it_is():
    one, several = (shown(samples.scored("a"), samples.scored("b"), repeats=n) for n in (1, 4))
    assert one.facts == ("passed",)
    assert several.facts == (
        "passed",
        "pass_rate 1.000 → 0.000",
        "attempt #0, which changed most of 4",
    )


def test_equal_text_far_from_a_difference_is_left_out_first():
    text = [Piece("same", "x" * 500), Piece("deleted", "OLD"), Piece("same", "y" * 500)]
    short = shortened(text, 200)
    assert joined(short) == "…" + "x" * 80 + "OLD" + "y" * 80
    assert short.left_out == 2 * 420


pieces = st.lists(
    st.builds(Piece, st.sampled_from(["same", "deleted"]), st.text(min_size=1, max_size=300)), max_size=8
)


@given(pieces, st.integers(1, 400))
def test_a_shortened_text_has_at_most_so_many_characters_and_counts_the_others(text, at_most):
    total = sum(len(piece.text) for piece in text)
    short = shortened(text, at_most)
    kept = sum(len(piece.text) for piece in short.pieces if piece is not None)
    assert kept <= at_most
    assert kept + short.left_out == total


def test_a_plain_text_is_cut_and_its_controls_are_visible():
    text = plain_text("\u202eab\x1b" + "c" * 100, 12)
    assert joined(text) == "[U+202E]ab␛c"
    assert text.left_out > 90


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        (MovedCases(), ""),
        (MovedCases(by=("pass_rate", "composite"), compared=1), "No case moved"),
        (samples.calm(), "2 of 60 cases moved · by pass or fail: 1 better, 1 worse"),
    ],
)
def test_it_is_said_how_many_cases_moved(moved, expected):
    assert what_moved(moved).startswith(expected)
