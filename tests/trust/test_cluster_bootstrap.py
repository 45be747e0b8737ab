"""The bootstrap of any statistic and its intervals; oracle: SciPy's bootstrap over groups."""

import numpy as np
import pytest
from scipy import stats

from trivium.trust.cluster_bootstrap import Groups, bootstrap, estimate
from trivium.trust.resampling import leave_one_out

RNG = np.random.default_rng(8)
SIZES = RNG.integers(1, 6, 25)
CODES = np.repeat(np.arange(25), SIZES)
VALUES = np.exp(RNG.normal(size=25)[CODES] + RNG.normal(size=CODES.size))
SUMS = np.bincount(CODES, weights=VALUES)


def mean_of_weights(weights):
    return (weights @ SUMS) / (weights @ SIZES)


def scipy_interval(method):
    def ratio(sums, sizes, axis):
        return sums.sum(axis=axis) / sizes.sum(axis=axis)

    return stats.bootstrap(
        (SUMS, SIZES), ratio, paired=True, n_resamples=20_000, method=method, rng=np.random.default_rng(0)
    ).confidence_interval


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_intervals_of_a_clustered_mean_equal_scipys_but_for_chance(method):
    found = bootstrap(mean_of_weights, CODES.tolist(), resamples=20_000, method=method).interval
    expected = scipy_interval(method)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=0.02)


def test_bca_on_the_same_replicates_equals_scipys_formula():
    # SciPy's own replicates, its interval, and our formula on those replicates.
    values = VALUES[:12]
    rng = np.random.default_rng(1)
    result = stats.bootstrap((values,), np.mean, n_resamples=999, method="BCa", rng=rng)
    left_out = np.array([np.delete(values, i).mean() for i in range(12)])
    found = estimate(
        values.mean(), result.bootstrap_distribution, groups=12, n=12, method="bca", left_out=left_out
    )
    assert found.interval.low == pytest.approx(result.confidence_interval.low, rel=1e-9)
    assert found.interval.high == pytest.approx(result.confidence_interval.high, rel=1e-9)
    assert found.std_error == pytest.approx(result.standard_error)


def test_the_expanded_percentile_is_wider_as_hesterberg_has_it():
    # On normal replicates it is mean ± t(G-1) · sqrt(G / (G-1)) · sd.
    replicates = np.random.default_rng(2).normal(5, 2, 400_000)
    found = estimate(5.0, replicates, groups=8, n=8).interval
    reach = stats.t.ppf(0.975, 7) * np.sqrt(8 / 7) * 2
    assert (found.low, found.high) == pytest.approx((5 - reach, 5 + reach), abs=0.05)


def test_a_statistic_of_items_equals_the_same_statistic_of_weights():
    of_items = bootstrap(lambda rows: VALUES[rows].mean(), CODES.tolist(), given="items", resamples=300)
    of_weights = bootstrap(mean_of_weights, CODES.tolist(), resamples=300)
    assert of_items.replicates == pytest.approx(of_weights.replicates, abs=1e-12)
    assert of_items.point == pytest.approx(VALUES.mean())


def test_the_legacy_generator_draws_the_groups_in_their_order():
    plain = np.random.RandomState(3)
    means = [VALUES[np.concatenate([np.flatnonzero(g == CODES) for g in plain.randint(0, 25, 25)])].mean()
             for _ in range(20)]  # fmt: skip
    found = bootstrap(
        mean_of_weights, Groups.of(CODES.tolist()), resamples=20, seed=3, rng="legacy", method="legacy"
    )
    assert found.replicates == pytest.approx(means, abs=1e-12)
    assert (found.interval.low, found.interval.high) == pytest.approx(np.percentile(means, [2.5, 97.5]))


@pytest.mark.parametrize(
    ("statistic", "groups", "why"),
    [
        (lambda w: w @ [1.0], ["a"], "one group"),
        (lambda w: np.full(len(w), 2.0), ["a", "b"], "the same in every resample"),
        (lambda w: np.full(len(w), np.nan), ["a", "b"], "undefined"),
        (lambda w: np.where(w.max(axis=1) > 1, np.nan, w[:, 0]), list("abcdef"),
         "undefined in more than half of the resamples"),
        (lambda w: w[:, 0], [], "undefined"),
    ],
)  # fmt: skip
def test_no_interval_is_given_without_a_reason_to_believe_it(statistic, groups, why):
    found = bootstrap(statistic, groups, resamples=200)
    assert found.interval is None
    assert found.why_none == why


def test_too_few_resamples_give_no_interval_but_the_point():
    found = bootstrap(mean_of_weights, CODES.tolist(), resamples=1)
    assert found.point == pytest.approx(VALUES.mean())
    assert (found.interval, found.std_error, found.why_none) == (None, None, "fewer than two resamples")


