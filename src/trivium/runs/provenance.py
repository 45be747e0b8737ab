"""Records what a run depends on: versions, commit, host, judges and prompts."""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import msgspec

from trivium._version import __version__
from trivium.metrics.metric import Metric
from trivium.suites.settings import ServerSettings, Settings

_PACKAGES = (
    "numpy",
    "scipy",
    "networkx",
    "rustworkx",
    "msgspec",
    "onnxruntime",
    "tokenizers",
    "torch",
    "transformers",
)
_VERSION = "Version: "


def provenance(*, metrics: list[Metric], seed: int, source: str) -> dict[str, object]:
    """Return the versions, commit, seed and host of a run.

    Args:
        metrics: The metrics of the run; their versions are recorded.
        seed: Seed of the suite.
        source: Readable name of the agent or the outputs.
    """
    return {
        "trivium": __version__,
        "python": platform.python_version(),
        "packages": _versions(),
        "git": _git(Path.cwd()),
        "host": {"system": platform.system(), "machine": platform.machine(), "cpus": os.cpu_count()},
        "agent": source,
        "seed": seed,
        "metrics": {metric.name: metric.version for metric in metrics},
        "units": {
            metric.name: {"unit": metric.unit, "better": metric.better}
            for metric in metrics
            if metric.unit is not None or metric.better != "higher"
        },
    }


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


def _git(folder: Path) -> dict[str, object] | None:
    """Commit of a folder and whether it has uncommitted changes; None outside a repository."""
    told = ask_git(folder, "status", "--porcelain=v2", "--branch", "--untracked-files=no")
    commit, *lines = (told or "# branch.oid (initial)").removeprefix("# branch.oid ").splitlines()
    dirty = any(not line.startswith("#") for line in lines)
    return None if commit == "(initial)" else {"commit": commit, "dirty": dirty}


def ask_git(folder: Path, *arguments: str) -> str | None:
    """Return the output of git in a folder; None without git, a repository, or an answer in 10 s."""
    if not _may_be_in_repository(folder):
        return None
    try:
        return subprocess.run(  # noqa: S603 - the arguments are constants
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


def judge_provenance(metrics: Sequence[Metric], settings: Settings) -> dict[str, object]:
    """Return the models, addresses, parameters and prompts of the judges.

    Args:
        metrics: The metrics of the run.
        settings: Settings of the suite.

    Returns:
        ``judges`` (models) and ``prompts``, which say which judgements a calibrator applies to, and
        ``judge`` with everything; empty without judges.
    """
    judge = settings.judge
    if judge is None or not any(metric.tier == "judge" for metric in metrics):
        return {}
    from trivium.metrics.judge.budget.prices import models_of
    from trivium.metrics.judge.judge import SAMPLED_TEMPERATURE
    from trivium.metrics.judge.metrics import JudgedDimension

    dimensions = [metric for metric in metrics if isinstance(metric, JudgedDimension)]
    if not dimensions:
        return {}
    # A version is the digest of a rubric and of the wording around it.
    prompts = {dimension.rubric.name: dimension.version for dimension in dimensions}
    default_temperature = 0.0 if judge.samples == 1 else SAMPLED_TEMPERATURE
    models, servers = models_of(judge), judge.servers
    return {
        "judges": models,
        "prompts": prompts,
        "judge": {
            "models": models,
            "addresses": {name: _address(name, judge.servers.get(name)) for name in models},
            "temperature": default_temperature if judge.temperature is None else judge.temperature,
            "seed": judge.seed,
            "reasoning_effort": judge.reasoning_effort,
            "parameters": judge.parameters,
            "servers": {
                name: {"headers": server.headers, "body": server.body} for name, server in servers.items()
            },
            "client": judge.client,
            "samples": judge.samples,
            "panel": judge.panel,
            "rubrics": {dimension.rubric.name: dimension.rubric.digest for dimension in dimensions},
            "prompts": prompts,
        },
    }


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
