"""What reports show of a moved case: texts with their differences, verdicts, reasons and tool calls."""

from collections.abc import Callable, Iterable, Iterator, Mapping
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
from trivium.reports.wording import counted, number
from trivium.runs.comparing.moved_cases import MovedCase, MovedCases, ScoredAttempt
from trivium.safe_text import as_json, one_line, visible
from trivium.traces.trace import Span, Trace, canonical

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

_MARKS = {"broke": "↓", "fixed": "↑", "flaky": "~"}
_TONES: dict[str, Tone] = {"broke": "bad", "worse": "bad", "fixed": "good", "better": "good"}
_VERDICTS = {True: "passed", False: "not passed", None: "no verdict"}


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of either run: in both (``same``), only in base (``deleted``) or head (``inserted``)."""

    kind: Kind
    name: str
    arguments: str
    failed: bool = False


class ShownCase(msgspec.Struct, frozen=True, kw_only=True):
    """A moved case, ready to show; texts are made visible but not escaped.

    Attributes:
        id: Id of the case, on one line.
        word: Its state, or ``better`` or ``worse`` if it has none.
        mark: An arrow in the direction of the change, or ``~`` if it is flaky.
        tone: good, bad or warn.
        why: The attempts that its state rests on; empty without a state.
        verdicts: Verdicts of the two attempts.
        values: (metric, value in base, value in head) of the deciding metrics.
        repeats: Which attempt is shown if there are several; else empty.
        input: The question.
        references: The first references.
        references_left_out: Number of further references.
        outputs: The outputs of base and head.
        same: Whether the outputs are the same.
        note: Why the outputs carry no marks; empty if they do.
        problems: Why each attempt failed; None for one that did not.
        reasons: (metric, reason in base, reason in head) where judges gave different reasons.
        calls: Tool calls of both runs, in order; None if they are the same.
        calls_left_out: Number of calls that are not shown.
        changes: What changed in the worlds of both attempts, one line each; empty if it is the same.
        changes_left_out: Number of changes that are not shown.
        attempt: Case and repeat, for links.
    """

    id: str
    word: str
    mark: str
    tone: Tone
    why: str
    verdicts: tuple[str, str]
    values: tuple[tuple[str, float, float], ...]
    repeats: str
    input: ShownText
    references: tuple[ShownText, ...]
    references_left_out: int
    outputs: tuple[ShownText, ShownText]
    same: bool
    note: str
    problems: tuple[str | None, str | None]
    reasons: tuple[tuple[str, str, str], ...]
    calls: tuple[Call, ...] | None
    calls_left_out: int
    changes: tuple[tuple[Kind, str], ...]
    changes_left_out: int
    attempt: tuple[str, int]


def shown_case(moved: MovedCase, *, chars: int, calls: int = 100) -> ShownCase:
    """Prepare a moved case.

    Args:
        moved: The case.
        chars: Largest number of characters of each text.
        calls: Largest number of tool calls.
    """
    base, head = moved.base, moved.head
    texts = [visible(_as_text(side.attempt.shown)) for side in (base, head)]
    ours, theirs, note = _compared(*texts)
    changes = tool_calls(base.attempt.trace, head.attempt.trace)
    left = _world_changes(base, head)
    word = moved.state or ("better" if moved.change.better else "worse")
    return ShownCase(
        id=one_line(moved.case.id),
        word=word,
        mark=_MARKS.get(word, "↑" if moved.change.better else "↓"),
        tone=_TONES.get(word, "warn"),
        why=moved.change.why,
        verdicts=(_verdict(base), _verdict(head)),
        values=tuple((one_line(name), *values) for name, values in moved.change.values.items()),
        repeats=_repeats(moved),
        input=plain_text(_as_text(moved.case.input_shown), chars),
        references=tuple(plain_text(text, chars) for text in moved.case.references[:REFERENCES_SHOWN]),
        references_left_out=max(0, len(moved.case.references) - REFERENCES_SHOWN),
        outputs=(shortened(ours, chars), shortened(theirs, chars)),
        same=texts[0] == texts[1],
        note=note,
        problems=(_problem(base), _problem(head)),
        reasons=tuple(
            (one_line(name), one_line(ours, at_most=chars), one_line(theirs, at_most=chars))
            for name, ours, theirs in judged_differently(base.evaluation, head.evaluation)
        ),
        calls=None if changes is None else tuple(changes[:calls]),
        calls_left_out=0 if changes is None else max(0, len(changes) - calls),
        changes=tuple(left[:CHANGES_SHOWN]),
        changes_left_out=max(0, len(left) - CHANGES_SHOWN),
        attempt=(moved.case.id, moved.head.attempt.repeat),
    )


def plain_text(text: str, at_most: int) -> ShownText:
    """A text without marks."""
    return shortened(
        [Piece("same", visible(text[: at_most + 1]))], at_most, more=max(0, len(text) - at_most - 1)
    )


def _compared(base: str, head: str) -> tuple[list[Piece], list[Piece], str]:
    """The pieces of each text, and why they carry no marks; empty if they do."""
    if base == head:
        return [Piece("same", base)], [Piece("same", head)], "The outputs are the same."
    if max(len(base), len(head)) > DIFF_CHARS:
        note = f"The outputs are too long to mark their differences (over {DIFF_CHARS:,} characters)."
        return [Piece("same", base)], [Piece("same", head)], note
    pieces = word_diff(base, head)
    left, right = ([piece for piece in pieces if piece.kind != kind] for kind in ("inserted", "deleted"))
    return left, right, ""


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else as_json(value)


def _verdict(side: ScoredAttempt) -> str:
    return "error" if side.attempt.failed else _VERDICTS[side.evaluation.passed]


def _problem(side: ScoredAttempt) -> str | None:
    return None if side.attempt.error is None else one_line(side.attempt.error, at_most=600)


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


CALL_MARKS = {"same": " ", "deleted": "−", "inserted": "+"}


def call_text(call: Call) -> str:
    """``search(query: "Lima")``."""
    return f"{call.name}({call.arguments}){' failed' if call.failed else ''}"


def values_text(case: ShownCase) -> str:
    """``pass_rate 1.000 → 0.500 · composite 0.800 → 0.300``, of the values that changed."""
    changed = [
        f"{name} {number(base)} → {number(head)}"
        for name, base, head in case.values
        # With one attempt, its verdict is the pass rate.
        if base != head and (name != "pass_rate" or case.repeats)
    ]
    return " · ".join(changed)


def verdicts_text(case: ShownCase) -> str:
    """``passed → not passed``, or the verdict that stayed."""
    before, after = case.verdicts
    return before if before == after else f"{before} → {after}"


def case_block(moved: MovedCase, chars: int, calls: int, *, pages: Mapping[str, str] | None = None) -> Case:
    """A moved case as a block.

    Args:
        moved: The case.
        chars: Largest number of characters of each text.
        calls: Largest number of tool calls.
        pages: Addresses of the attempts of ``base`` and ``head``.
    """
    case = shown_case(moved, chars=chars, calls=calls)
    before, after = case.verdicts
    state = f"{case.word}: {case.why}" if case.why else ""
    facts = (state, verdicts_text(case), values_text(case), case.repeats)
    return Case(
        name=case.id,
        mark=case.mark,
        word=case.word,
        tone=case.tone,
        facts=tuple(filter(None, facts)),
        gist="".join("…" if piece is None else piece.text for piece in case.input.pieces),
        change=verdicts_text(case) if before != after else values_text(case) or before,
        parts=tuple(_parts(case, pages or {})),
        anchor=anchor(*case.attempt),
        differs=tuple(_differing(*case.outputs)),
    )


def _differing(base: ShownText, head: ShownText) -> Iterator[Piece]:
    """The beginning of the words that only one of two marked outputs has."""
    sides: tuple[tuple[Kind, ShownText], ...] = (("deleted", base), ("inserted", head))
    for kind, text in sides:
        own = [piece.text for piece in text.pieces if piece is not None and piece.kind == kind]
        if words := one_line(" … ".join(filter(None, map(str.strip, own))), at_most=DIFFERING_CHARS):
            yield Piece(kind, words)


def _parts(case: ShownCase, pages: Mapping[str, str]) -> Iterator[Part]:
    yield Part(label="input", texts=(case.input,))
    for place, reference in enumerate(case.references, 1):
        left_out = case.references_left_out if place == len(case.references) else 0
        yield Part(label="reference", texts=(reference,), more=_further(left_out, "reference"))
    if case.same:
        yield Part(label="both outputs", texts=case.outputs[:1])
    else:
        for side, output, problem in zip(("base", "head"), case.outputs, case.problems, strict=True):
            words = output if problem is None else _said(f"failed: {problem}")
            tone: Tone = "" if problem is None else "bad"
            yield Part(label=side, texts=(words,), tone=tone, side=True, link=pages.get(side, ""))
        if case.note:
            yield Part(label="", texts=(_said(case.note),), tone="quiet")
    for name, base, head in case.reasons:
        yield Part(label=name, texts=(_said(f"base {base}"), _said(f"head {head}")))
    if case.calls:
        texts = tuple(_said(f"{CALL_MARKS[one.kind]} {call_text(one)}", one.kind) for one in case.calls)
        yield Part(label="tool calls", texts=texts, more=_further(case.calls_left_out, "call"))
    if case.changes:
        texts = tuple(_said(f"{CALL_MARKS[kind]} {line}", kind) for kind, line in case.changes)
        yield Part(label="state", texts=texts, more=_further(case.changes_left_out, "change"))


def _said(words: str, kind: Kind = "same") -> ShownText:
    return ShownText(pieces=(Piece(kind, words),))


def _further(count: int, what: str) -> str:
    return counted(count, f"further {what}") if count else ""


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
