"""Runs the benchmarks, and writes their tables into one file with machine, versions and date.

    python -m benchmarks [NAME …] [--output bench.txt]     (make bench runs all)

Each benchmark is a process of its own. One that fails is named at the end; the others run all the same.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).parent
SHARED = {
    "__init__",
    "__main__",
    "commands",
    "decision_worlds",
    "prose",
    "sizes",
    "watched_lives",
}
"""Modules that are no benchmarks."""

PACKAGES = ("trivium", "numpy", "msgspec", "sqlalchemy", "onnxruntime", "torch", "pydantic-ai-slim", "openai")


def names() -> list[str]:
    """All benchmarks, by name."""
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem not in SHARED)


def header() -> Iterator[str]:
    """What the figures depend on besides the code."""
    yield f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, commit {_commit()}"
    yield f"{_processor()}, {os.cpu_count()} cores, {_memory()}, {platform.system()} {platform.release()}"
    yield f"Python {platform.python_version()}, " + ", ".join(_versions())


def main() -> int:
    """Run them, and return 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", help=f"which of {', '.join(names())}; all by default")
    parser.add_argument("--output", type=Path, default=Path("bench.txt"))
    given = parser.parse_args()
    failed = []
    with given.output.open("w", encoding="utf-8") as file:

        def say(text: str) -> None:
            for stream in (sys.stdout, file):
                print(text, file=stream, flush=True)

        for line in header():
            say(line)
        for name in given.name or names():
            began = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-m", f"benchmarks.{name}"],
                cwd=HERE.parent,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            say(f"\n== {name} ({time.perf_counter() - began:.0f} s)\n\n{done.stdout.rstrip()}")
            if done.returncode:
                failed.append(name)
        if failed:
            say(f"\nfailed: {', '.join(failed)}")
    return 1 if failed else 0


def _commit() -> str:
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next(
        (line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine()
    )


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB"
    except (AttributeError, ValueError, OSError):
        return "memory unknown"


def _versions() -> Iterator[str]:
    for package in PACKAGES:
        try:
            yield f"{package} {version(package)}"
        except PackageNotFoundError:
            yield f"no {package}"


if __name__ == "__main__":
    sys.exit(main())
