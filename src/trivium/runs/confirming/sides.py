"""One side of a comparison whose agent is asked again: its confirming run, made by the engine of all runs."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import msgspec

from trivium.errors import AgentError, InputError
from trivium.masking import mask
from trivium.runs.aggregation import AnyEvaluation
from trivium.runs.confirming.agents import SideAgent, next_repeats, prepared_again
from trivium.runs.execution import execute
from trivium.runs.origin import Origin
from trivium.runs.pipeline import NoProgress
from trivium.runs.run import Run
from trivium.runs.start import begin
from trivium.runs.until_decided.asker import Planned
from trivium.store.browsing.before import forget_answers
from trivium.store.records import Confirms, End, RunRecord
from trivium.store.store import Store
from trivium.suites.suite import Suite

Arrived = Callable[[list[tuple[int, AnyEvaluation]]], None]


class SideAsker:
    """Hands out the attempts of one side, and passes their evaluations on.

    Args:
        suite: The suite of the side.
        repeats: The next repeat of each case, by its position.
        arrived: Takes the evaluations, on the thread of the event loop.
    """

    def __init__(self, suite: Suite, repeats: Mapping[int, int], arrived: Arrived) -> None:
        self._suite, self._repeats, self._arrived = suite, dict(repeats), arrived
        self._loop = asyncio.get_running_loop()
        self._planned: deque[Planned] = deque()
        self._ended = False
        self._changed = asyncio.Event()

    def plan(self, position: int) -> None:
        """Have another attempt made at the case at a position."""
        repeat = self._repeats[position]
        self._repeats[position] = repeat + 1
        self.postpone((position, self._suite.cases[position], repeat))

    def end(self) -> None:
        """Say that no further attempts will be planned."""
        self._ended = True
        self._changed.set()

    async def wanted(self) -> bool:
        """Wait until an attempt is planned, or none will be; say which."""
        while not (self._planned or self._ended):
            self._changed.clear()
            await self._changed.wait()
        return bool(self._planned)

    def attempts(self, stored: Set[tuple[int, int]]) -> "SideAsker":
        """The attempts as they are planned."""
        return self

    async def next(self) -> Planned | None:
        """The next planned attempt; None once there will be none."""
        return self._planned.popleft() if await self.wanted() else None

    def postpone(self, planned: Planned) -> None:
        """Hand an attempt out again, later."""
        self._planned.append(planned)
        self._changed.set()

    def take(self, evaluated: Iterable[tuple[int, AnyEvaluation]]) -> None:
        """Pass evaluations on, each with the position of its case. From any thread."""
        self._loop.call_soon_threadsafe(self._arrived, list(evaluated))


FEWEST_FAILURES = 4
"""Attempts of a side of which one must have an answer, or the agent is taken to be broken."""


class Arrival(NamedTuple):
    """Evaluations of attempts of a side, each with the position of its case."""

    side: int
    evaluated: list[tuple[int, AnyEvaluation]]


class Side:
    """One side whose agent is asked again.

    Args:
        number: 0 for base, 1 for head.
        run: Its run.
        what: What its confirming run is for.
        agent: Its agent.
        resumed: A confirming run that was begun before; None for a new one.
        arrivals: Receives the evaluations.

    Attributes:
        settings: Settings of the confirming run.
        positions: Position of each case in the suite of the side.
        stored: Position and repeat of the attempts that were made before.
    """

    def __init__(
        self,
        number: int,
        run: Run,
        what: Confirms,
        agent: SideAgent,
        resumed: RunRecord | None,
        arrivals: asyncio.Queue[Arrival],
    ) -> None:
        self.run, self._what, self._agent, self.record = run, what, agent, resumed
        self._prepared = prepared_again(run)
        self.settings = self._prepared.settings
        suite = self._prepared.suite
        self.positions = {case.id: position for position, case in enumerate(suite)}
        if resumed is not None and agent.named and mask(agent.adapter.name) != resumed.provenance.agent:
            what_else = f"confirming run {resumed.id} of {resumed.provenance.agent} is not finished"
            raise InputError(agent.adapter.name, f"{what_else}: go on with the same agent")
        self.stored = [] if resumed is None else list(run.store.attempt_keys(resumed))
        self.asker = SideAsker(
            suite, next_repeats(run), lambda found: arrivals.put_nowait(Arrival(number, found))
        )
        self._reasons: list[str | None] = []
        self._asked: set[int] = set()

    async def make(self, store: Store) -> None:
        """Make the confirming run, if any attempt of the side is planned."""
        if self.record is None and not await self.asker.wanted():
            return
        chosen = f"further attempts at cases of run {self.run.id}, chosen to compare it with"
        note = f"{chosen} {self._what.against}: its figures are not those of the suite"
        confirms = msgspec.structs.replace(self._agent.version, confirms=self._what, notes=(note,))
        origin = Origin(self._agent.adapter, confirms=confirms)
        resume = None if self.record is None else self.record.id
        begun = begin(self._prepared, origin, store, resume=resume)
        self.record = begun.run
        await execute(begun, workers=1, engine="local", progress=NoProgress(), chooser=self.asker)

    def saw(self, evaluated: Sequence[tuple[int, AnyEvaluation]]) -> None:
        """Note which attempts failed."""
        self._reasons += [evaluation.failed for _, evaluation in evaluated]
        self._asked |= {position for position, _ in evaluated}

    def check(self, *, last: bool) -> None:
        """Refuse an agent of which every attempt failed, although the run had answers for these cases.

        Args:
            last: Whether there will be no further attempts.

        Raises:
            AgentError: If so.
        """
        reasons = [reason for reason in self._reasons if reason is not None]
        if not reasons or len(reasons) < len(self._reasons):
            return
        if last or len(reasons) >= FEWEST_FAILURES:
            outlines = self.run.store.outlines(self.run.record)
            if any(each.failed is None for position, each in outlines if position in self._asked):
                what = (
                    f"all of the first {len(reasons):,} attempts failed, at cases that the run answered "
                    f"(first: {reasons[0]}): nothing is decided by them, and they do not count"
                )
                raise AgentError(self._agent.adapter.name, what)

    def note(self, store: Store, *, refused: str | None = None, end: End | None = None) -> None:
        """Note in the confirming run why its attempts do not count, or why there are no further ones."""
        if self.record is not None:
            what = msgspec.structs.replace(self._what, refused=refused, end=end)
            store.set_provenance(self.record, msgspec.structs.replace(self.record.provenance, confirms=what))
            forget_answers(store, [self._what.run, self._what.against])
