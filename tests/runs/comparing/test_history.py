"""The prior that a comparison takes from earlier runs of its suite."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import trivium as tv
from tests.runs.comparing.told_runs import run_of
from tests.runs.suites import Says, told_suite
from trivium.display import as_text
from trivium.runs.comparing import earlier_runs
from trivium.suites.settings import DecideSettings
from trivium.trust.decision import DEFAULT_PRIOR, learned_prior

BY_TOLD = {"decide": DecideSettings(by="told")}


def history(count, spread=0.01):
    rng = np.random.default_rng(5)
    return [np.clip(0.5 + rng.normal(0, spread, 12), 0, 1) for _ in range(count)]


def test_it_is_learned_from_each_earlier_run_against_the_one_before(store):
    values = history(11)
    *earlier, head = [run_of(store, each, **BY_TOLD) for each in values]
    run_of(store, values[0] / 2, **BY_TOLD)  # stored after head
    run_of(store, values[0], **BY_TOLD, reduce="best")  # its numbers mean something else
    found = tv.compare(earlier[-1], head)
    told = [np.round(each, 12) for each in values[:-1]]
    moved = [after - before for before, after in pairwise(told)]
    few = stats.t.ppf(0.975, 11) / stats.norm.ppf(0.975)
    errors = [np.hypot(few * stats.sem(each), 1 / 13) for each in moved]
    expected = learned_prior([each.mean() for each in moved], errors)
    assert found.prior.comparisons == 9
    assert (found.prior.unchanged, found.prior.spread) == pytest.approx((expected.unchanged, expected.spread))
    assert found.prior.spread < DEFAULT_PRIOR.spread
    text = " ".join(as_text(found, width=150).split())
    assert "Prior learned from 9 earlier comparisons of this suite: " in text


def test_too_few_runs_and_runs_of_one_version_leave_the_default(store):
    few = [run_of(store, each, **BY_TOLD) for each in history(9)]
    found = tv.compare(*few[-2:])
    assert found.prior == DEFAULT_PRIOR
    assert "Prior learned" not in as_text(found)


def test_another_metric_than_the_one_that_decides_keeps_the_default(store, monkeypatch):
    *_, base, head = [run_of(store, each, **BY_TOLD) for each in history(12)]
    found = tv.compare(base, head)
    assert found.prior.comparisons == 10
    assert found.metrics["composite"].same_as == "told"
    assert found.metrics["composite"].probability == found.metrics["told"].probability
    monkeypatch.setattr(earlier_runs, "MOST_COMPARED", 0)
    alone = tv.compare(base, head)
    assert alone.metrics["pass_rate"].probability == found.metrics["pass_rate"].probability
    assert alone.metrics["told"].probability != found.metrics["told"].probability


def test_unchanged_results_count_as_no_difference_and_only_so_many_attempts_are_read(store, monkeypatch):
    values = history(3)
    runs = [run_of(store, values[min(i, 2)], **BY_TOLD) for i in range(13)]
    head = run_of(store, values[0], **BY_TOLD)
    found = tv.compare(runs[-1], head)
    assert found.prior.comparisons == 12
    assert found.prior.unchanged > DEFAULT_PRIOR.unchanged
    monkeypatch.setattr(earlier_runs, "MOST_ATTEMPTS", 9 * 12)
    assert tv.compare(runs[-1], head).prior.comparisons == 8
    monkeypatch.setattr(earlier_runs, "MOST_ATTEMPTS", 8 * 12)
    assert tv.compare(runs[-1], head).prior == DEFAULT_PRIOR


def test_two_runs_of_one_version_say_nothing_of_how_versions_differ(store):
    def made(values, version):
        says = Says({f"q{i}": each for i, each in enumerate(values)})
        return tv.evaluate(told_suite(12, **BY_TOLD), agent=says, store=store, version=version)

    runs = [made(each, f"v{i // 2}") for i, each in enumerate(history(20))]
    assert tv.compare(runs[-2], made(history(21)[-1], "new")).prior.comparisons == 9
