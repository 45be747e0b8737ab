"""What reports show of a moved case: texts with their differences, verdicts, reasons and tool calls."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from trivium.errors import StoreError
from trivium.metrics.evaluation import Evaluation
from trivium.metrics.metric import Score
from trivium.reports.document.blocks import (
    Block,
    Case,
    Cases,
    Fold,
    Kind,
    Paragraph,
    Part,
    Piece,
    ShownText,
    Surface,
    Tone,
)
from trivium.reports.moved_cases.word_diff import sequence_diff, shortened, word_diff
from trivium.reports.view import anchor
from trivium.reports.wording import number
from trivium.runs.comparing.moved_cases import MovedCase, MovedCases, ScoredAttempt
from trivium.safe_text import as_json, one_line, visible
from trivium.traces.trace import Span, Trace, canonical
from trivium.values import counted

CASES: dict[Surface, int] = {"terminal": 3, "comment": 5, "notebook": 5}
"""Moved cases with their texts, unless another number is asked for; a page has all."""
TEXT_CHARS: dict[Surface, int] = {"terminal": 240, "comment": 600, "notebook": 1_000, "page": 6_000}
"""Longest text of a case in characters: in a terminal, three lines of 80 columns."""
CALLS: dict[Surface, int] = {"terminal": 8, "comment": 12, "notebook": 20, "page": 100}
"""Tool calls of a case."""
FURTHER: dict[Surface, str] = {
    "terminal": "not shown (--cases {total}, --html)",
    "comment": "not shown; the page of trivium compare --html has all",
    "notebook": "not shown; comparison.moved_cases has all",
}
"""Where the cases are that are not shown."""
CASES_AT_FIRST = 10
"""Cases in the open, so that the figures are not far below."""
CASES_AT_ONCE = 50
"""Cases on each folded page after them."""

DIFF_CHARS = 20_000
"""Longer texts are shown without marks."""
DIFFERING_CHARS = 60
"""Longest text of words that differ, of either output, in a line."""
CALLS_COMPARED = 500
ARGUMENT_CHARS = 160
REFERENCES_SHOWN = 3
CHANGES_SHOWN = 10
CHANGE_CHARS = 300

_MARKS = {"broke": "↓", "fixed": "↑", "flaky": "~", "worse": "↓", "better": "↑"}
_TONES: dict[str, Tone] = {"broke": "bad", "worse": "bad", "fixed": "good", "better": "good"}
_SIGNS: dict[Kind, str] = {"same": " ", "deleted": "−", "inserted": "+"}
_VERDICTS = {True: "passed", False: "not passed", None: "no verdict"}


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of either run: in both (``same``), only in base (``deleted``) or head (``inserted``)."""

    kind: Kind
    name: str
    arguments: str
    failed: bool = False


def case_block(
    moved: MovedCase, chars: int, calls: int = 100, *, pages: Mapping[str, str] | None = None
) -> Case:
    """A moved case as a block; its texts are made visible but not escaped.

    Args:
        moved: The case.
        chars: Largest number of characters of each text.
        calls: Largest number of tool calls.
        pages: Addresses of the attempts of ``base`` and ``head``.
    """
    change, asked = moved.change, plain_text(_as_text(moved.case.input_shown), chars)
    direction = "better" if change.better else "worse"
    word = moved.state or direction
    before, after = (_verdict(side) for side in (moved.base, moved.head))
    verdicts, values = before if before == after else f"{before} → {after}", _values(moved)
    state = f"{word}: {change.why}" if change.why else ""
    outputs = _outputs(moved, chars)
    return Case(
        name=one_line(moved.case.id),
        mark=_MARKS.get(word, _MARKS[direction]),
        word=word,
        tone=_TONES.get(word, "warn"),
        facts=tuple(filter(None, (state, verdicts, values, _repeats(moved)))),
        gist="".join("…" if piece is None else piece.text for piece in asked.pieces),
        change=verdicts if before != after else values or verdicts,
        parts=(
            Part(label="input", texts=(asked,)),
            *_references(moved.case.references, chars),
            *_attempts(moved, *outputs, pages or {}),
            *_judged(moved, chars),
            *_aligned("tool calls", "call", _calls(moved), calls),
            *_aligned("state", "change", _world_changes(moved.base, moved.head), CHANGES_SHOWN),
        ),
        anchor=anchor(moved.case.id, moved.head.attempt.repeat),
        differs=tuple(_differing(outputs[0])),
    )


