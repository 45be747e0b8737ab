"""Every benchmark runs to its end at a tiny size. What it measures there means nothing."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import __main__ as benchmarks
from benchmarks import decision_confirm, decisions

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


def test_a_probability_from_the_standard_error_alone_is_that_of_the_comparison():
    outcomes = np.random.default_rng(2).integers(0, 2, (2, 20, 30)).astype(float)
    _, expected = decisions.policies(*outcomes)
    assert decisions.probabilities_at(outcomes[1] - outcomes[0]) == pytest.approx(expected)


def test_cases_are_bought_until_a_loss_is_likely_or_unlikely_enough():
    probabilities = np.array([[0.5, 0.02, 0.3], [0.97, 0.5, 0.4], [0.1, 0.5, 0.6]])
    answers, asked = decisions.bought(probabilities, [20, 30, 40], 0.05)
    assert answers.tolist() == [-1, 1, -1]
    assert asked.tolist() == [30, 20, 40]


@pytest.mark.parametrize(("broken", "calls"), [(30, {0}), (2, set(range(1, 61)))])
def test_confirming_asks_at_most_half_of_a_repeat_and_nothing_where_it_is_sure(broken, calls):
    rates = np.ones((2, 60))
    rates[1, :broken] = 0
    rng = np.random.default_rng(1)
    found = decision_confirm.confirmed(rates, rates, about="these", how="confirm, 60", margin=0.02, rng=rng)
    assert found.calls in calls
    assert found.probability > 0.5
