"""Tells the versions of an agent apart: by a name, or by the code that it was run with.

Definition: docs/definitions/comparisons.md#version.
"""

import os
import re
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from trivium.errors import InputError
from trivium.runs.provenance import ask_git
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.values import resolved

NAMED = "version"
FINGERPRINT = "fingerprint"
"""Keys of the provenance that hold a version."""

CALLED_AS = "called_as"
"""Key of the provenance: how the agent was named, if that finds it again."""

CONFIRMS = "confirms"
"""Key of the provenance of a run of kind ``confirm``; its value is a :class:`Confirms`."""

_CODE = (":/", *(f":(top,exclude,glob)**/{each}" for each in (".trivium/**", "*.pyc", "*.db*")))
"""Untracked files that tell versions apart: all but those that a run writes."""

_ASKED = (
    ("rev-parse", "HEAD"),
    ("rev-parse", "--show-toplevel"),
    ("diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv", "--submodule=diff"),
    ("ls-files", "-z", "--others", "--exclude-standard", "--full-name", "--", *_CODE),
)
"""What git is asked for a fingerprint."""

_IS_CODE = ("--literal-pathspecs", "ls-files", "-co", "--exclude-standard", "--error-unmatch", "--")
"""Fails for a file that is elsewhere, such as an installed package, or that git ignores."""

_TELLING = re.compile("MODEL|TEMPERATURE|(?<!ENV_)PROMPT(?!_COMMAND|_DIRTRIM|_MODIFIER)")
"""In the names of environment variables that belong to the version; those of a shell's prompt do not."""


def version_of(run: RunRecord) -> str | None:
    """The version of the agent whose attempts a run holds; None where nothing tells versions apart."""
    found = run.provenance.get(NAMED) or run.provenance.get(FINGERPRINT)
    return found if isinstance(found, str) else None


End = Literal["decided", "calls", "cases", "costs", "nothing"]
"""Why no further attempts were made: it was decided, the calls were used up, only more cases would tell, more
calls would cost more than they save, or none gives a value."""


@resolved
class Confirms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The purpose of a run that makes further attempts at some cases of another run.

    Definition: docs/definitions/decisions.md#confirm.

    Attributes:
        run: Id of the run whose version is asked again.
        against: Id of the run with which that one is compared.
        budget: Shared by the runs of both sides whose calls are counted together.
        refused: Why its attempts do not count; None if they do.
        end: Why no further attempts were made; None as long as they may be.
    """

    run: str
    against: str
    budget: str
    refused: str | None = None
    end: End | None = None


def confirms(run: RunRecord) -> Confirms | None:
    """The purpose of a run of kind ``confirm``; None for any other run."""
    found = run.provenance.get(CONFIRMS)
    return None if found is None else msgspec.convert(found, Confirms)


class ConfirmingRuns(NamedTuple):
    """Runs of further attempts of either side of a comparison, oldest first."""

    base: tuple[RunRecord, ...] = ()
    head: tuple[RunRecord, ...] = ()


def confirming_runs(
    store: Store, base: RunRecord, head: RunRecord, *, finished: bool = True
) -> ConfirmingRuns:
    """Find the runs that confirm the comparison of two runs.

    Args:
        store: The store of both.
        base: The baseline run.
        head: The candidate run.
        finished: Whether to leave out runs that are not finished.
    """
    stored = [run for name in {base.suite_name, head.suite_name} for run in store.confirm_runs(name)]
    found: dict[str, list[RunRecord]] = {base.id: [], head.id: []}
    for run in sorted(stored, key=lambda each: each.number):
        what = confirms(run)
        if what is None or what.refused is not None or (finished and run.state != "done"):
            continue
        if {what.run, what.against} == {base.id, head.id}:
            found[what.run].append(run)
    return ConfirmingRuns(tuple(found[base.id]), tuple(found[head.id]))


def recorded_version(named: str | None, agent: Any, source: RunRecord | None) -> dict[str, str]:
    """Return what the provenance of a new run says of its version; empty if nothing tells it.

    Args:
        named: The version's name, if it has one.
        agent: The agent that is called, as it was given.
        source: The run whose attempts are scored again, if any.

    Raises:
        InputError: If the name is blank.
    """
    if named is not None:
        if not named.strip():
            raise InputError(
                "version", "is empty; give it a name, such as a tag or a commit, or leave it out"
            )
        return {NAMED: named.strip()}
    if source is not None:
        return {key: source.provenance[key] for key in (NAMED, FINGERPRINT) if key in source.provenance}
    found = fingerprint(agent, Path.cwd(), dict(os.environ)) if isinstance(agent, str) else None
    return {} if found is None else {FINGERPRINT: found}


def fingerprint(agent: str, folder: Path, environment: dict[str, str]) -> str | None:
    """Return a digest of an agent and its code; None if they do not say what is run.

    Only an agent given as ``package.module:name`` or ``file.py:name`` whose file is in the git repository has
    one: functions may be made with other prompts, and what an address or a command runs is not seen, nor are
    installed packages. It changes with the commit, with uncommitted changes, with untracked files that git
    does not ignore, and with environment variables that name a model, a prompt or a temperature.

    Args:
        agent: The agent, as it was given; a module is imported already.
        folder: A folder of the repository.
        environment: The environment variables.
    """
    place = agent.rpartition(":")[0]
    file = place if place.endswith(".py") else getattr(sys.modules.get(place), "__file__", None)
    asked = (*_ASKED, (*_IS_CODE, file or ""))
    told = [each for words in asked if (each := ask_git(folder, *words)) is not None]
    if len(told) < len(asked):
        return None
    commit, top, changes, others, _ = told
    files = [(name, _stamp(Path(top, name))) for name in filter(None, others.split("\0"))]
    settings = sorted(each for each in environment.items() if _TELLING.search(each[0]))
    return blake2b(repr((agent, commit, changes, files, settings)).encode(), digest_size=6).hexdigest()


def _stamp(file: Path) -> tuple[int, int] | None:
    """Size of a file and the time of its last change in ns; None if it has gone."""
    try:
        return file.stat().st_size, file.stat().st_mtime_ns
    except OSError:
        return None