def _references(references: Sequence[str], chars: int) -> Iterator[Part]:
    for place, reference in enumerate(references[:REFERENCES_SHOWN], 1):
        more = _further(len(references) - REFERENCES_SHOWN, "reference") if place == REFERENCES_SHOWN else ""
        yield Part(label="reference", texts=(plain_text(reference, chars),), more=more)


def _attempts(
    moved: MovedCase, outputs: Sequence[ShownText], note: str, pages: Mapping[str, str]
) -> Iterator[Part]:
    """Both outputs next to each other, or one if they are the same; of a failed attempt why it failed."""
    if len(outputs) == 1:
        yield Part(label="both outputs", texts=tuple(outputs))
        return
    for side, scored, output in zip(("base", "head"), (moved.base, moved.head), outputs, strict=True):
        error, link = scored.attempt.error, pages.get(side, "")
        words = output if error is None else _said(f"failed: {one_line(error, at_most=600)}")
        tone: Tone = "" if error is None else "bad"
        yield Part(label=side, texts=(words,), tone=tone, side=True, link=link)
    if note:
        yield Part(label="", texts=(_said(note),), tone="quiet")


def _judged(moved: MovedCase, chars: int) -> Iterator[Part]:
    for name, *sides in judged_differently(moved.base.evaluation, moved.head.evaluation):
        base, head = (one_line(said, at_most=chars) for said in sides)
        yield Part(label=one_line(name), texts=(_said(f"base {base}"), _said(f"head {head}")))


def _aligned(label: str, what: str, lines: Sequence[tuple[Kind, str]], most: int) -> Iterator[Part]:
    """The first of some lines, each with the sign of the side that alone has it."""
    if lines:
        texts = tuple(_said(f"{_SIGNS[kind]} {line}", kind) for kind, line in lines[:most])
        yield Part(label=label, texts=texts, more=_further(len(lines) - most, what))


def _said(words: str, kind: Kind = "same") -> ShownText:
    return ShownText(pieces=(Piece(kind, words),))


def _further(count: int, what: str) -> str:
    return counted(count, f"further {what}") if count > 0 else ""


def plain_text(text: str, at_most: int) -> ShownText:
    """A text without marks."""
    return shortened(
        [Piece("same", visible(text[: at_most + 1]))], at_most, more=max(0, len(text) - at_most - 1)
    )


def _outputs(moved: MovedCase, chars: int) -> tuple[tuple[ShownText, ...], str]:
    """The outputs with their differences, one if they are the same; and why they carry no marks, if so."""
    base, head = (visible(_as_text(side.attempt.shown)) for side in (moved.base, moved.head))
    if base == head:
        return (shortened([Piece("same", base)], chars),), ""
    if max(len(base), len(head)) > DIFF_CHARS:
        note = f"The outputs are too long to mark their differences (over {DIFF_CHARS:,} characters)."
        return tuple(shortened([Piece("same", text)], chars) for text in (base, head)), note
    pieces = word_diff(base, head)
    sides = ([piece for piece in pieces if piece.kind != kind] for kind in ("inserted", "deleted"))
    return tuple(shortened(side, chars) for side in sides), ""


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else as_json(value)


def _verdict(side: ScoredAttempt) -> str:
    return "error" if side.attempt.failed else _VERDICTS[side.evaluation.passed]


def _repeats(moved: MovedCase) -> str:
    if moved.repeats <= 1:
        return ""
    return f"attempt #{moved.head.attempt.repeat}, which changed most of {moved.repeats:,}"


def judged_differently(base: Evaluation, head: Evaluation) -> Iterator[tuple[str, str, str]]:
    """(metric, base, head) of judgements with different values or reasons: ``0.750: It names no source.``."""
    for name, score in head.scores.items():
        before = base.scores.get(name)
        judged = score.tier == "judge" or (before is not None and before.tier == "judge")
        ours, theirs = _judgement(before), _judgement(score)
        if judged and ours != theirs:
            yield name, ours, theirs


def _judgement(score: Score | None) -> str:
    if score is None:
        return "not judged"
    value = number(score.value) if score.value is not None else score.status
    return f"{value}: {score.reason}" if score.reason else value


def tool_calls(base: Trace | None, head: Trace | None) -> list[Call] | None:
    """The aligned tool calls of two attempts; None if they are the same or an attempt has no trace."""
    if base is None or head is None:
        return None
    ours, theirs = (list(trace.tool_calls[:CALLS_COMPARED]) for trace in (base, head))
    keys = [[(span.name, canonical(span.input), span.ok) for span in spans] for spans in (ours, theirs)]
    if keys[0] == keys[1]:
        return None
    found: list[Call] = []
    at_base = at_head = 0
    for kind, items in sequence_diff(*keys):
        spans = theirs[at_head:] if kind == "inserted" else ours[at_base:]
        found += [_call(kind, span) for span in spans[: len(items)]]
        at_base += len(items) if kind != "inserted" else 0
        at_head += len(items) if kind != "deleted" else 0
    return found