def test_bca_without_the_figures_left_out_is_refused():
    with pytest.raises(ValueError, match="each group left out"):
        estimate(0.5, np.array([0.4, 0.6]), groups=3, n=3, method="bca")


def test_bca_of_a_figure_beyond_every_resample_says_that_it_has_none():
    # Leaving a group out always lowers the sum over the groups that were met, as scipy's NaN here tells too.
    worth = np.arange(1, 21) ** 2.0
    found = bootstrap(lambda w: (w > 0) @ worth, range(20), resamples=200, method="bca")
    assert found.point == worth.sum() > found.replicates.max()
    assert found.interval is None
    assert found.why_none == "beyond every resample, so its bias cannot be estimated"
    assert bootstrap(lambda w: (w > 0) @ worth, range(20), resamples=200, method="percentile").interval


@pytest.mark.parametrize("at_once", [1, 4, 25, 99])
def test_each_group_is_left_out_once_however_many_are_at_a_time(at_once):
    def sums_and_sizes(counts):
        return np.stack([SUMS @ counts, SIZES @ counts])

    for threads in (1, 3):
        found = leave_one_out(sums_and_sizes, 25, at_once=at_once, threads=threads)
        assert found == pytest.approx(np.stack([SUMS.sum() - SUMS, SIZES.sum() - SIZES]))


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_the_level_asked_for_is_that_of_the_interval(level):
    found = bootstrap(mean_of_weights, CODES.tolist(), resamples=400, method="percentile", level=level)
    ends = np.quantile(found.replicates, [(1 - level) / 2, (1 + level) / 2])
    assert (found.interval.low, found.interval.high) == pytest.approx(tuple(ends))
    assert (found.interval.level, found.interval.n, found.interval.groups) == (level, CODES.size, 25)


def test_bca_leaves_out_whole_groups_for_any_statistic():
    left_out = (SUMS.sum() - SUMS) / (SIZES.sum() - SIZES)
    for given, statistic in (("weights", mean_of_weights), ("items", lambda rows: VALUES[rows].mean())):
        found = bootstrap(statistic, CODES.tolist(), resamples=300, method="bca", given=given)
        expected = estimate(
            VALUES.mean(), found.replicates, groups=25, n=CODES.size, method="bca", left_out=left_out
        ).interval
        assert (found.interval.low, found.interval.high) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "bc"}, "method must be one of .*bca.*; found 'bc'. Did you mean .bca."),
        ({"rng": "mt"}, "rng must be one of pcg64, legacy; found 'mt'"),
        ({"resamples": -1}, "found -1"),
        ({"seed": -1}, "found 10000 and -1"),
        ({"level": 2}, "level must lie between 0 and 1; found 2"),
        ({"level": float("nan")}, "level must lie between 0 and 1; found nan"),
        ({"given": "rows"}, "found 'rows'"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap(mean_of_weights, CODES.tolist(), **options)


@pytest.mark.parametrize(
    ("statistic", "message"),
    [
        (lambda weights: weights, r"one value per resample, shape \(1,\); found \(1, 25\)"),
        (lambda weights: 0.5, r"one value per resample, shape \(1,\); found \(\)"),
        (lambda weights: np.full(len(weights), np.inf), "infinite in a resample"),
    ],
)
def test_a_statistic_of_another_shape_or_without_end_is_refused(statistic, message):
    with pytest.raises(ValueError, match=message):
        bootstrap(statistic, CODES.tolist(), resamples=50)


def test_unequal_groups_count_as_fewer_in_the_expanded_percentile():
    replicates = np.random.default_rng(1).normal(size=10_000)
    sizes = np.array([1, 1, 1, 1, 1, 1, 1, 1, 12])  # 20² / 152: worth no more than 2 groups of one size

    def interval(**options):
        return estimate(0.0, replicates, groups=9, n=20, **options).interval

    few = np.sqrt(2) * stats.t.ppf(0.975, 1)
    assert interval(sizes=sizes).high == np.quantile(replicates, stats.norm.cdf(few))
    assert interval(sizes=np.full(9, 3)) == interval()
    assert interval(sizes=sizes, method="percentile") == interval(method="percentile")


def test_threads_and_progress_change_no_replicate():
    values, done = np.random.default_rng(3).random(5_000), []

    def mean(weights):
        return np.array([float(row @ values) / values.size for row in weights])  # row by row: the same order

    options = {"resamples": 1_000, "seed": 1}
    one = bootstrap(mean, range(5_000), **options)
    many = bootstrap(mean, range(5_000), **options, threads=3, progress=done.append)
    assert np.array_equal(one.replicates, many.replicates)
    assert len(done) > 1
    assert sum(done) == 1_000


def test_no_thread_at_all_is_refused():
    with pytest.raises(ValueError, match="threads must be at least 1; found 0"):
        bootstrap(lambda weights: weights[:, 0], [1, 2], threads=0)
