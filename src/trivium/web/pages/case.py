"""A case of a run: output beside reference, scores, judgements with their evidence, trace by level."""

from collections.abc import Callable, Sequence, Set
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response, get
from litestar.params import FromPath, QueryParameter
from litestar.response import Redirect
from markupsafe import Markup

from trivium.monitor.reasons import Received, received_as
from trivium.reports.document.blocks import Column, Table, Toned, table
from trivium.reports.document.html import shown
from trivium.reports.html.case import ShownSpan, SpanTree, case_context
from trivium.reports.html.judgement import Marked, marked
from trivium.reports.moved_cases.word_diff import shortened, word_diff
from trivium.reports.view import view_of
from trivium.safe_text import one_line
from trivium.store.browsing.attempts import Row, attempts_of_case, position_of
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.traces.trace import Span, Trace
from trivium.web.errors import Refused
from trivium.web.pages.site import Crumb, Site, case_address, run_of, segment, way_back
from trivium.web.threads import Remembered

__all__ = ["level_of", "repeat_of", "routes", "rows_of", "spans_table"]

DRAWN_SPANS = 1_000
"""Most spans of a trace that is drawn as a whole; a larger one is opened level by level."""

SPANS = 50
"""Spans of a level that are shown at once."""

COMPARED_CHARS = 20_000
"""Characters of the longest output and reference that are compared word by word."""

REFERENCES_COMPARED = 20

VALUE_CHARS: Final = 2_000
"""Most characters of a span's input and output."""

CaseId = Annotated[str, QueryParameter(name="id", max_length=100_000)]
Repeat = Annotated[int, QueryParameter(ge=0, le=2**31 - 1)]
Back = Annotated[str, QueryParameter(max_length=200_000)]
"""Address of the page from which this one was opened."""

Start = Annotated[int, QueryParameter(ge=0, le=10**9)]

TREES = 4
"""Trees that are remembered: reading a large trace takes longer than showing a level of it."""

Trees = Remembered[tuple[int, float | None, str, int], "_Tree"]

Addresses = Callable[..., str]
"""Gives the address of a level of a trace: below a span, from a place on."""


def routes(site: Site) -> list[Any]:
    """The routes of the pages."""
    trees: Trees = Remembered(TREES)
    return [_case_route(site, trees), _level_route(site, trees)]


def _case_route(site: Site, trees: Trees) -> Any:
    """A case, with its trace or, if that is large, the top of it."""

    @get("/runs/{run:str}/case", include_in_schema=False, sync_to_thread=True)
    def one_case(
        request: Request[Any, Any, Any], run: FromPath[str], case: CaseId, repeat: Repeat = 0, back: Back = ""
    ) -> Response[str] | Redirect:
        record = run_of(site.store, run)
        if record.id != run:
            return Redirect(case_address(record.id, case, repeat, back=back))
        rows = rows_of(site.store, record, case)
        row = repeat_of(rows, case, repeat)
        attempt = row[1]
        trace = attempt.trace
        too_large = trace is not None and len(trace.spans) > DRAWN_SPANS
        tree = _tree(trees, record, case, attempt.repeat, lambda: trace) if trace and too_large else None
        trace_at = _addresses(record, case, attempt.repeat, back)
        received = _received(site.store, record, case)
        return site.page(
            request,
            "case_page.html",
            title=f"{case} in {record.id}",
            section="monitors" if record.kind == "live" else "runs",
            received=received,
            **case_context(view_of(row, record.settings, with_trace=not too_large)),
            differences=_differences(row[0].references, attempt.output),
            run=record,
            case=case,
            repeat=attempt.repeat,
            repeats=[each[1].repeat for each in rows],
            **_level_shown(None if tree is None else tree.level(None, 0), trace_at),
            number_of_spans=0 if trace is None else len(trace.spans),
            trail=way_back(back, _way_to(record, received)),
            back=back,
            missing_part=None if trace is None else trace.missing_part,
        )

    return one_case


def _level_route(site: Site, trees: Trees) -> Any:
    """A level of a trace."""

    @get("/runs/{run:str}/trace", include_in_schema=False, sync_to_thread=True)
    def level(
        request: Request[Any, Any, Any],
        run: FromPath[str],
        case: CaseId,
        repeat: Repeat = 0,
        span: Annotated[str | None, QueryParameter(max_length=1_000)] = None,
        start: Start = 0,
        back: Back = "",
    ) -> Response[str]:
        record = run_of(site.store, run)
        tree = _tree(
            trees,
            record,
            case,
            repeat,
            lambda: repeat_of(rows_of(site.store, record, case), case, repeat)[1].trace,
        )
        if span is not None and span not in tree.spans:
            raise Refused(404, "The trace has no such span.")
        return site.page(
            request,
            "trace_level.html",
            title=f"Trace of {case}",
            section="runs",
            **_level_shown(tree.level(span, start), _addresses(record, case, repeat, back)),
            trail=[
                *way_back(back, _way_to(record)),
                (one_line(case, at_most=60), case_address(record.id, case, repeat, back=back)),
            ],
        )

    return level


def _tree(trees: Trees, run: RunRecord, case: str, repeat: int, read: Callable[[], Trace | None]) -> "_Tree":
    """The tree of an attempt's trace, which is read if the tree is not remembered.

    Raises:
        Refused: If it has no trace.
    """

    def made() -> _Tree:
        trace = read()
        if trace is None:
            raise Refused(404, "This attempt has no trace.")
        return _Tree(trace)

    return trees.of((run.number, run.finished, case, repeat), made)


