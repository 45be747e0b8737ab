"""Finds states that two attempts share, so that one would see what the other did."""

import dataclasses
import sys
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping, MutableSequence, MutableSet, Sequence
from enum import Enum
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any

import msgspec

from trivium.agents.attempt import AgentFailure
from trivium.suites.case import Case

MOST_PARTS = 10_000
"""Most parts of a state that are compared with those of others."""

REMEMBERED = 32
"""Number of closed states that are still compared with new ones."""

REMEDY = (
    "it must make a new one each time, such as copy.deepcopy(START); what is only read may be a tuple or a "
    "types.MappingProxyType"
)
"""What a factory that shares a state has to do."""

_IMMUTABLE = (
    str,
    bytes,
    int,
    float,
    complex,
    bool,
    type(None),
    tuple,
    frozenset,
    Enum,
    Path,
    MappingProxyType,
)


class Claim:
    """The state of an attempt.

    Attributes:
        spoiled: Who else got it; None if nobody did.
    """

    def __init__(self, name: str, keys: Sequence[object], state: Any) -> None:
        self.name, self.keys = name, keys
        self.spoiled: str | None = None
        self._state = state  # held, because its parts are told apart by their identity


class SharedStates:
    """Knows the mutable parts of the states in use, and of the last ones that were closed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._owners: dict[object, Claim] = {}
        self._closed: deque[Claim] = deque()

    def claim(self, name: str, state: Any, case: Case) -> Claim:
        """Note the state of an attempt.

        Args:
            name: The attempt.
            state: Its state.
            case: Its case, whose own parts may not be changed either.

        Raises:
            AgentFailure: If another attempt, or the case, has a part of it.
        """
        parts = list(_mutable_parts(state))
        of_case = {key for key, where, _ in _mutable_parts(case) if where}
        with self._lock:
            for key, where, kind in parts:
                what = f"the same {kind}{f' ({where})' if where else ''}"
                other = self._owners.get(key)
                if other is not None:
                    other.spoiled = f"{name} got {what}"
                if other is not None or key in of_case:
                    owner = "its case has" if other is None else f"{other.name} got"
                    raise AgentFailure(f"the factory gave {name} {what} that {owner}: {REMEDY}")
            claim = Claim(name, [key for key, _, _ in parts], state)
            self._owners.update(dict.fromkeys(claim.keys, claim))
            return claim

    def release(self, claim: Claim) -> None:
        """Note that a state is closed; of the closed ones the last are still compared."""
        with self._lock:
            self._forget(claim, [key for key in claim.keys if isinstance(key, str)])  # a file is made anew
            self._closed.append(claim)
            while len(self._closed) > REMEMBERED:
                oldest = self._closed.popleft()
                self._forget(oldest, oldest.keys)

    def _forget(self, claim: Claim, keys: Sequence[object]) -> None:
        for key in keys:
            if self._owners.get(key) is claim:
                del self._owners[key]


def _mutable_parts(state: Any) -> Iterator[tuple[object, str, str]]:
    """The identity, the place and the kind of the mutable parts of a state, the first ``MOST_PARTS``."""
    waiting: deque[tuple[Any, str]] = deque([(state, "")])
    seen: set[int] = set()
    while waiting and len(seen) < MOST_PARTS:
        part, where = waiting.popleft()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Path):
            if not where:
                yield str(part.absolute()), where, "folder"
            continue
        if not isinstance(part, _IMMUTABLE):
            yield id(part), where, type(part).__name__
        waiting.extend(_below(part, where))


def _below(part: Any, where: str) -> Iterator[tuple[Any, str]]:
    if isinstance(part, MappingProxyType):
        return
    if isinstance(part, Mapping):
        steps = [(str(key), held) for key, held in part.items()]
    elif isinstance(part, tuple | frozenset | MutableSequence | MutableSet | deque):
        steps = [(str(place), held) for place, held in enumerate(part)]
    elif isinstance(part, msgspec.Struct):
        steps = list(msgspec.structs.asdict(part).items())
    elif dataclasses.is_dataclass(part) and not isinstance(part, type):
        steps = [(each.name, getattr(part, each.name, None)) for each in dataclasses.fields(part)]
    elif hasattr(part, "__dict__") and not callable(part):
        steps = list(vars(part).items())
    else:
        return
    for name, held in steps:
        if _is_state(held):
            yield held, f"{where}.{name}" if where else name


def _is_state(held: Any) -> bool:
    """Whether a part belongs to the state, rather than to the program, as a logger or a lock does."""
    if isinstance(held, tuple | frozenset | MutableMapping | MutableSequence | MutableSet | deque):
        return True
    if isinstance(held, (*_IMMUTABLE, type)) or callable(held):
        return False
    return type(held).__module__.partition(".")[0] not in {*sys.stdlib_module_names, "builtins", "trivium"}
