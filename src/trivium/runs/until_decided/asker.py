"""Hands out the attempts of a run in random order, until an answer is decided.

Definition: docs/definitions/comparisons.md#until-decided.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from threading import Lock

from trivium.runs.aggregation import AnyEvaluation
from trivium.runs.engines.agent import InTurn
from trivium.runs.pipeline import Planned
from trivium.runs.until_decided.difference import ComparisonWith
from trivium.runs.until_decided.gates import Gates
from trivium.runs.until_decided.order import GroupOrder, tags_of
from trivium.store.records import RunRecord
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite


class Asker:
    """Hands out the attempts of a run in random order until its gates, or a comparison, are decided.

    Attempts are handed out on the thread of the event loop, evaluations arrive on that of the scores.

    Args:
        run: The run.
        suite: The suite.
        settings: Its settings.
        comparison: The comparison that is to be decided, at the cases that it has; None for the gates of the
            settings.
    """

    def __init__(
        self,
        run: RunRecord,
        suite: Suite,
        settings: Settings,
        comparison: ComparisonWith | None = None,
    ) -> None:
        self._settings = settings
        judged = settings.judge.concurrency if settings.judge is not None else None
        self._ahead = max(settings.limits.attempts_at_once, judged or 0)
        """Most attempts that are handed out and not evaluated yet; more would mostly be asked in vain."""
        groups: defaultdict[str, list[int]] = defaultdict(list)
        for position, case in enumerate(suite):
            if comparison is None or case.id in comparison.cases:
                groups[suite.group_of(case)].append(position)
        tagged = ((name, suite.cases[position]) for name, at in groups.items() for position in at)
        self._groups = GroupOrder(run.id, tags_of(tagged))
        self._order = [groups[name] for name in self._groups.names]
        self._suite = suite
        self._decider = comparison or Gates(settings, [len(positions) for positions in self._order])
        self._evaluations: defaultdict[int, list[AnyEvaluation]] = defaultdict(list)
        self._next_group = 0
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._room: asyncio.Event | None = None
        self._waiting: set[tuple[int, int]] = set()

    @property
    def decided(self) -> bool:
        """Whether the answer is decided."""
        return self._decider.decided

    def attempts(self, stored: Set[tuple[int, int]]) -> InTurn:
        """The attempts to be made, until the answer is decided."""
        return InTurn(self._remaining(stored), self._has_room)

    def _remaining(self, stored: Set[tuple[int, int]]) -> Iterator[Planned]:
        """Yield position, case and repeat of each attempt to be made; of the last group all of them."""
        for positions in self._order:
            if self.decided:
                return
            for position in positions:
                case = self._suite.cases[position]
                for repeat in range(self._settings.repeats):
                    if (position, repeat) not in stored:
                        with self._lock:
                            self._waiting.add((position, repeat))
                        yield position, case, repeat

    async def _has_room(self) -> None:
        """Wait until another attempt should be handed out, or the answer is decided."""
        self._loop = asyncio.get_running_loop()
        while not self.decided:
            with self._lock:
                if len(self._waiting) < self._ahead:
                    return
                room = self._room = self._room or asyncio.Event()
            await room.wait()

    def take(self, evaluated: Iterable[tuple[int, AnyEvaluation]]) -> None:
        """Take evaluations of attempts, each with the position of its case, in any order."""
        arrived = set()
        for position, evaluation in evaluated:
            self._evaluations[position].append(evaluation)
            arrived.add((position, evaluation.repeat))
        while self._next_group < len(self._order) and all(
            len(self._evaluations[position]) >= self._settings.repeats
            for position in self._order[self._next_group]
        ):
            positions = self._order[self._next_group]
            evaluations = [self._evaluations.pop(position) for position in positions]
            self._decider.take(
                evaluations,
                cluster=self._groups.names[self._next_group],
                handicap=self._groups.handicaps[self._next_group],
            )
            self._next_group += 1
        with self._lock:
            self._waiting -= arrived
            room, self._room = self._room, None
        if room is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(room.set)
