"""Runs a benchmark at a tiny size (``benchmarks.sizes``) in the process of the test."""

import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

os.environ["BENCHMARKS_TINY"] = "1"


@pytest.fixture
def run_benchmark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[str]]:
    """Runs a benchmark, given its name and arguments, to its end; gives the lines that it printed."""
    monkeypatch.chdir(Path(__file__).parents[1])

    def run(name: str, *arguments: str) -> list[str]:
        monkeypatch.delitem(sys.modules, f"benchmarks.{name}", raising=False)
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        with patch.dict(os.environ):  # as it was, whatever the benchmark sets
            runpy.run_module(f"benchmarks.{name}", run_name="__main__")
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) >= 2
        return lines

    return run
