"""Lists of runs.

They read no bodies, and each is answered from an index (tests/store/test_query_plans.py).
"""

from typing import Any, Literal, get_args

import msgspec
from sqlalchemy import ColumnElement, func, select

from trivium.store import schema as tables
from trivium.store.connection import explain_errors
from trivium.store.records import RunKind, RunState
from trivium.store.store import Store
from trivium.suites.sanitize import sanitise

__all__ = ["RUN_SORTS", "RunOutline", "RunSort", "RunsPage", "find_runs", "suite_names"]

RunSort = Literal["newest", "oldest", "pass_rate", "composite", "suite"]
RUN_SORTS: tuple[RunSort, ...] = get_args(RunSort)

SUITES_LISTED = 200
"""Most names of suites that a list to choose from has."""


class RunOutline(msgspec.Struct, frozen=True, kw_only=True):
    """A run without its settings, provenance and summary.

    Attributes:
        run: Its id.
        suite: Name of its suite.
        kind: agent, recorded, human, live (a monitor's samples of one day), or confirm.
        state: running, done or interrupted.
        started: Unix time, seconds.
        finished: Unix time, or None.
        attempts: Attempts that its summary counts; None before it has one.
        due: Attempts that it should have, if known beforehand.
        pass_rate: In [0, 1], or None.
        composite: Mean, in [0, 1], or None.
    """

    run: str
    suite: str
    kind: RunKind
    state: RunState
    started: float
    finished: float | None
    attempts: int | None
    due: int | None
    pass_rate: float | None
    composite: float | None


class RunsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a list of runs.

    Attributes:
        runs: The runs.
        total: Number of runs that the filters select.
        start: Number of runs before the first one of this page.
    """

    runs: tuple[RunOutline, ...]
    total: int
    start: int = 0

    @property
    def next(self) -> int | None:
        """Where the next page starts; None on the last one."""
        end = self.start + len(self.runs)
        return end if end < self.total else None


def find_runs(
    store: Store,
    *,
    text: str = "",
    suite: str | None = None,
    kind: str | None = None,
    state: str | None = None,
    sort: RunSort = "newest",
    start: int = 0,
    limit: int = 50,
) -> RunsPage:
    """Return the runs that all filters select.

    Args:
        store: The store.
        text: A part of the run's id or of its suite's name, in any case.
        suite: Name of the suite.
        kind: agent, recorded, human, live or confirm.
        state: running, done or interrupted.
        sort: ``newest`` or ``oldest`` first; ``pass_rate`` or ``composite``: the lowest first, runs without a
            figure last; or by the ``suite``'s name, newest first.
        start: Number of runs to skip.
        limit: Most runs of the page.
    """
    runs = tables.runs
    tests = [
        runs.c[name] == sanitise(value)[0]
        for name, value in (("suite_name", suite), ("kind", kind), ("state", state))
        if value
    ]
    if text := sanitise(text.strip())[0]:
        tests.append(
            runs.c.id.icontains(text, autoescape=True) | runs.c.suite_name.icontains(text, autoescape=True)
        )
    query = (
        select(
            runs.c.id,
            runs.c.suite_name,
            runs.c.kind,
            runs.c.state,
            runs.c.created,
            runs.c.finished,
            runs.c.attempts,
            runs.c.due,
            runs.c.pass_rate,
            runs.c.composite,
        )
        .where(*tests)
        .order_by(*_order(sort))
        .offset(start)
        .limit(limit)
    )
    with explain_errors(store.engine), store.engine.connect() as connection:
        found = connection.execute(query).all()
        total = connection.execute(select(func.count()).select_from(runs).where(*tests)).scalar_one()
    return RunsPage(runs=tuple(_outline(row) for row in found), total=total, start=start)


def suite_names(store: Store) -> list[str]:
    """Return the names of the suites that have runs, sorted; at most ``SUITES_LISTED``."""
    name = tables.runs.c.suite_name
    with explain_errors(store.engine), store.engine.connect() as connection:
        return list(connection.execute(select(name).distinct().order_by(name).limit(SUITES_LISTED)).scalars())


def _order(sort: RunSort) -> list[ColumnElement[Any]]:
    runs = tables.runs
    match sort:
        case "newest":
            return [runs.c.number.desc()]
        case "oldest":
            return [runs.c.number]
        case "suite":
            return [runs.c.suite_name, runs.c.number.desc()]
        case _:
            return [runs.c[sort].asc().nulls_last(), runs.c.number]


def _outline(row: Any) -> RunOutline:
    run, suite, kind, state, started, finished, attempts, due, pass_rate, composite = row
    return RunOutline(
        run=run,
        suite=suite,
        kind=kind,
        state=state,
        started=started,
        finished=finished,
        attempts=attempts,
        due=due,
        pass_rate=pass_rate,
        composite=composite,
    )
