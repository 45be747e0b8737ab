"""Moved cases in a comment of a code review: folded, with what differs struck out and underlined."""

from collections.abc import Iterator

from trivium.errors import StoreError
from trivium.reports.markdown import code, escaped, prose
from trivium.reports.moved_cases.shown import (
    CALL_MARKS,
    ShownCase,
    ShownText,
    call_text,
    facts_text,
    shown_case,
    what_moved,
)
from trivium.reports.moved_cases.word_diff import Piece
from trivium.reports.wording import counted
from trivium.runs.comparing.moved_cases import MovedCases

CASES_SHOWN = 5
TEXT_CHARS = 600
CALLS_SHOWN = 12
COMMENT_CHARS = 65_536
"""Longest comment that GitHub accepts, in characters."""

_TONES = {"good": "🟢", "bad": "🔴", "warn": "🟡"}
_TAGS = {"same": ("", ""), "deleted": ("<del>", "</del>"), "inserted": ("<ins>", "</ins>")}


def moved_cases_markdown(moved: MovedCases, *, at_most: int, room: int) -> list[str]:
    """The blocks of the section: how many cases moved, then the first of them, each folded.

    Args:
        moved: The cases.
        at_most: Largest number of cases.
        room: Largest number of characters.
    """
    if not moved.compared:
        return []
    blocks = [f"**What changed** · {prose(what_moved(moved))}"]
    room -= len(blocks[0]) + 200  # for the last line
    shown = 0
    try:
        for each in moved.first(at_most):
            block = _case(shown_case(each, chars=TEXT_CHARS, calls=CALLS_SHOWN))
            room -= len(block) + 2
            if room < 0:
                break
            blocks.append(block)
            shown += 1
    except StoreError as error:
        blocks.append(prose(f"The outputs cannot be read: {error}"))
    if shown < len(moved):
        further = counted(len(moved) - shown, "further case")
        blocks.append(f"<sub>{further} not shown; the page of `trivium compare --html` has all</sub>")
    return blocks


def _case(case: ShownCase) -> str:
    rows = "\n".join(f"| {label} | {words} |" for label, words in _rows(case))
    return (
        f"<details><summary>{_TONES[case.tone]} {code(case.id)} {prose(facts_text(case))}</summary>\n\n"
        f"| | |\n|:--|:--|\n{rows}\n\n</details>"
    )


def _rows(case: ShownCase) -> Iterator[tuple[str, str]]:
    yield "input", _text(case.input)
    for reference in case.references:
        yield "reference", _text(reference)
    if case.same:
        yield "both outputs", _text(case.outputs[0])
    else:
        for side, output, problem in zip(("base", "head"), case.outputs, case.problems, strict=True):
            yield f"**{side}**", _text(output) if problem is None else f"failed: {code(problem)}"
        if case.note:
            yield "", prose(case.note)
    for name, base, head in case.reasons:
        yield prose(name), f"base {prose(base)}<br>head {prose(head)}"
    if case.calls:
        calls = [_call(call.kind, f"{CALL_MARKS[call.kind]} {call_text(call)}") for call in case.calls]
        calls += [f"… {counted(case.calls_left_out, 'further call')}"] if case.calls_left_out else []
        yield "tool calls", "<br>".join(calls)


def _call(kind: str, words: str) -> str:
    before, after = _TAGS[kind]
    return f"{before}{prose(words)}{after}"


def _text(shown: ShownText) -> str:
    words = "".join(" … " if piece is None else _piece(piece) for piece in shown.pieces)
    if shown.left_out:
        words += f" … {shown.left_out:,} more characters"
    return words if words.strip() else "*empty*"


def _piece(piece: Piece) -> str:
    before, after = _TAGS[piece.kind]
    lines = [escaped(" ".join(line.split("\t"))) for line in piece.text.split("\n")]
    return f"{before}{'<br>'.join(lines)}{after}"
