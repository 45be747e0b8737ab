"""Compares the end of a world, and the calls of an attempt, with what its case expects.

Definition: docs/definitions/worlds.md#state-match.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from trivium.agents.attempt import StateCheck, WorldRecord
from trivium.agents.failures import reason, shown
from trivium.agents.loading import load_object
from trivium.agents.worlds.state import NOTHING, at_path, changes, same, shown_value
from trivium.any_object import encode
from trivium.errors import InputError
from trivium.suites.case import Case, ExpectedState, ExpectedTool, Forbidden
from trivium.values import is_number

QUERY_STEPS = 50_000_000
"""Most steps of SQLite's virtual machine for one query, about some seconds."""

_PER_CALL = 100_000

ROWS_READ = 1000
"""Rows of a query that are read, and one more; as many as the case expects, if those are more."""

CHANGES_NAMED = 3
"""Changes that a reason names."""


class End(msgspec.Struct, frozen=True):
    """A world at the end of an attempt.

    Attributes:
        state: The state itself.
        before: Its copy as JSON at the start.
        after: Its copy as JSON at the end; ``NOTHING`` if it could not be copied.
        problem: Why it cannot be compared, or None.
        broken: Whether that is the agent's fault.
        database: The SQLite database, if the state is in one.
        replay: Returns the copy of the state that calls leave in a new world, or raises what they raise; None
            if the world has no tools.
    """

    state: Any
    before: Any
    after: Any
    problem: str | None = None
    broken: bool = False
    database: Path | sqlite3.Connection | None = None
    replay: Callable[[Sequence[ExpectedTool]], Any] | None = None


def ended(name: str, case: Case, end: End, never: Iterable[StateCheck] | None = None) -> WorldRecord:
    """Tell what changed in a world, and whether its end is as its case expects.

    Args:
        name: Name of the world.
        case: The case.
        end: Its end.
        never: What became of that which must never be so; None looks at the end only.
    """
    found, more = ((), 0) if end.problem is not None else changes(end.before, end.after)
    expected = () if case.expect.state is None else _expected(case.expect.state, case, end)
    checks = (*expected, *(forbidden(case, end) if never is None else never))
    return WorldRecord(world=name, changes=found, more=more, checks=checks, problem=end.problem)


def _expected(expected: ExpectedState, case: Case, end: End) -> Iterator[StateCheck]:
    if expected.equals is not None:
        equal = same(end.after, expected.equals)
        yield _of_copy(end, "the whole state", equal, f"it is {shown_value(end.after)}")
    if expected.after is not None:
        yield _replayed(expected.after, end)
    if expected.subset is not None:
        for keys, wanted in _leaves(expected.subset, ()):
            yield _at(end, ".".join(keys), _found(end.after, keys), wanted)
    for path, wanted in expected.values.items():
        yield _at(end, path, at_path(end.after, path), wanted)
    for query, wanted in expected.query.items():
        yield _queried(end, query, wanted, forbidden=False)
    if expected.function is not None:
        yield _called(expected.function, case, end, forbidden=False)


def _replayed(calls: Sequence[ExpectedTool], end: End) -> StateCheck:
    names = [call.name for call in calls]
    what = f"the state after {', '.join(names)}" if names else "the state at the start"
    if end.replay is None:
        return StateCheck(what=what, reason="the world has no tools that could make the expected calls")
    try:
        wanted = end.replay(calls)
    except Exception as error:
        return StateCheck(what=what, reason=f"the expected calls cannot be made: {reason(error)}")
    equal = end.after is not NOTHING and same(end.after, wanted)
    return _of_copy(end, what, equal, "" if equal else f"expected → found: {_changed(wanted, end.after)}")


def forbidden(case: Case, end: End) -> Iterator[StateCheck]:
    """Check what must never be so, at one moment; calls of tools are not looked at."""
    never = Forbidden() if case.expect.never is None else case.expect.never
    for path in never.changes:
        whole = path in {"*", ""}
        old, new = (
            (end.before, end.after) if whole else (at_path(each, path) for each in (end.before, end.after))
        )
        why = "" if _equal(old, new) else _changed(old, new)
        yield _of_copy(end, f"never a change of {'the state' if whole else path}", _equal(old, new), why)
    for path, wanted in never.values.items():
        yield _at(end, path, at_path(end.after, path), wanted, forbidden=True)
    for query, wanted in never.query.items():
        yield _queried(end, query, wanted, forbidden=True)
    if never.function is not None:
        yield _called(never.function, case, end, forbidden=True)


def _changed(old: Any, new: Any) -> str:
    if old is NOTHING or new is NOTHING:
        return f"it was {shown_value(old)} and is {shown_value(new)}"
    found, more = changes(old, new)
    listed = ", ".join(each.shown for each in found[:CHANGES_NAMED])
    more += len(found[CHANGES_NAMED:])
    return f"{listed} and {more:,} more" if more else listed


def forbidden_calls(
    never: Iterable[str | ExpectedTool], calls: Iterable[tuple[str, Any, int]]
) -> Iterator[StateCheck]:
    """Check that no forbidden tool was called.

    Args:
        never: Names, in which ``*`` stands for any characters, or names with arguments.
        calls: Name and arguments of each call, and its turn; 0 if there are none.
    """
    made = [(name, msgspec.json.decode(encode(arguments)), turn) for name, arguments, turn in calls]
    for each in never:
        name = each if isinstance(each, str) else each.name
        arguments = {} if isinstance(each, str) else each.arguments or {}
        what = f"never {name}{f' with {shown_value(arguments)}' if arguments else ''}"
        why = next((_call(*each) for each in made if _matches(*each[:2], name, arguments)), None)
        yield StateCheck(what=what, ok=why is None, reason=why)


