"""One side of a comparison whose agent is asked again: its confirming run, made by the engine of all runs."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from trivium.errors import InputError
from trivium.masking import mask
from trivium.runs.aggregation import AnyEvaluation
from trivium.runs.confirming.agents import SideAgent, check_all_failed
from trivium.runs.confirming.asker import SideAsker
from trivium.runs.confirming.preparation import next_repeats, prepared_again
from trivium.runs.execution import execute
from trivium.runs.origin import Origin
from trivium.runs.pipeline import NoProgress
from trivium.runs.provenance import CONFIRMS, Confirms, End
from trivium.runs.run import Run
from trivium.runs.start import begin
from trivium.store.records import RunRecord
from trivium.store.store import Store

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
        if resumed is not None and agent.named and mask(agent.adapter.name) != resumed.provenance["agent"]:
            what_else = f"confirming run {resumed.id} of {resumed.provenance['agent']} is not finished"
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
        confirms = {
            CONFIRMS: msgspec.to_builtins(self._what),
            "notes": [f"{chosen} {self._what.against}: its figures are not those of the suite"],
        }
        origin = Origin(self._agent.adapter, confirms=confirms | self._agent.version)
        begun = begin(
            self._prepared,
            origin,
            store,
            engine="local",
            partitions=None,
            resume=None if self.record is None else self.record.id,
            stop=None,
            version=None,
        )
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
                check_all_failed(self._agent.adapter.name, reasons)

    def note(self, store: Store, *, refused: str | None = None, end: End | None = None) -> None:
        """Note in the confirming run why its attempts do not count, or why there are no further ones."""
        if self.record is not None:
            what = msgspec.to_builtins(msgspec.structs.replace(self._what, refused=refused, end=end))
            store.set_provenance(self.record, self.record.provenance | {CONFIRMS: what})
