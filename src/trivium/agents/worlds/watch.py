"""Looks at the world of one attempt: after calls of its tools, after turns, and at the end.

Definition: docs/definitions/worlds.md#never.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

import msgspec

from trivium.agents.attempt import StateCheck, WorldRecord
from trivium.agents.failures import reason
from trivium.agents.worlds.checks import End, ended, forbidden, forbidden_calls
from trivium.agents.worlds.state import NOTHING, StateTooLarge, same, shown_value, snapshot
from trivium.agents.worlds.world import World
from trivium.any_object import encode
from trivium.suites.case import Case, ExpectedTool
from trivium.values import JsonObject

LARGEST_FILE = 50_000_000
"""Largest file with a JSON state that is read, in bytes."""

MOST_CALLS = 10_000
"""Most calls of tools that are remembered, and after which the state is looked at."""

MOST_COPIED = 20_000_000
"""Most bytes of JSON that are copied of a state after calls of tools; about five seconds."""


class Watch:
    """Looks at the world of one attempt.

    Args:
        name: Name of the world.
        world: The world.
        database: The SQLite database, if the state is in one.
        in_file: The file that holds the state, if an agent changes it there.
        replay: Returns the copy of the state that calls leave in a new world; None if it has no tools.
    """

    def __init__(
        self,
        name: str,
        world: World,
        *,
        database: Path | sqlite3.Connection | None,
        in_file: Path | None,
        replay: Callable[[Sequence[ExpectedTool]], Any] | None,
    ) -> None:
        self._name, self._world = name, world
        self._database, self._in_file, self._replay = database, in_file, replay
        self._before: Any = NOTHING
        self._problem: str | None = None
        self._lock = RLock()
        self._case: Case | None = None
        self._copies = False
        self._running = self._turn = self._number = self._looks_left = self._missed = 0
        self._calls: list[tuple[str, JsonObject, int]] = []
        self._standing: set[int] = set()
        self._broken: dict[int, StateCheck] = {}
        self._unknown: dict[int, StateCheck] = {}

    def begin(self, case: Case) -> None:
        """Copy the start, and look at what must never be so from now on."""
        self._before, self._problem, _ = self.copied(None)
        never = case.expect.never
        if never is None or not (never.changes or never.values or never.query or never.function):
            return
        self._case = case
        self._copies = bool(never.changes or never.values) or self._in_file is not None
        size = len(encode(self._before)) if self._copies and self._problem is None else 0
        self._looks_left = min(MOST_CALLS, MOST_COPIED // max(1, size))
        held = forbidden(case, self._end(None))
        self._standing = {place for place, check in enumerate(held) if check.ok is False}

    @contextmanager
    def called(self, name: str, arguments: JsonObject) -> Iterator[None]:
        """Note a call of a tool, and look at the state after it, unless another call is running."""
        with self._lock:
            self._running += 1
            self._number += 1
            call = f"call {self._number}, {name} with {shown_value(arguments)}"
            if len(self._calls) < MOST_CALLS:
                self._calls.append((name, arguments, self._turn))
        try:
            yield
        finally:
            with self._lock:  # no call begins while it is looked
                if self._running == 1:
                    self._after_call(call)
                self._running -= 1

    def _after_call(self, call: str) -> None:
        if self._looks_left:
            self._looks_left -= 1
            self._look(f"after {call}{f', in turn {self._turn}' if self._turn else ''}")
        else:
            self._missed += self._case is not None

    def turn_begins(self, turn: int) -> tuple[int, Any]:
        """Return what :meth:`untouched` has to know."""
        self._turn = turn
        return self._number, self.copied(self._in_file)[0]

    def turn_ends(self) -> None:
        """Look at what must never be so after a turn."""
        with self._lock:
            self._look(f"after turn {self._turn}")

    def untouched(self, begun: tuple[int, Any]) -> bool:
        """Whether no tool was called and the state is the same since the turn began."""
        number, before = begun
        now = self.copied(self._in_file)[0]
        return self._number == number and before is not NOTHING and now is not NOTHING and same(before, now)

    def _look(self, when: str) -> None:
        if self._case is None:
            return
        for place, check in enumerate(forbidden(self._case, self._end(self._in_file, copied=self._copies))):
            told = msgspec.structs.replace(check, reason=f"{check.reason} ({when})")
            if check.ok:
                self._standing.discard(place)
            elif check.ok is None:
                self._unknown.setdefault(place, told)
            elif place not in self._standing:
                self._broken.setdefault(place, told)

    def ended(self, case: Case) -> WorldRecord:
        """Compare the end with the start, and with what a case expects."""
        end = self._end(self._in_file)
        with self._lock:
            never = [self._outcome(place, check) for place, check in enumerate(forbidden(case, end))]
        tools = () if case.expect.never is None else case.expect.never.tools
        calls = tuple(forbidden_calls(tools, self._calls)) if self._world.tools else None
        return msgspec.structs.replace(ended(self._name, case, end, never), calls=calls)

    def _outcome(self, place: int, at_the_end: StateCheck) -> StateCheck:
        """What became of an expectation: broken at any time, else unknown at any time, else it holds."""
        if place in self._broken or at_the_end.ok is False:
            return self._broken.get(place, at_the_end)
        found = self._unknown.get(place, at_the_end)
        if found.ok and self._missed:
            why = (
                f"the state is large, and was not looked at after the last calls of tools ({self._missed:,})"
            )
            return StateCheck(what=found.what, ok=True, reason=why)
        return found

    def _end(self, in_file: Path | None, *, copied: bool = True) -> End:
        """The state as it is now."""
        after, problem, broken = self.copied(in_file) if copied else (NOTHING, "it was not copied", False)
        state = self._world.state if in_file is None else after
        broken = broken and self._problem is None
        problem = self._problem or problem
        return End(state, self._before, after, problem, broken, self._database, self._replay)

    def copied(self, in_file: Path | None) -> tuple[Any, str | None, bool]:
        """The state as JSON; why it has none, and whether that is the agent's fault.

        Args:
            in_file: The file that holds it; None takes what the agent was given.
        """
        database = self._database
        try:
            if in_file is not None:
                if in_file.stat().st_size > LARGEST_FILE:
                    raise StateTooLarge(f"it is larger than {LARGEST_FILE:,} bytes")
                return snapshot(msgspec.json.decode(in_file.read_bytes())), None, False
            if isinstance(database, Path):
                uri = f"{database.absolute().as_uri()}?mode=ro"
                with closing(sqlite3.connect(uri, uri=True)) as connection:
                    return snapshot(connection), None, False
            return snapshot(self._world.state), None, False
        except StateTooLarge as error:
            return NOTHING, f"{error}; a method snapshot may return less", in_file is not None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, sqlite3.Error) as error:
            copied = in_file is not None or isinstance(database, Path) or isinstance(self._world.state, Path)
            return NOTHING, reason(error), copied
        except Exception as error:  # of the state's own code
            return NOTHING, reason(error), False
