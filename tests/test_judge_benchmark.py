"""The benchmark of judges runs: every scenario by Trivium, and a peer that is installed."""

import sys

import pytest
from benchmarks.judge import SCENARIOS, outcome_of
from benchmarks.judge_samples import SAMPLES, means
from benchmarks.judges.measured import Asked
from benchmarks.judges.with_trivium import judge

from tests.judge_server.__main__ import from_options
from trivium.suites.rubrics.built_in import built_in_rubrics

REVIEW = built_in_rubrics()["review"]


@pytest.mark.parametrize("name", SCENARIOS)
def test_trivium_judges_a_handful_in_every_scenario(name, tmp_path, monkeypatch):
    scenario = SCENARIOS[name]
    with from_options(scenario.provider(6)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
        asked = Asked(server.openai_url, 6, 50, scenario.timeout, None, str(tmp_path))
        found = list(judge(asked))
    assert len(found) == 6
    judged = sum(error is None and value is not None for value, error in found)
    assert judged == (server.counts["answer"] if name == "poison" else 6)


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("count", SAMPLES)
def test_samples_leave_a_judge_as_fair_as_it_is(count, alike):
    """At the size of a test only biases much larger than 0.01 show; the mode's 0.05 do."""
    clarity = next(each for each in REVIEW.dimensions if each.name == "clarity")
    by_median, by_mode = means(clarity, count, 2000, 0.25, alike)
    assert by_median == pytest.approx(0.6, abs=0.01)
    assert count in (1, 5, 9) or by_mode < 0.57


@pytest.mark.cpu(12, "a peer is imported in a process of its own")
def test_trivium_and_a_peer_are_measured(run_benchmark):
    pytest.importorskip("pydantic_evals")
    options = ["--cases", "3", "--peers", sys.executable, "--only", "trivium", "--only", "pydantic-evals"]
    lines = run_benchmark("judge", "clean", *options)
    for line, who in zip(lines[-2:], ("trivium", "pydantic-evals"), strict=True):
        row = line.split()
        assert row[:4] == ["clean", who, "3", "3"]
        assert row[8:11] == ["3", "0", "0"]  # requests, errors, lost


def test_a_run_that_fails_or_hangs_is_reported_and_stopped():
    python = [sys.executable, "-c"]
    assert outcome_of([*python, "raise ValueError('a reason')"], limit=60) == (None, "ValueError: a reason")
    endless = "import signal; signal.pause()"
    assert outcome_of([*python, endless], limit=0.1) == (None, "had not ended after 0 s")
