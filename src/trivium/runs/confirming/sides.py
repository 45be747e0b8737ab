"""One side of a comparison whose agent is asked again: its confirming run, made by the engine of all runs."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

import msgspec

from trivium.errors import AgentError, InputError
from trivium.masking import mask
from trivium.runs.confirming.agents import SideAgent, next_repeats, prepared_again
from trivium.runs.engines.agent import InTurn, ask_and_score, calls_of
from trivium.runs.execution import running
from trivium.runs.origin import Origin
from trivium.runs.pipeline import NoProgress, Planned, Progress
from trivium.runs.run import Run
from trivium.runs.start import begin
from trivium.store.browsing.before import forget_answers
from trivium.store.records import Confirms, End, EvaluationOutline, RunRecord
from trivium.store.store import Store

FEWEST_FAILURES = 4
"""Attempts of a side of which one must have an answer, or the agent is taken to be broken."""

Evaluated = list[tuple[int, EvaluationOutline]]
"""Evaluations of attempts of a side, each with the position of its case."""


class _Share(NoProgress):
    """Reports the progress of a side as part of the whole, on the thread of the event loop."""

    def __init__(self, whole: Progress) -> None:
        self._whole, self._loop = whole, asyncio.get_running_loop()

    def advance(self, *, done: int, failed: int) -> None:
        """Pass it on."""
        self._loop.call_soon_threadsafe(lambda: self._whole.advance(done=done, failed=failed))


class Side:
    """One side whose agent is asked again.

    Args:
        run: Its run.
        what: What its confirming run is for.
        agent: Its agent.
        resumed: A confirming run that was begun before; None for a new one.

    Attributes:
        settings: Settings of the confirming run.
        record: The confirming run; None as long as no attempt was wanted.
        refused: Whether the agent was refused, as its attempts failed.
    """

    def __init__(self, run: Run, what: Confirms, agent: SideAgent, resumed: RunRecord | None) -> None:
        self.run, self._what, self._agent, self.record = run, what, agent, resumed
        self._prepared = prepared_again(run)
        self.settings = self._prepared.settings
        self._cases = {case.id: (position, case) for position, case in enumerate(self._prepared.suite)}
        if resumed is not None and agent.named and mask(agent.adapter.name) != resumed.provenance.agent:
            what_else = f"confirming run {resumed.id} of {resumed.provenance.agent} is not finished"
            raise InputError(agent.adapter.name, f"{what_else}: go on with the same agent")
        self._repeats = next_repeats(run)
        self._ask: Callable[[list[Planned]], Awaitable[None]] | None = None
        self.refused = False
        self._reasons: list[str | None] = []
        self._asked: set[int] = set()

    async def begin(self, store: Store, progress: Progress, stack: AsyncExitStack) -> Evaluated:
        """Begin the confirming run, or go on with it; return what was stored before, scored.

        Args:
            store: The store.
            progress: The progress of both sides.
            stack: Ends the run.
        """
        chosen = f"further attempts at cases of run {self.run.id}, chosen to compare it with"
        note = f"{chosen} {self._what.against}: its figures are not those of the suite"
        confirms = msgspec.structs.replace(self._agent.version, confirms=self._what, notes=(note,))
        origin = Origin(self._agent.adapter, confirms=confirms)
        begun = begin(self._prepared, origin, store, resume=None if self.record is None else self.record.id)
        self.record, adapter = begun.run, begun.adapter
        assert adapter is not None  # noqa: S101 - an origin with an agent has one
        pipeline, users = await stack.enter_async_context(running(begun, progress=_Share(progress)))
        await pipeline.score_all(store.attempts(begun.run, unscored_only=True), save=False)

        async def ask(planned: list[Planned]) -> None:
            most = self.settings.limits.attempts_at_once
            calls = calls_of(adapter, self.settings, users)
            await ask_and_score(InTurn(iter(planned)), calls, pipeline, concurrency=most)

        self._ask = ask
        return self._saw(list(store.outlines(begun.run)))

    async def ask(self, cases: Sequence[str]) -> Evaluated:
        """Make another attempt at each of some cases; return their evaluations."""
        assert self._ask is not None and self.record is not None  # noqa: S101, PT018 - begin sets them
        planned = [
            (position, case, self._repeats[position])
            for position, case in map(self._cases.__getitem__, cases)
        ]
        for position, _, repeat in planned:
            self._repeats[position] = repeat + 1
        await self._ask(planned)
        made = {(position, repeat) for position, _, repeat in planned}
        found = [each for each in self.run.store.outlines(self.record) if (each[0], each[1].repeat) in made]
        return self._saw(found)

    def _saw(self, evaluated: Evaluated) -> Evaluated:
        """Note which attempts failed."""
        self._reasons += [evaluation.failed for _, evaluation in evaluated]
        self._asked |= {position for position, _ in evaluated}
        return evaluated

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
                self.refused = True
                raise AgentError(self._agent.adapter.name, what)

    def note(self, store: Store, *, refused: str | None = None, end: End | None = None) -> None:
        """Note in the confirming run why its attempts do not count, or why there are no further ones."""
        if self.record is not None:
            what = msgspec.structs.replace(self._what, refused=refused, end=end)
            store.set_provenance(self.record, msgspec.structs.replace(self.record.provenance, confirms=what))
            forget_answers(store, [self._what.run, self._what.against])
