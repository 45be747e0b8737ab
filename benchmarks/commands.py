"""Runs Python, and measures a `trivium` command, in a process of its own.

A tiny run does without that process, which would have to import everything again.
"""

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from benchmarks.sizes import sized

COMMAND = """
import json, resource, sys, time
from pathlib import Path
from trivium.cli.main import run_command
if __name__ == "__main__":
    code = run_command(sys.argv[1:])
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_of_others = others.ru_utime + others.ru_stime
    print()
    print(json.dumps([time.process_time(), cpu_of_others, peak / 1024, others.ru_maxrss / 1024]))
    sys.exit(code)
"""


class Taken(NamedTuple):
    """What a command takes: seconds, and peak memory in MiB."""

    wall: float
    cpu: float
    """Of the process of the command, from its start on."""
    cpu_of_others: float
    """Of all processes that it started, workers say."""
    peak: float
    """Of the process of the command."""
    peak_of_others: float
    """Of the largest process that it started."""


def compiling(folder: Path) -> dict[str, str]:
    """An environment whose processes keep what they compile: where they already do, or else in a folder."""
    environment = {"PYTHONPYCACHEPREFIX": str(folder / "compiled")} | os.environ
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def measured(folder: Path, *line: str, environment: Mapping[str, str] | None = None) -> Taken:
    """Run a command in a folder, in which no ``store.db`` is left of an earlier one.

    Args:
        folder: Working directory of the command.
        line: The words after ``trivium``.
        environment: Variables besides those there are.

    Raises:
        SystemExit: The command failed.
    """
    for left in folder.glob("store.db*"):
        left.unlink()
    began = time.perf_counter()
    printed = python(folder, COMMAND, *line, environment=environment)
    return Taken(time.perf_counter() - began, *json.loads(printed.splitlines()[-1]))


def python(folder: Path, code: str, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Run code as ``python -c`` does; return what it prints.

    Args:
        folder: Working directory.
        code: The code.
        arguments: What it finds in ``sys.argv``.
        environment: Variables besides those there are.

    Raises:
        SystemExit: It failed.
    """
    if sized(False, True):
        return _here(folder, code, arguments, environment or {})
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env=compiling(folder) | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{arguments} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def _here(folder: Path, code: str, arguments: tuple[str, ...], environment: Mapping[str, str]) -> str:
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    argv = patch.object(sys, "argv", ["-c", *arguments])
    with chdir(folder), patch.dict(os.environ, environment), argv, redirect_stdout(printed):
        try:
            exec(code, {"__name__": "__main__"})
        except SystemExit as ended:
            if ended.code:
                raise
    return printed.buffer.getvalue().decode()
