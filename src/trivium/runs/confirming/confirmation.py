"""Asks both sides of a comparison at once, batch after batch, until it is decided."""

import asyncio
import logging
import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

from trivium.errors import AgentError, ComparisonError, InputError
from trivium.metrics.registry import CASE_FIGURES
from trivium.runs.comparing.comparison import Comparison
from trivium.runs.comparing.decision import Options
from trivium.runs.comparing.earlier_runs import confirming_runs
from trivium.runs.confirming.agents import SideAgent, agent_of, base_agent_if_known
from trivium.runs.confirming.rounds import Rounds, Tallies, answered
from trivium.runs.confirming.sides import Evaluated, Side
from trivium.runs.pipeline import Progress
from trivium.runs.run import Run
from trivium.store.records import Confirms, End, RunRecord
from trivium.store.store import Store

log = logging.getLogger(__name__)

WHY_NOTHING: dict[End | None, str] = {
    "cases": "more attempts at these cases would hardly tell more; more cases would",
    "costs": "the calls would cost more than the wrong decisions that they prevent (costs.call)",
    "nothing": "no case has a value on both sides",
}


class Agents(NamedTuple):
    """The agents of both sides, as they were given.

    Attributes:
        head: That of head; None for the one that head names.
        base: That of base; None for the one that base names, if it is known to be of that version.
        version: Name of the version that ``head`` is.
    """

    head: Any
    base: Any
    version: str | None


class Confirmation:
    """Makes the attempts that decide a comparison.

    Args:
        store: The store of both runs, for writing.
        runs: Base and head.
        comparison: Their comparison.
        options: Its options.

    Raises:
        ComparisonError: If no metric decides it that single attempts have.
    """

    def __init__(self, store: Store, runs: tuple[Run, Run], comparison: Comparison, options: Options) -> None:
        if len(comparison.decided_by) != 1 or comparison.decided_by[0] in CASE_FIGURES:
            names = ", ".join(comparison.decided_by)
            what = (
                f"{names} cannot be asked again case by case: name one metric of attempts (decide: {{by: …}})"
            )
            raise ComparisonError(f"{runs[0].id} and {runs[1].id}", what)
        self._store, self._runs, self._comparison = store, runs, comparison
        self._tallies = Tallies(*runs, comparison.decided_by[0])
        self._options = options

    async def ask(self, agents: Agents, *, calls: int, progress: Progress) -> bool:
        """Ask until it is decided, or the calls are used up.

        Args:
            agents: The agents.
            calls: Most calls, with those of an earlier call that was interrupted.
            progress: Receives the progress.

        Returns:
            Whether anything was asked or finished.

        Raises:
            InputError: If an agent is wrong or broken.
            StoreError: If the store fails.
        """
        records = [run.record for run in self._runs]
        begun = [run for side in confirming_runs(self._store, *records, finished=False) for run in side]
        unfinished = [run for run in begun if run.state != "done"]
        if not unfinished and self._settled:
            return False
        found = self._agents(agents)
        budget = _budget(unfinished)
        paid = [run for run in begun if _of(run).budget == budget]
        used = sum(1 for run in paid for _ in self._store.attempt_keys(run))
        sides = {
            number: Side(
                self._runs[number],
                Confirms(run=records[number].id, against=records[1 - number].id, budget=budget),
                agent,
                next((run for run in unfinished if _of(run).run == records[number].id), None),
            )
            for number, agent in found.items()
        }
        if 0 not in sides and (of_base := [run for run in unfinished if _of(run).run == records[0].id]):
            what = "was begun with base's agent and is not finished: name that agent again (--base-agent)"
            raise InputError(f"run {of_base[0].id}", what)
        scored = sum(1 for run in paid for _ in self._store.attempt_keys(run, scored_only=True))
        progress.begin(run=records[1].id, total=calls, already=scored)
        try:
            end = await self._make(sides, max(0, calls - used), progress)
        except AgentError as error:
            for side in sides.values():
                if side.refused:
                    side.note(self._store, refused=str(error))
            raise
        finally:
            progress.end()
        for side in sides.values():
            side.note(self._store, end=end)
        return True

    @property
    def _settled(self) -> bool:
        """Whether there is nothing to ask; where it is not decided, that is logged."""
        comparison = self._comparison
        if comparison.unchanged or (comparison.confirmed is None and answered(comparison, self._options)):
            return True
        rounds = self._rounds(asked=(True, True), calls=1, used=0)
        settled = not rounds.next()
        if (why := WHY_NOTHING.get(rounds.end)) is not None:
            log.warning("nothing is asked again: %s", why)
        return settled

    def _rounds(self, *, asked: Sequence[bool], calls: int, used: int) -> Rounds:
        # Only with further attempts does the comparison rest on the model that decides when to stop.
        first = self._comparison.confirmed is None and not used
        return Rounds(self._tallies.counts, self._options, asked=asked, calls=calls, first=first)

    def _agents(self, given: Agents) -> dict[int, SideAgent]:
        """The agents by side; without base's if none is known to be of its version."""
        base, head = self._runs
        found = {1: agent_of(head, given.head, option="--agent", version=given.version)}
        of_base = (
            base_agent_if_known(base, head)
            if given.base is None
            else agent_of(base, given.base, option="--base-agent")
        )
        if isinstance(of_base, str):
            log.warning("base is not asked again: %s", of_base)
            return found
        return {0: of_base, **found}

    async def _make(self, sides: dict[int, Side], calls: int, progress: Progress) -> End | None:
        """Make one batch after the other, each once the attempts of the one before are scored.

        Returns:
            Why there is no further one.
        """
        async with AsyncExitStack() as stack:
            found = {
                number: await side.begin(self._store, progress, stack)
                for number, side in sides.items()
                if side.record is not None
            }
            used = sum(map(len, found.values()))
            rounds = self._rounds(asked=[number in sides for number in (0, 1)], calls=calls, used=used)
            while True:
                for number, evaluated in found.items():
                    self._take(rounds, number, sides[number], evaluated)
                batch = rounds.next()
                for side in sides.values():
                    side.check(last=not batch)
                if not batch:
                    return rounds.end
                cases: defaultdict[int, list[str]] = defaultdict(list)
                for number, place in batch:
                    cases[number].append(self._tallies.counts.cases[place])
                for number in cases:
                    if sides[number].record is None:
                        await sides[number].begin(self._store, progress, stack)
                found = await self._asked(sides, cases)

    async def _asked(self, sides: dict[int, Side], cases: Mapping[int, list[str]]) -> dict[int, Evaluated]:
        """Make an attempt at each of some cases of each side, both sides at once."""
        try:
            async with asyncio.TaskGroup() as group:
                asked = {number: group.create_task(sides[number].ask(cases[number])) for number in cases}
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return {number: task.result() for number, task in asked.items()}

    def _take(self, rounds: Rounds, number: int, side: Side, evaluated: Evaluated) -> None:
        places = self._tallies.places
        asked = [places[each.case] for _, each in evaluated if each.case in places]
        rounds.take(number, self._tallies.of(side.settings, evaluated), asked)


def _budget(unfinished: Iterable[RunRecord]) -> str:
    """The budget of the runs that are not finished, or a new one."""
    return next((_of(run).budget for run in unfinished), secrets.token_hex(4))


def _of(run: RunRecord) -> Confirms:
    found = run.provenance.confirms
    assert found is not None  # noqa: S101 - of kind confirm
    return found
