"""The JSON interface to runs: lists, attempts, cases and comparisons."""

import asyncio
from typing import Annotated, Any

import msgspec
from litestar import get
from litestar.di import NamedDependency, Provide
from litestar.params import PathParameter, QueryParameter

from trivium.errors import InputError
from trivium.reports.moved_cases.document import comparison_document
from trivium.runs.run import Run
from trivium.runs.summary import Summary, summary_of
from trivium.store.browsing.attempts import AttemptSort, Verdict, WholeAttempt, find_attempts
from trivium.store.browsing.runs import RunFilters, RunSort, RunsPage, find_runs
from trivium.store.records import RunKind, RunState
from trivium.values import json_text
from trivium.web.errors import Refused, refusals
from trivium.web.pages.case import repeat_of, rows_of
from trivium.web.pages.comparison import Comparisons
from trivium.web.pages.run import ListedAttempt, cursor_of, listed
from trivium.web.pages.site import run_of
from trivium.web.services import Services
from trivium.web.threads import waited

__all__ = ["run_routes"]

RunId = Annotated[str, PathParameter(max_length=100, description="Id of a run, or the beginning of it.")]
Text = Annotated[str, QueryParameter(max_length=10_000, description="A part of an id or name.")]
Start = Annotated[int, QueryParameter(ge=0, le=10**9, description="Runs to skip: the field `next`.")]
After = Annotated[str, QueryParameter(max_length=200, description="The field `next` of the page before.")]
Limit = Annotated[int, QueryParameter(ge=1, le=200, description="Most records of the answer.")]
CaseId = Annotated[str, QueryParameter(name="id", max_length=100_000, description="Id of the case.")]
Repeat = Annotated[int, QueryParameter(ge=0, le=2**31 - 1, description="Number of the repeat.")]
Force = Annotated[bool, QueryParameter(description="Compare runs even if their settings differ.")]
Suite = Annotated[str | None, QueryParameter(max_length=10_000, description="Name of the suite.")]
Version = Annotated[str | None, QueryParameter(max_length=200, description="Name of the version or commit.")]
Tag = Annotated[str | None, QueryParameter(max_length=10_000, description="A tag that some case has.")]
OfKind = Annotated[RunKind | None, QueryParameter(name="kind", description="Origin of the outputs.")]
InState = Annotated[RunState | None, QueryParameter(name="state", description="State of the run.")]
OfVerdict = Annotated[Verdict | None, QueryParameter(name="verdict", description="Only with this verdict.")]
SortedRuns = Annotated[RunSort, QueryParameter(name="sort", description="Order of the runs.")]
SortedAttempts = Annotated[AttemptSort, QueryParameter(name="sort", description="Order of the attempts.")]


class RunDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A run.

    Attributes:
        run: Its id.
        suite: Name of its suite.
        kind: Origin of its outputs.
        state: running, done or interrupted.
        started: Unix time, seconds.
        finished: Unix time, or None.
        summary: What ``trivium show --json`` prints; None if none is stored yet.
    """

    run: str
    suite: str
    kind: RunKind
    state: RunState
    started: float
    finished: float | None
    summary: Summary | None


class AttemptList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of attempts.

    Attributes:
        attempts: The attempts.
        next: What ``after`` has to be for the next page; None on the last one.
    """

    attempts: tuple[ListedAttempt, ...]
    next: str | None


def run_routes(services: Services) -> list[Any]:
    """The routes."""
    return [*_run_routes(services), *_attempt_routes(services), _comparison_route(services)]


def _filters(
    q: Text = "",
    suite: Suite = None,
    version: Version = None,
    tag: Tag = None,
    kind: OfKind = None,
    run_state: InState = None,
) -> RunFilters:
    return RunFilters(text=q, suite=suite, version=version, tag=tag, kind=kind, state=run_state)


def _run_routes(services: Services) -> list[Any]:
    store = services.store

    @get(
        "/runs",
        sync_to_thread=True,
        responses=refusals(),
        dependencies={"filters": Provide(_filters, sync_to_thread=False)},
    )
    def list_runs(
        filters: NamedDependency[RunFilters],
        sort: SortedRuns = "newest",
        start: Start = 0,
        limit: Limit = 50,
    ) -> RunsPage:
        """The stored runs."""
        return find_runs(store, filters, sort=sort, start=start, limit=limit)

    @get("/runs/{run:str}", sync_to_thread=True, responses=refusals(404))
    def one_run(run: RunId) -> RunDetail:
        """A run with its stored summary."""
        found = run_of(store, run)
        return RunDetail(
            run=found.id,
            suite=found.suite_name,
            kind=found.kind,
            state=found.state,
            started=found.created,
            finished=found.finished,
            summary=summary_of(found),
        )

    return [list_runs, one_run]


def _attempt_routes(services: Services) -> list[Any]:
    store = services.store

    @get("/runs/{run:str}/attempts", sync_to_thread=True, responses=refusals(404))
    def list_attempts(
        run: RunId,
        q: Text = "",
        verdict: OfVerdict = None,
        sort: SortedAttempts = "worst",
        after: After = "",
        limit: Limit = 50,
    ) -> AttemptList:
        """Attempts of a run, the worst first."""
        found = run_of(store, run)
        page = find_attempts(
            store, found, text=q, verdict=verdict, sort=sort, after=cursor_of(after), limit=limit
        )
        return AttemptList(
            attempts=tuple(listed(row, found.settings) for row in page.rows),
            next=None if page.next is None else json_text(page.next),
        )

    @get("/runs/{run:str}/attempt", sync_to_thread=True, responses=refusals(404))
    def one_attempt(run: RunId, case: CaseId, repeat: Repeat = 0) -> WholeAttempt:
        """An attempt with its case, its trace and its scores."""
        asked, attempt, evaluation = repeat_of(rows_of(store, run_of(store, run), case), case, repeat)
        return WholeAttempt(case=asked, attempt=attempt, evaluation=evaluation)

    return [list_attempts, one_attempt]


def _comparison_route(services: Services) -> Any:
    store, comparisons = services.store, Comparisons()

    @get("/compare/{base:str}/{head:str}", responses=refusals(404))
    async def compared(base: RunId, head: RunId, force: Force = False) -> dict[str, Any]:
        """A comparison, as ``trivium compare --json`` prints it."""
        first, second = await asyncio.to_thread(lambda: [run_of(store, each) for each in (base, head)])
        try:
            coming = comparisons.of(Run(store, first), Run(store, second), force=force)
            return await asyncio.to_thread(comparison_document, await waited(coming))
        except InputError as error:
            raise Refused(400, str(error)) from None

    return compared
