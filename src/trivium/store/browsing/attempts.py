"""Lists of a run's attempts: the worst first, a page at a time."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import msgspec
from sqlalchemy import ColumnElement, and_, func, or_, select

from trivium.agents.attempt import Attempt
from trivium.metrics.evaluation import Evaluation
from trivium.safe_text import sanitise
from trivium.store import schema as tables
from trivium.store.connection import fetched
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.values import resolved

__all__ = [
    "ATTEMPT_SORTS",
    "VERDICTS",
    "AttemptSort",
    "AttemptsPage",
    "Cursor",
    "Verdict",
    "attempts_of_case",
    "count_attempts",
    "find_attempts",
    "position_of",
]

AttemptSort = Literal["worst", "best", "case"]
ATTEMPT_SORTS: tuple[AttemptSort, ...] = get_args(AttemptSort)

Verdict = Literal["failed", "undecided", "passed"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

MOST_COUNTED = 100_000
"""Attempts that are counted exactly; of more, a page says that there are more."""

_PASSED = {"failed": False, "undecided": None, "passed": True}

Row = tuple[Case, Attempt, Evaluation]


class WholeAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt with its case and scores, as they are stored."""

    case: Case
    attempt: Attempt
    evaluation: Evaluation


@resolved
class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The last attempt of a page, from which the next one goes on."""

    group: int
    composite: float | None
    position: int
    repeat: int


class AttemptsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a run's attempts.

    Attributes:
        rows: Each case with its attempt and evaluation.
        next: Where the next page begins; None on the last one.
    """

    rows: tuple[Row, ...]
    next: Cursor | None


def find_attempts(
    store: Store,
    run: RunRecord,
    *,
    verdict: Verdict | None = None,
    text: str = "",
    sort: AttemptSort = "worst",
    after: Cursor | None = None,
    limit: int = 25,
) -> AttemptsPage:
    """Return attempts of a run.

    Args:
        store: The store.
        run: The run.
        verdict: Only those with this verdict; attempts in error count as failed.
        text: A part of the case's id, in any case.
        sort: ``worst``: those that failed first, then the undecided ones, then those that passed, each from
            the lowest composite up, without one last; ``best``: the other way round; or by ``case``.
        after: The last attempt of the page before.
        limit: Maximum number of attempts on the page.
    """
    keys: list[tuple[int, float | None, int, int]] = []
    groups = [0] if sort == "case" else [0, 1, 2]
    for group in groups:
        passed = _PASSED[VERDICTS[2 - group if sort == "best" else group]]
        if sort != "case" and verdict is not None and passed is not _PASSED[verdict]:
            continue
        if after is not None and group < after.group:
            continue
        from_here = after if after is not None and after.group == group else None
        for part in _parts(sort, from_here):
            if len(keys) > limit:
                break
            tests = _tests(run, text)
            if sort != "case":
                tests.append(_is(tables.evaluations.c.passed, passed))
            elif verdict is not None:
                tests.append(_is(tables.evaluations.c.passed, _PASSED[verdict]))
            found = _keys(store, [*tests, *part.tests], part.order, limit + 1 - len(keys))
            keys += [(group, *key) for key in found]
    page = keys[:limit]
    following = Cursor(*page[-1]) if len(keys) > limit else None
    return AttemptsPage(rows=tuple(_read(store, run, [key[2:] for key in page])), next=following)


def count_attempts(store: Store, run: RunRecord, *, verdict: Verdict | None = None, text: str = "") -> int:
    """Return the number of attempts that the filters select, at most one more than ``MOST_COUNTED``."""
    tests = _tests(run, text)
    if verdict is not None:
        tests.append(_is(tables.evaluations.c.passed, _PASSED[verdict]))
    found = select(tables.evaluations.c.position).where(*tests).limit(MOST_COUNTED + 1).subquery()
    return int(fetched(store.engine, select(func.count()).select_from(found)).scalar_one())


def position_of(store: Store, run: RunRecord, case: str) -> int | None:
    """Return the position of a case in a run's suite; None if it has none of this id."""
    cases = tables.cases
    query = (
        select(cases.c.position).where(cases.c.suite == run.suite, cases.c.id == sanitise(case)[0]).limit(1)
    )
    return fetched(store.engine, query).scalar()


def attempts_of_case(store: Store, run: RunRecord, position: int) -> list[Row]:
    """Return every repeat of the case at a position."""
    return list(store.views(run, positions=[position]))


class _Part(msgspec.Struct, frozen=True):
    """A part of the order that one range of the index gives."""

    tests: Sequence[ColumnElement[bool]]
    order: Sequence[ColumnElement[Any]]


def _parts(sort: AttemptSort, after: Cursor | None) -> Iterator[_Part]:
    """The parts of a group: with a composite, then without one."""
    e = tables.evaluations.c
    by_case = [e.position, e.repeat]
    beyond: ColumnElement[bool] | None = None
    if after is not None:
        beyond = or_(e.position > after.position, and_(e.position == after.position, e.repeat > after.repeat))
    if sort == "case":
        yield _Part([] if beyond is None else [beyond], by_case)
        return
    if after is None or after.composite is not None:
        tests: list[ColumnElement[bool]] = [e.composite.is_not(None)]
        if after is not None and beyond is not None:
            further = e.composite < after.composite if sort == "best" else e.composite > after.composite
            tests.append(or_(further, and_(e.composite == after.composite, beyond)))
        yield _Part(tests, [e.composite.desc() if sort == "best" else e.composite, *by_case])
    tests = [e.composite.is_(None)]
    if beyond is not None and after is not None and after.composite is None:
        tests.append(beyond)
    yield _Part(tests, by_case)


def _tests(run: RunRecord, text: str) -> list[ColumnElement[bool]]:
    evaluations, cases = tables.evaluations, tables.cases
    tests: list[ColumnElement[bool]] = [evaluations.c.run == run.number]
    if text := sanitise(text.strip())[0]:
        named = select(cases.c.position).where(
            cases.c.suite == run.suite, cases.c.id.icontains(text, autoescape=True)
        )
        tests.append(evaluations.c.position.in_(named))
    return tests


def _keys(
    store: Store, tests: Sequence[ColumnElement[bool]], order: Sequence[ColumnElement[Any]], limit: int
) -> list[tuple[float | None, int, int]]:
    e = tables.evaluations.c
    query = select(e.composite, e.position, e.repeat).where(*tests).order_by(*order).limit(limit)
    return [(row.composite, row.position, row.repeat) for row in fetched(store.engine, query)]


def _read(store: Store, run: RunRecord, keys: Sequence[tuple[int, int]]) -> list[Row]:
    """The rows at some positions and repeats, in this order."""
    if not keys:
        return []
    places = {position for position, _ in keys}
    cases = tables.cases.c
    query = select(cases.position, cases.id).where(cases.suite == run.suite, cases.position.in_(places))
    names = {row.position: row.id for row in fetched(store.engine, query)}
    found = {(row[2].case, row[2].repeat): row for row in store.views(run, positions=places)}
    wanted = ((names.get(position), repeat) for position, repeat in keys)
    return [found[key] for key in wanted if key in found]


def _is(column: ColumnElement[Any], value: object) -> ColumnElement[bool]:
    return column.is_(None) if value is None else column == value