def _world_changes(base: ScoredAttempt, head: ScoredAttempt) -> list[tuple[Kind, str]]:
    """What each attempt changed in its world, aligned; empty if both changed the same or one has no world."""
    worlds = base.attempt.world, head.attempt.world
    ours, theirs = ([] if each is None else [change.shown for change in each.changes] for each in worlds)
    if None in worlds or ours == theirs:
        return []
    aligned = sequence_diff(ours, theirs)
    return [(kind, one_line(line, at_most=CHANGE_CHARS)) for kind, lines in aligned for line in lines]


def _call(kind: Kind, span: Span) -> Call:
    arguments = span.input
    if isinstance(arguments, Mapping):
        words = ", ".join(f"{name}: {_value(value)}" for name, value in list(arguments.items())[:20])
    else:
        words = "" if arguments is None else _value(arguments)
    return Call(
        kind=kind,
        name=one_line(span.name, at_most=80),
        arguments=one_line(words, at_most=ARGUMENT_CHARS),
        failed=span.ok is False,
    )


def _value(value: Any) -> str:
    return one_line(as_json(value, indent=None), at_most=ARGUMENT_CHARS)


def _calls(moved: MovedCase) -> list[tuple[Kind, str]]:
    """``search(query: "Lima")``, for each tool call of either run."""
    found = tool_calls(moved.base.attempt.trace, moved.head.attempt.trace) or []
    return [(one.kind, f"{one.name}({one.arguments}){' failed' * one.failed}") for one in found]


def _values(moved: MovedCase) -> str:
    """``pass_rate 1.000 → 0.500 · composite 0.800 → 0.300``, of the values that changed."""
    changed = [
        f"{one_line(name)} {number(base)} → {number(head)}"
        for name, (base, head) in moved.change.values.items()
        # With one attempt, its verdict is the pass rate.
        if base != head and (name != "pass_rate" or moved.repeats > 1)
    ]
    return " · ".join(changed)


def _differing(outputs: Sequence[ShownText]) -> Iterator[Piece]:
    """The beginning of the words that only one of two marked outputs has."""
    sides: tuple[Kind, ...] = ("deleted", "inserted")
    for kind, text in zip(sides, outputs, strict=False):
        own = [piece.text for piece in text.pieces if piece is not None and piece.kind == kind]
        if words := one_line(" … ".join(filter(None, map(str.strip, own))), at_most=DIFFERING_CHARS):
            yield Piece(kind, words)


def first_cases(moved: MovedCases, surface: Surface, cases: int | None) -> Iterator[Block]:
    """Yield the first moved cases, for other places than a page; None: as many as are usual there."""
    most = CASES[surface] if cases is None else cases
    try:
        shown = tuple(case_block(each, TEXT_CHARS[surface], CALLS[surface]) for each in moved.first(most))
    except StoreError as error:
        yield Paragraph((f"The outputs cannot be read: {error}",))
        return
    if most:
        yield Cases(cases=shown, total=len(moved), further=FURTHER[surface].format(total=len(moved)))


def all_cases(moved: MovedCases, links: Mapping[str, str]) -> Iterator[Block]:
    """Yield all moved cases, in folded pages after the first."""

    def pages_of(case: str, repeat: int) -> dict[str, str]:
        return {side: f"{link}#{anchor(case, repeat)}" for side, link in links.items()}

    cases, total = page_cases(moved, pages_of), len(moved)
    for start in (0, *range(CASES_AT_FIRST, total, CASES_AT_ONCE)) if total else ():
        end = min(start + CASES_AT_ONCE if start else CASES_AT_FIRST, total)
        some = Cases(cases=islice(cases, end - start), total=total)
        yield Fold(f"Cases {start + 1:,} to {end:,} of {total:,}", [some]) if start else some


def page_cases(
    moved: Iterable[MovedCase], pages_of: Callable[[str, int], Mapping[str, str]]
) -> Iterator[Case]:
    """Yield moved cases for a page.

    Args:
        moved: The cases.
        pages_of: Gives the addresses of an attempt on the pages of ``base`` and ``head``.
    """
    for each in moved:
        pages = pages_of(each.case.id, each.head.attempt.repeat)
        yield case_block(each, TEXT_CHARS["page"], CALLS["page"], pages=pages)