def _addresses(run: RunRecord, case: str, repeat: int, back: str) -> Addresses:
    """Addresses of the levels of an attempt's trace: below a span, from a place on."""

    def trace_at(span: str | None = None, start: int | None = None) -> str:
        return case_address(run.id, case, repeat, part="trace", back=back, span=span, start=start)

    return trace_at


def _level_shown(level: "_Level | None", trace_at: Addresses) -> dict[str, Any]:
    """What the pages show of a level of a trace."""
    spans = spans_table(level.rows, trace_at) if level and level.rows else None
    return {"level": level, "spans": spans, "trace_at": trace_at}


def _received(store: Store, run: RunRecord, case: str) -> Received | None:
    """What a case is a sample of; None if it is none."""
    position = position_of(store, run, case) if run.kind == "live" else None
    return None if position is None else received_as(store, run, position)


def _way_to(run: RunRecord, received: Received | None = None) -> list[Crumb]:
    """Where a run belongs: a monitor's samples to production, and to the alert that shows one of them."""
    if run.kind != "live":
        return [("Runs", "/runs"), (f"{run.suite_name} {run.id}", f"/runs/{segment(run.id)}")]
    way = [("Production", "/monitors"), (run.suite_name, f"/monitors/{segment(run.suite_name)}")]
    if received is not None and received.alert is not None:
        way.append((f"Alert {received.alert}", f"/alerts/{received.alert}"))
    return way


def rows_of(store: Store, run: RunRecord, case: str) -> list[Row]:
    """Every repeat of a case.

    Raises:
        Refused: If the run has no such case.
    """
    position = position_of(store, run, case)
    rows = [] if position is None else attempts_of_case(store, run, position)
    if not rows:
        raise Refused(404, f'Run {run.id} has no case that is called "{one_line(case, at_most=100)}".')
    return rows


def repeat_of(rows: list[Row], case: str, repeat: int) -> Row:
    """One repeat of a case.

    Raises:
        Refused: If there is none of this number.
    """
    for row in rows:
        if row[1].repeat == repeat:
            return row
    known = ", ".join(str(row[1].repeat) for row in rows[:20])
    raise Refused(404, f'Case "{one_line(case, at_most=100)}" has no repeat {repeat} (it has {known}).')


def _differences(references: Sequence[str], output: object) -> Markup | None:
    """The words in which an output differs from the reference that it shares most words with."""
    if not isinstance(output, str) or not output or len(output) > COMPARED_CHARS:
        return None
    words = set(output.casefold().split())
    near = [text for text in references[:REFERENCES_COMPARED] if text and len(text) <= COMPARED_CHARS]
    nearest = max(near, key=lambda text: _overlap(words, text), default=None)
    if nearest is None or nearest == output:
        return None
    return shown(shortened(word_diff(nearest, output), COMPARED_CHARS))


def _overlap(words: Set[str], text: str) -> float:
    others = set(text.casefold().split())
    return len(words & others) / max(1, len(words | others))


class _SpanRow(ShownSpan, frozen=True, kw_only=True):
    """A span as the page shows it: texts, and the number of spans below it."""

    agent: str
    children: int
    input: Marked | None
    output: Marked | None


class _Level(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the spans with one parent.

    Attributes:
        above: The parent and what is above it, outermost first.
        rows: What the page shows of each span.
        start: Number of spans of this level before the first one.
        total: Number of spans of this level.
    """

    above: tuple[_SpanRow, ...]
    rows: tuple[_SpanRow, ...]
    start: int
    total: int

    @property
    def next(self) -> int | None:
        end = self.start + len(self.rows)
        return end if end < self.total else None


class _Tree(SpanTree):
    """The spans of a trace, level by level."""

    def level(self, parent: str | None, start: int) -> _Level:
        """The spans below one, from some place on."""
        children = self.below(parent)
        above: list[_SpanRow] = []
        at = parent
        while at is not None and len(above) < 100:
            above.append(self._row(self.spans[at]))
            at = self.parents[at]
        return _Level(
            above=tuple(reversed(above)),
            rows=tuple(self._row(span) for span in children[start : start + SPANS]),
            start=start,
            total=len(children),
        )

    def _row(self, span: Span) -> _SpanRow:
        return _SpanRow(
            **msgspec.structs.asdict(self.shown(span)),
            agent=one_line(span.agent or "", at_most=60),
            children=len(self.below(span.id)),
            input=marked(span.input, at_most=VALUE_CHARS),
            output=marked(span.output, at_most=VALUE_CHARS),
        )


def level_of(trace: Trace) -> _Level:
    """The first spans at the top of a trace."""
    return _Tree(trace).level(None, 0)


def spans_table(spans: Sequence[_SpanRow], trace_at: Addresses | None = None) -> Table:
    """Spans of one level; each leads to those below it, if their addresses are given."""

    def name(each: _SpanRow) -> Toned:
        return Toned(each.name or "unnamed", link=trace_at(each.id) if trace_at else "")

    columns: list[Column[_SpanRow]] = [
        Column("kind", lambda each: Toned(each.kind, "quiet"), "text"),
        Column("name", name, "name"),
        Column("agent", lambda each: each.agent, "text", optional=True),
        Column("at", lambda each: each.at),
        Column("took", lambda each: each.took),
        Column("state", lambda each: Toned(each.state, "quiet" if each.state == "ok" else "warn"), "text"),
        Column("below", lambda each: f"{each.children:,}" if each.children else "", optional=True),
    ]
    return table(columns, spans, label="Spans")
