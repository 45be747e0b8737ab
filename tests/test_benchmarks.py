"""Every benchmark runs to its end at a tiny size. What it measures there means nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import __main__ as benchmarks

ROOT = Path(__file__).parents[1]
PARTS = {"prose", "sizes", "watched_lives"}
"""What benchmarks share."""

ELSEWHERE = {
    "size": "downloads packages, which no test may",
}
ARGUMENTS = {
    "bertscore": ["--one-core"],
    "certificates": ["2"],
    "comparison": ["40"],
    "coverage": ["3", "rate 0.5"],
    "judge": ["clean", "--cases", "3", "--only", "trivium"],
    "judge_samples": ["50"],
    "monitor_alerts": ["1"],
    "judge_limits": ["5 at once, else queued", "--seeds", "1"],
    "score": ["--attempts", "20", "--large", "40", "--rounds", "1"],
}
NAMES = sorted(path.stem for path in (ROOT / "benchmarks").glob("[a-z]*.py"))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in PARTS | set(ELSEWHERE)])
def test_a_benchmark_runs_to_its_end(name):
    run(name, *ARGUMENTS.get(name, []))


def test_all_are_run_by_name_into_one_file_that_says_where(tmp_path):
    file = tmp_path / "bench.txt"
    command = [sys.executable, "-m", "benchmarks", "startup", "cosine", "--output", str(file)]
    environment = os.environ | {"BENCHMARKS_TINY": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert done.stdout == file.read_text()
    assert "Python 3." in done.stdout
    assert ", commit " in done.stdout
    assert done.stdout.index("== startup (") < done.stdout.index("== cosine (")
    assert set(benchmarks.names()) == set(NAMES) - PARTS


def test_the_whole_watcher_lives_to_its_end():
    printed = run("monitor_alerts", "watcher", "1")
    assert "at the thresholds: something is ever sure in 0.0 % of lives" in printed
    assert "noticed" in printed


def run(name: str, *arguments: str) -> str:
    completed = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "-m", f"benchmarks.{name}", *arguments],
        cwd=ROOT,
        env=os.environ | {"BENCHMARKS_TINY": "1"},
        capture_output=True,
        text=True,
    )
    assert completed.returncode == 0, completed.stderr
    assert len(completed.stdout.splitlines()) >= 2
    return completed.stdout
