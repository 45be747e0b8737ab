"""Every benchmark runs to its end at a tiny size. What it measures there means nothing."""

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import __main__ as benchmarks

ROOT = Path(__file__).parents[1]
ELSEWHERE = {
    "bertscore": "tests/metrics/text/test_bertscore.py, which has imported its peers, runs it",
    "judge": "tests/test_judge_benchmark.py runs it",
    **dict.fromkeys(("recording", "startup"), "the test of the command runs them"),
    "size": "downloads packages, which no test may",
}
ARGUMENTS = {
    "certificates": ["2"],
    "comparison": ["40"],
    "coverage": ["3", "rate 0.5"],
    "judge_samples": ["50"],
    "monitor_alerts": ["1"],
    "judge_limits": ["5 at once, else queued", "--seeds", "1"],
    "memory": ["--workers", "1"],
    "pages": ["--only", "sqlite"],
    "score": ["--attempts", "20", "--large", "40", "--rounds", "1"],
}


@pytest.mark.parametrize("name", sorted(set(benchmarks.names()) - set(ELSEWHERE)))
def test_a_benchmark_runs_to_its_end(name, run_benchmark):
    run_benchmark(name, *ARGUMENTS.get(name, []))


def test_all_are_run_by_name_into_one_file_that_says_where(tmp_path):
    file = tmp_path / "bench.txt"
    command = [sys.executable, "-m", "benchmarks", "startup", "recording", "--output", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert done.stdout == file.read_text()
    assert "Python 3." in done.stdout
    assert ", commit " in done.stdout
    assert done.stdout.index("== startup (") < done.stdout.index("== recording (")


def test_the_whole_watcher_lives_to_its_end(run_benchmark):
    printed = "\n".join(run_benchmark("monitor_alerts", "watcher", "1"))
    assert "at the thresholds: something is ever sure in 0.0 % of lives" in printed
    assert "noticed" in printed