def _call(_: str, given: Any, turn: int) -> str:
    return f"it was called with {shown_value(given)}{f' in turn {turn}' if turn else ''}"


def _matches(called: str, given: Any, name: str, arguments: Mapping[str, Any]) -> bool:
    held = given if isinstance(given, Mapping) else {}
    return fnmatchcase(called, name) and all(
        key in held and same(held[key], value) for key, value in arguments.items()
    )


def _of_copy(end: End, what: str, ok: bool, why: str = "") -> StateCheck:
    """A check of the copied state. Without one it fails if the agent broke the state, and is else unknown."""
    if end.problem is not None:
        ok_or_unknown = False if end.broken else None
        return StateCheck(what=what, ok=ok_or_unknown, reason=f"the state cannot be compared: {end.problem}")
    return StateCheck(what=what, ok=ok, reason=None if ok else why)


def _at(end: End, path: str, found: Any, wanted: Any, *, forbidden: bool = False) -> StateCheck:
    """Check a value at a path; null stands for nothing."""
    equal = found is NOTHING or found is None if wanted is None else _equal(found, wanted)
    what = f"{'never ' if forbidden else ''}{path} = {shown_value(wanted)}"
    return _of_copy(end, what, equal != forbidden, f"it is {shown_value(found)}")


def _equal(one: Any, other: Any) -> bool:
    return one is other if one is NOTHING or other is NOTHING else same(one, other)


def _leaves(subset: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values of a subset with the keys that lead to them."""
    if isinstance(subset, Mapping) and subset:
        for key, held in subset.items():
            yield from _leaves(held, (*path, str(key)))
    else:
        yield path, subset


def _found(state: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(state, Mapping) or key not in state:
            return NOTHING
        state = state[key]
    return state


def _queried(end: End, query: str, wanted: Any, *, forbidden: bool) -> StateCheck:
    what = f"{'never ' if forbidden else ''}{shown(query)} = {shown_value(wanted)}"
    if end.broken:
        return _of_copy(end, what, ok=False)
    if end.database is None:
        return StateCheck(what=what, reason="a query needs a SQLite world: world: {sqlite: FILE}")
    try:
        found = _rows(end.database, query, wanted)
    except (sqlite3.Error, sqlite3.Warning) as error:
        return StateCheck(what=what, reason=f"the query failed: {reason(error)}")
    single = found[0][0] if len(found) == 1 and isinstance(found[0], list) and len(found[0]) == 1 else found
    compared = found if isinstance(wanted, list) else single
    equal = _loosely(compared, wanted) or (found == [] and wanted is None)
    ok = equal != forbidden
    return StateCheck(what=what, ok=ok, reason=None if ok else f"it is {shown_value(compared)}")


def _holds_objects(wanted: Any) -> bool:
    return isinstance(wanted, list) and any(isinstance(row, Mapping) for row in wanted)


def _loosely(found: Any, wanted: Any) -> bool:
    """Equality as SQLite has it, where a truth value is 0 or 1."""
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_loosely, found, wanted))
    if isinstance(found, dict) and isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(_loosely(found[key], wanted[key]) for key in found)
    if isinstance(wanted, bool) and is_number(found):
        return bool(found == wanted)
    return same(found, wanted)


def _rows(database: Path | sqlite3.Connection, query: str, wanted: Any) -> list[Any]:
    """The rows of a query that cannot change anything, and ends."""
    if isinstance(database, Path):
        opened = sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
        try:
            return _rows(opened, query, wanted)
        finally:
            opened.close()
    left = QUERY_STEPS // _PER_CALL

    def stop() -> int:
        nonlocal left
        left -= 1
        return int(left < 0)

    database.set_progress_handler(stop, _PER_CALL)
    cursor = database.cursor()
    cursor.row_factory = None
    try:
        cursor.execute("PRAGMA query_only = ON")
        cursor.execute(query)
        names = [column[0] for column in cursor.description or ()]
        most = max(ROWS_READ, len(wanted)) if isinstance(wanted, list) else ROWS_READ
        rows = [list(row) for row in cursor.fetchmany(most + 1)]
        return [dict(zip(names, row, strict=True)) for row in rows] if _holds_objects(wanted) else rows
    finally:
        cursor.execute("PRAGMA query_only = OFF")
        cursor.close()
        database.set_progress_handler(None, 0)


def _called(spec: str, case: Case, end: End, *, forbidden: bool) -> StateCheck:
    what = f"{'never ' if forbidden else ''}{spec}"
    if end.broken:
        return _of_copy(end, what, ok=False)
    try:
        function: Callable[[Any, Case], Any] = load_object(spec, what="function")
        answer = function(end.state, case)
    except InputError as error:
        return StateCheck(what=what, reason=str(error))
    except AssertionError as error:
        return StateCheck(what=what, ok=False, reason=reason(error))
    except Exception as error:  # of the suite's own code, not of the agent
        return StateCheck(what=what, reason=f"the function raised {reason(error)}")
    if isinstance(answer, str):
        return StateCheck(what=what, ok=False, reason=shown(answer))
    if not isinstance(answer, bool):
        found = type(answer).__name__
        return StateCheck(what=what, reason=f"the function returned {found}, expected True, False or a text")
    ok = answer != forbidden
    return StateCheck(what=what, ok=ok, reason=None if ok else f"the function returned {answer}")
