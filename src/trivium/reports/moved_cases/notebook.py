"""The first moved cases in a notebook, with inline styles only."""

from collections.abc import Iterator
from html import escape

from trivium.errors import StoreError
from trivium.reports.drawings.svg import element, text
from trivium.reports.moved_cases.shown import (
    CALL_MARKS,
    ShownCase,
    ShownText,
    call_text,
    facts_text,
    shown_case,
    what_moved,
)
from trivium.reports.notebook.fragment import BAD, GOOD, WARN, line, table
from trivium.reports.wording import counted
from trivium.runs.comparing.moved_cases import MovedCases

CASES_SHOWN = 5
TEXT_CHARS = 1_000
CALLS_SHOWN = 20

_WRAP = "white-space:pre-wrap;overflow-wrap:anywhere;text-align:left;display:block;max-width:680px"
_TONES = {"good": GOOD, "bad": BAD, "warn": WARN}
_COLOURS = {"deleted": f"color:{BAD};text-decoration:line-through", "inserted": f"color:{GOOD}"}
_TAGS = {"deleted": "del", "inserted": "ins"}


def moved_cases_fragment(moved: MovedCases) -> Iterator[str]:
    """How many cases moved, and the first of them, folded."""
    if not moved.compared:
        return
    yield line(what_moved(moved))
    try:
        for each in moved.first(CASES_SHOWN):
            yield _case(shown_case(each, chars=TEXT_CHARS, calls=CALLS_SHOWN))
    except StoreError as error:
        yield line(f"The outputs cannot be read: {error}", quiet=True)
    if len(moved) > CASES_SHOWN:
        further = counted(len(moved) - CASES_SHOWN, "further case")
        yield line(f"{further}: comparison.moved_cases has all", quiet=True)


def _case(case: ShownCase) -> str:
    title = element("b", f"{case.mark} ", text(case.id, at_most=60), style=f"color:{_TONES[case.tone]}")
    rows = [(text(label), words) for label, words in _rows(case)]
    return element(
        "details", element("summary", title, " ", text(facts_text(case))), table(["", ""], rows, left=2)
    )


def _rows(case: ShownCase) -> Iterator[tuple[str, str]]:
    yield "input", _text(case.input)
    for reference in case.references:
        yield "reference", _text(reference)
    if case.same:
        yield "both outputs", _text(case.outputs[0])
    else:
        for side, output, problem in zip(("base", "head"), case.outputs, case.problems, strict=True):
            yield side, _text(output) if problem is None else text(f"failed: {problem}", at_most=600)
        if case.note:
            yield "", text(case.note)
    for name, base, head in case.reasons:
        yield name, element("span", escape(f"base {base}\nhead {head}"), style=_WRAP)
    if case.calls:
        calls = [_marked(call.kind, f"{CALL_MARKS[call.kind]} {call_text(call)}") for call in case.calls]
        calls += [f"… {counted(case.calls_left_out, 'further call')}"] if case.calls_left_out else []
        yield "tool calls", element("span", "\n".join(calls), style=_WRAP)


def _text(shown: ShownText) -> str:
    words = "".join(" … " if piece is None else _marked(piece.kind, piece.text) for piece in shown.pieces)
    if shown.left_out:
        words += f" … {shown.left_out:,} more characters"
    return element("span", words, style=_WRAP, dir="auto")


def _marked(kind: str, words: str) -> str:
    if kind == "same":
        return escape(words)
    return element(_TAGS[kind], escape(words), style=_COLOURS[kind])
