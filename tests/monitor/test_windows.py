"""Windows estimate figures of all traffic from samples of it."""

import numpy as np
import pytest

from tests.monitor.samples import BEGIN, sample
from trivium.monitor.windows import MOST_VALUES, Columns, figures_of, series, window_of
from trivium.suites.monitor_settings import MonitorSettings, StatusThresholds


def window(samples, **settings):
    found = MonitorSettings(**settings)
    return window_of(Columns(samples, figures_of(found)), found, begin=BEGIN, end=BEGIN + 86_400)


def test_pass_rate_and_average_score_are_those_of_the_samples_taken_with_one_probability():
    found = window([sample(n, n % 4 != 0, score=n / 10) for n in range(10)])
    assert found.samples == 10
    assert found.figure("pass_rate").mean == pytest.approx(0.7)
    assert found.figure("composite").mean == pytest.approx(0.45)


def test_samples_are_weighted_by_inverse_probability():
    """Ten failures that were all taken, and 90 successes of which one in nine was."""
    samples = [sample(n, passed=False) for n in range(10)]
    samples += [sample(10 + n, probability=1 / 9) for n in range(10)]
    assert window(samples).figure("pass_rate").mean == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("rate", "status"),
    [(1.0, "healthy"), (0.85, "healthy"), (0.8, "warning"), (0.7, "warning"), (0.65, "critical")],
)
def test_a_status_follows_from_the_thresholds(rate, status):
    found = window([sample(n, passed=n < 20 * rate) for n in range(20)])
    assert found.figure("pass_rate").status == status


def test_a_level_is_below_its_threshold_with_a_probability():
    below = [
        window([sample(n, passed=n < right) for n in range(20)]).figure("pass_rate").below
        for right in (20, 17, 10)
    ]
    assert below[0] < 0.1
    assert below[1] == pytest.approx(0.5)
    assert below[2] > 0.99
    assert window([sample(n, scores={"told": 0.5}) for n in range(5)]).figure("told").below is None


def test_thresholds_belong_to_figures():
    samples = [sample(n, scores={"tool_success": 0.5}) for n in range(5)]
    found = window(samples, figures={"tool_success": StatusThresholds(warning=0.6, critical=0.4)})
    assert found.figure("tool_success").status == "warning"
    assert found.figure("tool_success").mean == pytest.approx(0.5)
    assert found.figure("pass_rate").status is None


def test_a_tool_has_its_own_failures_beside_the_verdicts_of_its_interactions():
    """A call that failed and was recovered counts; one of another tool does not; old samples say nothing."""
    facets = [(("find", "pay"), ("pay",)), (("find",), ()), (("find", "pay"), ("find",)), (("pay",), None)]
    samples = [
        sample(n, facets={"tool": tools} | ({} if failed is None else {"failed_tool": failed}))
        for n, (tools, failed) in enumerate(facets)
    ]
    found = {each.value: each for each in window(samples).by if each.figure == "pass_rate"}
    assert {name: (each.failed, each.called, each.mean) for name, each in found.items()} == {
        "find": (1, 3, 1.0),
        "pay": (1, 2, 1.0),
    }


def test_nothing_is_known_without_samples():
    found = window([])
    assert found.samples == 0
    assert found.figure("pass_rate").mean is None
    assert found.figure("pass_rate").status == "insufficient_data"


def test_samples_without_a_verdict_are_left_out_of_the_pass_rate():
    found = window([sample(1), sample(2, passed=None)])
    assert (found.samples, found.figure("pass_rate").samples) == (2, 1)


def test_figures_are_computed_by_each_facet_that_is_asked_for():
    samples = [sample(n, n % 2 == 0, agent="even" if n % 2 == 0 else "odd", tool="search") for n in range(10)]
    found = window(samples, by=("agent",))
    rates = {each.value: each.mean for each in found.by if each.figure == "pass_rate"}
    assert rates == {"even": 1.0, "odd": 0.0}
    assert {each.facet for each in window(samples, by=("tool",)).by} == {"tool"}


def test_the_values_of_a_facet_are_bounded_and_those_left_out_are_counted():
    found = window([sample(n, tag=f"tag {n}") for n in range(MOST_VALUES + 7)])
    assert len({each.value for each in found.by}) == MOST_VALUES
    assert found.left_out == {"tag": 7}


def test_samples_of_one_session_are_a_cluster():
    rng = np.random.default_rng(1)
    verdicts = np.repeat(rng.random(40) < 0.6, 10)
    apart = window([sample(n, bool(ok)) for n, ok in enumerate(verdicts)]).figure("pass_rate")
    together = window([sample(n, bool(ok), session=f"s{n // 10}") for n, ok in enumerate(verdicts)])
    clustered = together.figure("pass_rate")
    assert (apart.sessions, clustered.sessions) == (400, 40)
    assert clustered.high - clustered.low > 2 * (apart.high - apart.low)


def test_what_interactions_took_is_weighted_and_what_is_unknown_is_left_out():
    """The oracle: each sample as often as the interactions that it stands for, by nearest rank."""
    draw = np.random.default_rng(3)
    weights, took = draw.integers(1, 9, 40), draw.exponential(2.0, 40)
    samples = [
        sample(n, probability=1 / weights[n], seconds=took[n], cost_usd=None if n % 4 == 0 else took[n] / 1e3)
        for n in range(40)
    ]
    samples += [sample(40, seconds=None, version="2")]
    whole, version = window(samples).resources
    every = np.repeat(took, weights)
    for share, found in ((0.5, whole.latency_p50), (0.95, whole.latency_p95)):
        assert found == np.quantile(every, share, method="inverted_cdf")
    paid = [n for n in range(40) if n % 4]
    assert whole.cost_usd == pytest.approx(np.repeat(took[paid], weights[paid]).mean() / 1e3)
    assert (whole.samples, whole.timed, whole.with_cost) == (41, 40, 30)
    assert whole.interactions == pytest.approx(weights.sum() + 1)
    assert (version.facet, version.value, version.latency_p50, version.cost_usd) == (
        "version",
        "2",
        None,
        None,
    )


def test_a_series_puts_each_sample_into_its_part():
    samples = [sample(n, n >= 2, time=BEGIN + n) for n in range(4)]
    points = series(Columns(samples, ["pass_rate"]), "pass_rate", begin=BEGIN, end=BEGIN + 8, points=4)
    assert [(point.samples, point.mean) for point in points] == [(2, 0.0), (2, 1.0), (0, None), (0, None)]
    assert [point.resources.interactions for point in points] == [2, 2, 0, 0]
    assert [point.resources.latency_p95 for point in points] == [1.0, 1.0, None, None]
