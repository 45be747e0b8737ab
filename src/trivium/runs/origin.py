"""Where the attempts of a run come from: an agent, recorded outputs, or a stored run."""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import Any

import msgspec

from trivium.agents.adapters.function import with_own_loop
from trivium.agents.attempt import AgentAdapter
from trivium.agents.loading import load_agent
from trivium.agents.recorded import Carried, Recorded, open_recorded
from trivium.agents.recorded.outputs import RecordedOutputs, listed_outputs
from trivium.errors import AgentError, InputError, OutputsError
from trivium.masking import mask
from trivium.runs.event_loop import in_trivium_thread
from trivium.runs.provenance import recorded_version
from trivium.store.records import Provenance, RunKind, RunRecord
from trivium.suites.agent_settings import AgentSettings, without_secrets
from trivium.suites.monitor_settings import without_channel_secrets
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite

A_WORLD = "world: package.module:factory, or world: {json: FILE}"
"""What a suite with a world says."""

TAKES_WORLD = (
    "it can neither see nor change it (a function gets it in its parameter world, an agent of PydanticAI by "
    "deps_type=trivium.World, an endpoint its path for {world} in the body)"
)
"""What an agent that takes no world has to do about it."""

log = logging.getLogger(__name__)


def setting_and_factory(world: Any) -> tuple[Any, Callable[..., Any] | None]:
    """The setting ``world`` that a run stores, and the function that makes worlds if it was given as one."""
    if not callable(world):
        return world, None
    named = world if hasattr(world, "__qualname__") else type(world)
    words = re.sub(r"[^\w.]", "_", f"{named.__module__}.{named.__qualname__}".replace("<locals>.", ""))
    module, _, name = words.rpartition(".")
    return f"{module}:{name}", world


@dataclass(frozen=True)
class Origin:
    """Where the attempts of a run come from.

    Args:
        agent: The agent to call.
        outputs: A file of recorded outputs or another source, a list of mappings or Attempts, a data frame.
        attempts_of: Id of a stored run whose attempts are scored again.
        leave_one_out: Score human outputs against the other human outputs of their case.
        skip_invalid: Leave out outputs with mistakes.
        confirms: What the provenance of a run of kind ``confirm`` says of it; None for other runs.
        factory: The function that makes the world of an attempt, if it is given as such.

    Raises:
        InputError: If not exactly one of agent, outputs and attempts_of is given.
    """

    agent: Any
    outputs: Any = None
    attempts_of: str | None = None
    leave_one_out: bool = False
    skip_invalid: bool = False
    confirms: Provenance | None = None
    factory: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.agent, self.outputs, self.attempts_of)) != 1:
            what = "give exactly one of agent, outputs, attempts_of, or a suite that names its agent"
            raise InputError("", what)

    def stored(self, settings: Settings) -> Settings:
        """The settings as a run stores them: with the agent only if it is the suite's, without secrets."""
        named = isinstance(self.agent, str | AgentSettings) and self.agent == settings.agent
        return msgspec.structs.replace(
            settings,
            agent=without_secrets(settings.agent) if named else None,
            monitor=without_channel_secrets(settings.monitor),
        )

    @property
    def kind(self) -> RunKind:
        """Kind of the run."""
        if self.confirms is not None:
            return "confirm"
        if self.leave_one_out:
            return "human"
        return "recorded" if self.outputs is not None else "agent"

    def version(self, named: str | None, source: RunRecord | None) -> Provenance:
        """Return the provenance of the agent's version: its name, its source, and the confirmed run.

        Args:
            named: The version's name, if it has one.
            source: The run whose attempts are scored again, if any.

        Raises:
            InputError: If the name is blank.
        """
        if self.confirms is not None:
            return self.confirms
        known = recorded_version(named, self.agent, source)
        findable = isinstance(self.agent, str) and mask(self.agent) == self.agent
        return msgspec.structs.replace(known, called_as=self.agent if findable else None)

    @property
    def saves(self) -> str:
        """The requests that early stopping saves: calls of the agent, judgements, or none."""
        if self.agent is not None:
            return "calls"
        return "judgements" if self.outputs is not None and not self.leave_one_out else ""

    def adapter(self, settings: Settings) -> AgentAdapter | None:
        """The agent, if one is called, in the world of the settings.

        Raises:
            InputError: If it, or its world, cannot be loaded.
        """
        if self.agent is None:
            return None
        loaded = load_agent(self.agent)
        adapter = with_own_loop(loaded) if in_trivium_thread() else loaded
        if settings.world is None:
            if getattr(loaded, "needs_world", False):
                raise AgentError(loaded.name, f"takes a world, and the suite has none: {A_WORLD}")
            return adapter
        from trivium.agents.worlds.agent import AgentInWorlds  # loads httpx

        if not getattr(loaded, "takes_world", True):
            log.warning("the suite has a world, and %s takes none: %s", loaded.name, TAKES_WORLD)
        return AgentInWorlds(adapter, settings.world, self.factory)

    def outputs_opened(self, suite: Suite, settings: Settings) -> Recorded | None:
        """Open the recorded outputs, if there are any, which checks all of them.

        Args:
            suite: The suite.
            settings: Settings of the run.

        Raises:
            InputError: With the mistakes, or if the options do not go together.
        """
        if self.skip_invalid and self.outputs is None:
            raise InputError("", "--skip-invalid leaves out invalid recorded outputs: give --outputs")
        if self.skip_invalid and settings.until_decided:
            why = "which outputs are invalid might depend on how good they are"
            raise InputError("", f"--skip-invalid and --until-decided exclude each other: {why}")
        if self.outputs is None or isinstance(self.outputs, Carried):
            return self.outputs
        if isinstance(self.outputs, str | PathLike):
            return open_recorded(
                str(self.outputs), suite, leave_one_out=self.leave_one_out, skip_invalid=self.skip_invalid
            )
        if self.leave_one_out:
            what = "leave_one_out needs a source of people's outputs, such as peerread:FOLDER"
            raise OutputsError("outputs", what)
        return RecordedOutputs([listed_outputs(self.outputs)], suite, skip_invalid=self.skip_invalid)

    def name(self, adapter: AgentAdapter | None, scored_before: RunRecord | None) -> str:
        """Readable name of the agent, the run or the outputs that the attempts come from."""
        if adapter is not None:
            return mask(adapter.name)
        if scored_before is not None:
            return f"attempts of run {scored_before.id}"
        if isinstance(self.outputs, Carried):
            return self.outputs.name
        return str(self.outputs) if isinstance(self.outputs, str | PathLike) else "outputs in memory"
