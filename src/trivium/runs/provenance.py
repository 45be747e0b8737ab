"""Records what a run depends on: versions, commit, host, judges and prompts."""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

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


def provenance(*, metrics: list[Metric], seed: int, asked: str) -> dict[str, Any]:
    """Versions, commit, seed and host of a run.

    Args:
        metrics: The metrics that score; their versions are recorded.
        seed: The suite's seed.
        asked: A readable name of the agent or the outputs.
    """
    return {
        "trivium": __version__,
        "python": platform.python_version(),
        "packages": _versions(),
        "git": _git(Path.cwd()),
        "host": {"system": platform.system(), "machine": platform.machine(), "cpus": os.cpu_count()},
        "agent": asked,
        "seed": seed,
        "metrics": {metric.name: metric.version for metric in metrics},
    }


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _git(folder: Path) -> dict[str, Any] | None:
    """Commit of the working folder and whether it differs from it; None outside a repository."""
    try:
        commit = _ask_git(folder, "rev-parse", "HEAD")
        dirty = bool(_ask_git(folder, "status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "dirty": dirty}


def _ask_git(folder: Path, *arguments: str) -> str:
    return subprocess.run(  # noqa: S603 - our own words only
        ["git", *arguments],  # noqa: S607 - whichever git the user has
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
        stdin=subprocess.DEVNULL,
        encoding=sys.getfilesystemencoding(),
    ).stdout.strip()


def judge_provenance(metrics: Sequence[Metric], settings: Settings) -> dict[str, Any]:
    """Models, addresses, parameters and prompts of the judges; empty without judges.

    Args:
        metrics: Those that score the run.
        settings: The suite's.

    Returns:
        ``judges`` and ``prompts`` tell which judgements a calibrator may be used on; ``judge`` has all.
    """
    judge = settings.judge
    if judge is None or not any(metric.tier == "judge" for metric in metrics):
        return {}
    from trivium.metrics.judge.budget.prices import models_of
    from trivium.metrics.judge.judge import SAMPLED_TEMPERATURE
    from trivium.metrics.judge.metrics import JudgedDimension

    judged = [each for each in metrics if isinstance(each, JudgedDimension)]
    if not judged:
        return {}
    # A version is the digest of a rubric and of the wording around it.
    prompts = {each.rubric.name: each.version for each in judged}
    usual = 0.0 if judge.samples == 1 else SAMPLED_TEMPERATURE
    models, servers = models_of(judge), judge.servers
    return {
        "judges": models,
        "prompts": prompts,
        "judge": {
            "models": models,
            "addresses": {name: _address(name, judge.servers.get(name)) for name in models},
            "temperature": usual if judge.temperature is None else judge.temperature,
            "seed": judge.seed,
            "reasoning_effort": judge.reasoning_effort,
            "parameters": judge.parameters,
            "servers": {name: {"headers": each.headers, "body": each.body} for name, each in servers.items()},
            "client": judge.client,
            "samples": judge.samples,
            "panel": judge.panel,
            "rubrics": {each.rubric.name: each.rubric.digest for each in judged},
            "prompts": prompts,
        },
    }


def _address(name: str, server: ServerSettings | None) -> str | None:
    """The address of a model, None if it is off."""
    from trivium.metrics.judge.client.model_factory import ModelUnavailable, where

    try:
        return where(name, server)
    except ModelUnavailable:
        return None
