"""Records what a run depends on: versions, commit, host, judges and prompts; and the version of its agent.

Definition of a version: docs/definitions/comparisons.md#version.
"""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, lru_cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import msgspec

from trivium._version import __version__
from trivium.errors import InputError
from trivium.masking import mask
from trivium.metrics.metric import Metric
from trivium.store.records import Commit, JudgedWith, Provenance, RunRecord
from trivium.suites.settings import ServerSettings, Settings
from trivium.values import record_of

_PACKAGES = (
    "numpy",
    "scipy",
    "rustworkx",
    "msgspec",
    "onnxruntime",
    "tokenizers",
    "torch",
    "transformers",
)
_VERSION = "Version: "

_UNKNOWN = Provenance()

SUBJECT_CHARS = 200
"""Longest subject of a commit that is recorded, in characters."""


def provenance(
    metrics: Sequence[Metric], settings: Settings, *, source: str, own: Provenance = _UNKNOWN
) -> Provenance:
    """Return the versions, commit, seed, host and judges of a new run.

    Args:
        metrics: The metrics of the run; their versions are recorded.
        settings: Settings of the run.
        source: Readable name of the agent or the outputs.
        own: What is known already, such as the version of the agent.
    """
    measured = measuring(metrics, settings)
    return msgspec.structs.replace(
        own,
        trivium=__version__,
        python=platform.python_version(),
        packages=_versions(),
        git=_git(Path.cwd()),
        host={"system": platform.system(), "machine": platform.machine(), "cpus": os.cpu_count()},
        agent=source,
        seed=settings.seed,
        metrics=measured.metrics,
        units={
            metric.name: {"unit": metric.unit, "better": metric.better}
            for metric in metrics
            if metric.unit is not None or metric.better != "higher"
        },
        judges=measured.judges,
        prompts=measured.prompts,
        judge=measured.judge,
    )


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = _version(package)
    return versions


@cache
def _version(package: str) -> str:
    """As ``importlib.metadata.version``, which parses the whole file that says it."""
    found = distribution(package)
    lines = (found.read_text("METADATA") or "").splitlines()
    stated = next((line for line in lines if line.startswith(_VERSION)), None)
    return found.version if stated is None else stated.removeprefix(_VERSION).strip()


def _git(folder: Path) -> Commit | None:
    """Commit of a folder, its subject, and whether it has uncommitted changes; None without a repository."""
    told = ask_git(folder, "status", "--porcelain=v2", "--branch", "--untracked-files=no")
    commit, *lines = (told or "# branch.oid (initial)").removeprefix("# branch.oid ").splitlines()
    dirty = any(not line.startswith("#") for line in lines)
    if commit == "(initial)":
        return None
    return Commit(commit=commit, dirty=dirty, subject=_subject(folder, commit) or None)


@lru_cache(maxsize=64)
def _subject(folder: Path, commit: str) -> str:
    """The first line of a commit's message, without secrets and no longer than ``SUBJECT_CHARS``."""
    told = ask_git(folder, "log", "-1", "--no-show-signature", "--format=%s", commit, "--")
    return mask(" ".join((told or "").split()))[:SUBJECT_CHARS]


def ask_git(folder: Path, *arguments: str) -> str | None:
    """Return the output of git in a folder; None without git, a repository, or an answer in 10 s."""
    if not _may_be_in_repository(folder):
        return None
    try:
        return subprocess.run(  # noqa: S603 - the arguments are constants or a commit that git told
            ["git", *arguments],  # noqa: S607 - the git on the user's path
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
            stdin=subprocess.DEVNULL,
            encoding=sys.getfilesystemencoding(),
            errors="surrogateescape",
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _may_be_in_repository(folder: Path) -> bool:
    """Whether git, which takes longer to start, might find a repository, also a bare one."""
    given, above = os.environ.get("GIT_DIR"), (folder.absolute(), *folder.absolute().parents)
    places = [folder / given] if given else [each / name for each in above for name in (".git", "HEAD")]
    try:
        return any(place.is_dir() or place.is_file() for place in places)
    except OSError:  # a folder above may not be looked into
        return True


def measuring(metrics: Sequence[Metric], settings: Settings) -> Provenance:
    """The part of the provenance that says how scores are made: versions of metrics, and judges.

    Models and prompts of judges also stand by themselves: they say which judgements a calibrator applies to.
    """
    versions = {each.name: each.version for each in metrics}
    judge = settings.judge
    if judge is None or not any(metric.tier == "judge" for metric in metrics):
        return Provenance(metrics=versions)
    from trivium.metrics.judge.budget.prices import models_of
    from trivium.metrics.judge.judge import SAMPLED_TEMPERATURE
    from trivium.metrics.judge.metrics import JudgedDimension

    rubrics = {each.rubric.name: each for each in metrics if isinstance(each, JudgedDimension)}
    if not rubrics:
        return Provenance(metrics=versions)
    default_temperature = 0.0 if judge.samples == 1 else SAMPLED_TEMPERATURE
    models, servers = list(models_of(judge)), judge.servers
    prompts = {name: each.version for name, each in rubrics.items()}
    asked = record_of(
        JudgedWith,
        judge,
        models=models,
        addresses={name: _address(name, servers.get(name)) for name in models},
        temperature=default_temperature if judge.temperature is None else judge.temperature,
        parameters=dict(judge.parameters),
        servers={name: {"headers": server.headers, "body": server.body} for name, server in servers.items()},
        rubrics={name: each.rubric.digest for name, each in rubrics.items()},
        prompts=prompts,
    )
    return Provenance(metrics=versions, judges=models, prompts=prompts, judge=asked)


def _address(name: str, server: ServerSettings | None) -> str | None:
    """The address of a model, or None if the model is unavailable."""
    from trivium.metrics.judge.client.providers import ModelUnavailable
    from trivium.metrics.judge.client.pydantic_ai_models import model_address

    try:
        return model_address(name, server)
    except ModelUnavailable:
        return None


_SPEED_SETTINGS = frozenset({"limits.attempts_at_once", "judge.concurrency"})
"""Settings that may differ when a run is resumed, because they change no result."""


def changed_settings(before: Settings, now: Settings) -> list[str]:
    """Return the names of settings that differ, except those that only change the speed of a run."""
    old, new = _settings_by_path(before), _settings_by_path(now)
    paths = dict.fromkeys([*new, *old])
    return [path for path in paths if path not in _SPEED_SETTINGS and old.get(path) != new.get(path)]


def _settings_by_path(settings: Settings) -> dict[str, object]:
    """Return every setting by name; nested ones as ``limits.seconds``."""
    by_path: dict[str, object] = {}
    for name, value in msgspec.to_builtins(settings).items():
        if isinstance(value, dict):
            by_path |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            by_path[name] = value
    return by_path


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


def recorded_version(named: str | None, agent: Any, source: RunRecord | None) -> Provenance:
    """Return what the provenance of a new run says of its version; nothing if nothing tells it.

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
        return Provenance(version=named.strip())
    if source is not None:
        return Provenance(version=source.provenance.version, fingerprint=source.provenance.fingerprint)
    code = fingerprint(agent, Path.cwd(), dict(os.environ)) if isinstance(agent, str) else None
    return Provenance(fingerprint=code)


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
