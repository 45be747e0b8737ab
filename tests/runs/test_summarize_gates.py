"""Tests gates against their definition (docs/definitions/intervals.md#gate), computed with SciPy."""

import numpy as np
import pytest

import trivium as tv
from tests.runs.suites import Says, told_suite
from trivium.store.store import Store
from trivium.suites.settings import Gate
from trivium.trust.intervals import mean_interval


@pytest.fixture
def summary_of(tmp_path):
    with Store(str(tmp_path / "store.db")) as store:

        def evaluate(values, **settings):
            suite = told_suite(len(values), groups=settings.pop("groups", None), **settings)
            agent = Says({f"q{i}": value for i, value in enumerate(values)})
            return tv.evaluate(suite, agent=agent, store=store).summary()

        yield evaluate


VALUES = np.linspace(0.3, 0.8, 25)


@pytest.mark.parametrize("bar", [0.5, 0.52, 0.6])
def test_with_so_many_further_cases_a_gate_is_settled_in_four_of_five(summary_of, bar):
    (gate,) = summary_of(list(VALUES), gates={"told": Gate(at_least=bar)}).gates
    assert gate.proof == "inconclusive"
    rng, settled, total = np.random.default_rng(1), 0, 25 + gate.needs_cases
    for _ in range(500):
        every = np.append(VALUES, rng.choice(VALUES, gate.needs_cases))
        found = mean_interval(every, np.arange(total))
        settled += found.low >= bar or found.high < bar
    assert 0.7 <= settled / 500 <= 0.95


def test_cases_that_come_in_pairs_are_needed_in_pairs(summary_of):
    gates = {"told": Gate(at_least=0.5)}
    alone = summary_of(list(VALUES), gates=gates).gates[0].needs_cases
    groups = {f"q{i}": f"g{i // 2}" for i in range(50)}
    doubled = summary_of([value for value in VALUES for _ in range(2)], gates=gates, groups=groups)
    assert doubled.gates[0].needs_cases == pytest.approx(2 * alone, rel=0.05)


def test_a_settled_gate_needs_nothing_and_one_without_interval_cannot_tell(summary_of):
    settled = summary_of(list(VALUES), gates={"told": Gate(at_least=0.1)}).gates[0]
    assert (settled.answer, settled.needs_cases) == ("pass", 0)
    groups = {"q0": "g", "q1": "g"}
    alone = summary_of([0.4, 0.6], gates={"told": Gate(at_least=0.1)}, groups=groups).gates[0]
    assert (alone.proof, alone.ci95, alone.needs_cases) == ("inconclusive", None, None)


def test_every_mean_rate_and_composite_says_how_sure_it_is(summary_of):
    summary = summary_of(list(VALUES), level=0.9, seed=7, resamples=500)
    for figure in (summary.pass_rate, summary.composite, *summary.metrics.values()):
        assert figure.ci95[0] < figure.ci95[1]
        assert (figure.n, figure.coverage, figure.groups) == (25, 1.0, 25)
        assert figure.method
    assert summary.metadata | {"level": 0.9, "resamples": 500, "seed": 7} == summary.metadata


def test_the_coverage_of_the_pass_rate_counts_what_has_no_verdict(summary_of):
    assert summary_of([0.9, "skip", 0.9, 0.2]).pass_rate.coverage == 0.75
