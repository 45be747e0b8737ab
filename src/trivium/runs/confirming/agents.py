"""Finds the agent by which a side of a comparison is asked again, and prepares the run that asks it."""

import os
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from trivium.agents.attempt import AgentAdapter
from trivium.agents.loading import load_agent
from trivium.errors import ComparisonError, InputError, Problem
from trivium.runs.checks import prepared
from trivium.runs.comparing.decision import differences_from
from trivium.runs.pipeline import Prepared
from trivium.runs.provenance import fingerprint, measuring
from trivium.runs.run import Run
from trivium.store.records import Provenance
from trivium.suites.agent_settings import AgentSettings
from trivium.suites.suite import Suite

SUITE_FILES = (".yaml", ".yml", ".json", ".toml")


class SideAgent(NamedTuple):
    """The agent of one side.

    Attributes:
        adapter: The agent.
        named: How it was named, if by a text.
        version: What the provenance of its attempts says of its version.
    """

    adapter: AgentAdapter
    named: str | None
    version: Provenance


def agent_of(run: Run, given: Any, *, option: str, version: str | None = None) -> SideAgent:
    """Load the agent of a run.

    Args:
        run: The run.
        given: The agent, or a suite file that names it; None for the one that the run names.
        option: The option that gives it, for messages.
        version: Name of the version that it is, if it has one.

    Raises:
        InputError: If there is none, it cannot be loaded, or it is of another version than the run.
    """
    named = run.provenance.version
    if version is not None and version.strip() != named:
        found = f"version {named}" if named else "no named version"
        raise InputError("version", f"run {run.id} is of {found}, not of {version.strip()}")
    agent = _recorded(run, option) if given is None else given
    if isinstance(agent, str) and agent.endswith(SUITE_FILES):
        suite = Suite.load(agent)
        if (agent := suite.settings.agent) is None:
            raise InputError(suite.source or suite.name, f"names no agent; {option} needs one")
    adapter = load_agent(agent)
    recorded = run.provenance.fingerprint
    now = _fingerprint(agent, run.provenance.called_as) if isinstance(agent, str) else None
    if recorded is not None and now is not None and now != recorded:
        raise InputError(
            adapter.name,
            f"is not the version that run {run.id} was made with: code, commit, or an environment variable "
            f"with a model or a prompt has changed since. Name that version's agent ({option})",
        )
    own = Provenance(version=named, fingerprint=None if named or not recorded else now)
    return SideAgent(adapter, agent if isinstance(agent, str) else None, own)


def base_agent_if_known(base: Run, head: Run) -> SideAgent | str:
    """The agent that base names, if it is known to be still of that version; else why it is not asked."""
    try:
        found = agent_of(base, None, option="--base-agent")
    except InputError as error:
        return str(error)
    same_version = base.record.version is not None and base.record.version == head.record.version
    if found.version.fingerprint or same_version or found.named != head.provenance.called_as:
        return found
    return (
        f"{found.named} is the agent of both runs, and nothing tells whether it is still of base's version: "
        "name the agent of that version (--base-agent)"
    )


def _recorded(run: Run, option: str) -> Any:
    stored = run.record.settings.agent
    found = run.provenance.called_as or stored
    if isinstance(found, AgentSettings) and found.headers:
        what = f"does not store the headers of its agent: give the suite file that has them ({option} FILE)"
        raise InputError(f"run {run.id}", what)
    if found is not None:
        return found
    if run.record.kind == "recorded":
        what = "holds recorded outputs"
    else:
        what = f"does not say how to call its agent again ({run.provenance.agent or 'unknown'})"
    raise InputError(f"run {run.id}", f"{what}: name the agent of that version ({option})")


def _fingerprint(agent: str, recorded: str | None) -> str | None:
    """The fingerprint of an agent; of the one that was recorded, if it is that in another folder."""
    folder = agent.removesuffix(recorded) if recorded else agent
    if recorded is not None and folder != agent and (not folder or folder.endswith("/")):
        return fingerprint(recorded, Path(folder), dict(os.environ))
    return fingerprint(agent, Path.cwd(), dict(os.environ))


def prepared_again(run: Run) -> Prepared:
    """What a confirming run computes: what its run did, without what supposes that all cases are asked.

    Args:
        run: The run that is asked again.

    Raises:
        ComparisonError: If the numbers would not mean the same.
    """
    settings = run.record.settings
    judge = settings.judge and msgspec.structs.replace(settings.judge, certificate=())
    settings = msgspec.structs.replace(
        settings, gates={}, until_decided=False, repeats=1, agent=None, judge=judge
    )
    suite = Suite(name=run.record.suite_name, cases=tuple(run.cases()), settings=settings)
    found = prepared(suite, {}, settings.metrics, saves="", against=False)
    unlike = differences_from(
        run,
        kind="confirm",
        provenance=measuring(found.metrics, found.settings),
        settings=found.settings,
        suite=run.record.suite,
        cases=tuple,
    )
    if problems := [Problem("", what) for what in unlike]:
        raise ComparisonError(f"run {run.id} cannot be asked again with the same numbers", problems)
    return found


def next_repeats(run: Run) -> dict[int, int]:
    """The next repeat of each case, so that no attempt has the seed of an earlier one."""
    repeats = run.record.settings.repeats
    found: defaultdict[int, int] = defaultdict(lambda: repeats)
    for other in run.store.confirm_runs(run.record.suite_name):
        if (what := other.provenance.confirms) is not None and what.run == run.id:
            for position, repeat in run.store.attempt_keys(other):
                found[position] = max(found[position], repeat + 1)
    return {position: found[position] for position, _ in enumerate(run.cases())}
