"""Provenance: what must be known to make a run again, without secrets."""

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import trivium
from trivium.metrics.metric import Metric

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
        metrics: The metrics that score; their versions are kept.
        seed: The suite's seed.
        asked: What was asked or read, as a person would name it.
    """
    return {
        "trivium": trivium.__version__,
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
