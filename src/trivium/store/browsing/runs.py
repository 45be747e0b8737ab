"""Lists of runs.

They read no bodies, and each is answered from an index (tests/store/test_query_plans.py).
"""

from typing import Any, Literal, get_args

import msgspec
from sqlalchemy import Column, ColumnElement, func, or_, select

from trivium.safe_text import sanitise
from trivium.store import schema as tables
from trivium.store.connection import explain_errors, fetched
from trivium.store.records import NAME_CHARS, RunKind, RunNames, RunState
from trivium.store.store import Store

__all__ = [
    "RUN_SORTS",
    "RunFilters",
    "RunOutline",
    "RunSort",
    "RunsPage",
    "find_runs",
    "latest_pass_rates",
    "suite_names",
    "tag_names",
    "version_names",
]

RunSort = Literal["newest", "oldest", "pass_rate", "composite", "suite"]
RUN_SORTS: tuple[RunSort, ...] = get_args(RunSort)

LISTED = 200
"""Most names of suites, versions or tags that a list to choose from has."""


class RunOutline(RunNames, frozen=True, kw_only=True):
    """A run without its settings, provenance and summary; what it is called by is in :class:`RunNames`.

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
        pass_rate_low: Lower end of its interval, or None.
        pass_rate_high: Upper end of its interval, or None.
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
    pass_rate_low: float | None = None
    pass_rate_high: float | None = None
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


class RunFilters(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs a list has: those that all filters select; None or an empty text selects all.

    Attributes:
        text: A part of the run's id, or of the name of its suite, its agent or its version, or of its
            commit's message, in any case.
        suite: Name of the suite.
        version: Name of the agent's version, or the first 9 characters of the commit.
        tag: A tag that some case of the suite has.
        kind: agent, recorded, human, live or confirm.
        state: running, done or interrupted.
    """

    text: str = ""
    suite: str | None = None
    version: str | None = None
    tag: str | None = None
    kind: str | None = None
    state: str | None = None

    @property
    def any(self) -> bool:
        """Whether some runs may be left out."""
        return any(msgspec.structs.astuple(self))

    def tests(self) -> list[ColumnElement[bool]]:
        """The conditions on the table of runs."""
        runs, tags = tables.runs.c, tables.suite_tags.c
        wanted = {name: sanitise(value)[0] for name, value in msgspec.structs.asdict(self).items() if value}
        tests = [
            runs[column] == wanted[name]
            for name, column in (("suite", "suite_name"), ("kind", "kind"), ("state", "state"))
            if name in wanted
        ]
        if version := wanted.get("version"):
            tests.append(or_(runs.version == version, runs.git_commit.in_((version, f"{version}+"))))
        if tag := wanted.get("tag"):
            tests.append(runs.suite.in_(select(tags.suite).where(tags.tag == tag[:NAME_CHARS])))
        if text := wanted.get("text", "").strip():
            named = (runs.id, runs.suite_name, runs.agent, runs.version, runs.git_subject)
            tests.append(or_(*(column.icontains(text, autoescape=True) for column in named)))
        return tests


def find_runs(
    store: Store,
    filters: RunFilters | None = None,
    *,
    sort: RunSort = "newest",
    start: int = 0,
    limit: int = 50,
) -> RunsPage:
    """Return the runs that all filters select.

    Args:
        store: The store.
        filters: Which runs; None for all.
        sort: ``newest`` or ``oldest`` first; ``pass_rate`` or ``composite``: the lowest first, runs without a
            figure last; or by the ``suite``'s name, newest first.
        start: Number of runs to skip.
        limit: Most runs of the page.
    """
    runs, tests = tables.runs, (filters or RunFilters()).tests()
    query = select(*_COLUMNS).where(*tests).order_by(*_order(sort)).offset(start).limit(limit)
    with explain_errors(store.engine), store.engine.connect() as connection:
        found = connection.execute(query).all()
        total = connection.execute(select(func.count()).select_from(runs).where(*tests)).scalar_one()
    return RunsPage(runs=tuple(_outline(row) for row in found), total=total, start=start)


def latest_pass_rates(store: Store, suite: str, *, limit: int = 20) -> list[RunOutline]:
    """Return the newest finished runs of a suite that have a pass rate, oldest first.

    Args:
        store: The store.
        suite: Name of the suite.
        limit: Most runs.
    """
    runs = tables.runs
    query = (
        select(*_COLUMNS)
        .where(runs.c.suite_name == suite, runs.c.state == "done", runs.c.pass_rate.is_not(None))
        .where(runs.c.kind.not_in(("live", "confirm")))
        .order_by(runs.c.number.desc())
        .limit(limit)
    )
    return [_outline(row) for row in fetched(store.engine, query)][::-1]


def suite_names(store: Store) -> list[str]:
    """Return the names of the suites that have runs, sorted; at most ``LISTED``."""
    return _names(store, tables.runs.c.suite_name)


def version_names(store: Store) -> list[str]:
    """Return the names of versions that have runs, sorted; at most ``LISTED``."""
    return _names(store, tables.runs.c.version)


def tag_names(store: Store) -> list[str]:
    """Return the tags of the cases of all suites, sorted; at most ``LISTED``."""
    return _names(store, tables.suite_tags.c.tag)


def _names(store: Store, name: "Column[str]") -> list[str]:
    query = select(name).where(name.is_not(None)).distinct().order_by(name).limit(LISTED)
    return list(fetched(store.engine, query).scalars())


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


_RENAMED = {"run": "id", "suite": "suite_name", "started": "created"}
_COLUMNS = [tables.runs.c[_RENAMED.get(name, name)].label(name) for name in RunOutline.__struct_fields__]


def _outline(row: Any) -> RunOutline:
    return RunOutline(**row._mapping)  # noqa: SLF001 - SQLAlchemy's public name for it
