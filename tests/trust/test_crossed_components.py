"""Variances of crossed cases, users, attempts and judges: by pairs, closed forms and simulated worlds."""

from functools import cache
from itertools import combinations
from math import nan

import numpy as np
import pytest
from scipy import stats

from trivium.trust.cluster_bootstrap import estimate
from trivium.trust.crossed_components import PARTS, CrossedScores, user_effect
from trivium.trust.resampling import over_resamples

LIVES = 200
SPREAD = {"case": 0.2, "user": 0.1, "crossed": 0.1, "attempt": 0.2, "judge": 0.05, "judgement": 0.1}


def points(scores: CrossedScores) -> np.ndarray:
    return scores.estimates(np.ones((scores.groups, 1), np.uint8))[:, 0]


def world(rng, cases, users, repeats, judges, *, kept=1.0):
    """Scores with their codes, and the variances that they have for these users and judges."""
    of_user = rng.normal(0, SPREAD["user"], users)
    of_judge = rng.normal(0, SPREAD["judge"], judges) * (judges > 1)
    shape = (cases, users, repeats, judges)
    y = (
        rng.normal(0, SPREAD["case"], cases)[:, None, None, None]
        + of_user[:, None, None]
        + rng.normal(0, SPREAD["crossed"], (cases, users, 1, 1))
        + rng.normal(0, SPREAD["attempt"], (cases, users, repeats, 1))
        + of_judge
        + rng.normal(0, SPREAD["judgement"], shape) * (judges > 1)
    )
    truth = [SPREAD["case"] ** 2, of_user.var(ddof=1), SPREAD["crossed"] ** 2, SPREAD["attempt"] ** 2]
    truth += [of_judge.var(ddof=1), SPREAD["judgement"] ** 2] if judges > 1 else [nan, nan]
    return *kept_of(rng, y, kept), np.array(truth)


def chances(rng, number, users):
    """Probabilities of cases that are hard or easy, with users of whom one is more helpful."""
    z = rng.normal(0, 1, (number, 1)) + np.linspace(-0.5, 0.5, users) + rng.normal(0, 0.7, (number, users))
    return 1 / (1 + np.exp(-z))


@cache
def truth_of_verdicts(users):
    many = chances(np.random.default_rng(0), 400_000, users)
    across = np.cov(many.T)
    case = (across.sum() - np.trace(across)) / (users * (users - 1))
    crossed = np.trace(across) / users - case
    return np.array([case, many.mean(0).var(ddof=1), crossed, (many * (1 - many)).mean(), nan, nan])


def verdicts(rng, cases, users, repeats):
    """The same for verdicts."""
    y = (rng.random((repeats, cases, users)) < chances(rng, cases, users)).astype(float)
    return *kept_of(rng, np.moveaxis(y, 0, 2)[..., None], 1.0), truth_of_verdicts(users)


def kept_of(rng, y, kept):
    case, user, repeat, judge = np.indices(y.shape).reshape(4, -1)
    chosen = rng.random(y.size) < kept
    attempt = (case * y.shape[1] + user) * y.shape[2] + repeat
    return y.ravel()[chosen], *(each[chosen] for each in (case, user, attempt, judge))


def by_pairs(y, case, user, attempt, judge):
    """The estimates, from every pair of scores."""
    found: dict[tuple[bool, ...], list[float]] = {}
    several = len(set(judge)) > 1
    for a, b in combinations(range(len(y)), 2):
        key = case[a] == case[b], user[a] == user[b], attempt[a] == attempt[b], judge[a] == judge[b]
        found.setdefault(key, []).append((y[a] - y[b]) ** 2 / 2)
    mean = {key: np.mean(values) for key, values in found.items()}
    same = not several
    apart, of_user, of_case, cell, noise = (
        mean.get(key, nan)
        for key in [
            (False, False, False, same),
            (False, True, False, same),
            (True, False, False, same),
            (True, True, False, same),
            (True, True, True, False),
        ]
    )
    of_judge = apart - mean[False, False, False, True] if several else nan
    return [
        apart - of_case,
        apart - of_user,
        of_user + of_case - apart - cell,
        cell - (noise if several else 0),
        of_judge,
        noise - of_judge,
    ]


@pytest.mark.parametrize("judges", [1, 3])
def test_they_are_means_over_pairs_whatever_is_missing(judges):
    y, case, user, attempt, judge, _ = world(np.random.default_rng(1), 7, 3, 2, judges, kept=0.7)
    found = points(CrossedScores(y, case, user, attempt, judge, case))
    np.testing.assert_allclose(found, by_pairs(y, case, user, attempt, judge), atol=1e-12)


def test_with_equal_numbers_they_are_the_analysis_of_variance():
    cases, users, repeats = 9, 3, 4
    y, case, user, attempt, _, _ = world(np.random.default_rng(2), cases, users, repeats, 1)
    cells = y.reshape(cases, users, repeats)
    of_case, of_user = cells.mean((1, 2)), cells.mean((0, 2))
    crossed = cells.mean(2) - of_case[:, None] - of_user + y.mean()
    ms_case = repeats * users * of_case.var(ddof=1)
    ms_user = repeats * cases * of_user.var(ddof=1)
    ms_crossed = repeats * (crossed**2).sum() / ((cases - 1) * (users - 1))
    ms_within = cells.var(axis=2, ddof=1).mean()
    found = points(CrossedScores(y, case, user, attempt, None, case))
    expected = [
        (ms_case - ms_crossed) / (repeats * users),
        (ms_user - ms_crossed) / (repeats * cases),
        (ms_crossed - ms_within) / repeats,
        ms_within,
    ]
    np.testing.assert_allclose(found[:4], expected, atol=1e-12)
    assert np.isnan(found[4:]).all()


def test_without_repeats_what_cannot_be_told_apart_is_unknown():
    y, case, user, attempt, _, _ = world(np.random.default_rng(3), 6, 2, 1, 1)
    found = dict(zip(PARTS, points(CrossedScores(y, case, user, attempt, None, case)), strict=True))
    table = y.reshape(6, 2)
    residual = table - table.mean(1, keepdims=True) - table.mean(0) + y.mean()
    assert found["attempt"] == pytest.approx((residual**2).sum() / 5)
    assert np.isnan([found["case × user"], found["judge"], found["judgement"]]).all()
    one = CrossedScores([0.0, 1.0, 1.0], [0, 0, 0], [0, 1, 1], [0, 1, 2], None, [0, 0, 0])
    assert np.isnan(points(one)[:3]).all()


@pytest.mark.parametrize(
    "made",
    [
        lambda rng: world(rng, 40, 2, 3, 1),
        lambda rng: world(rng, 40, 3, 2, 3),
        lambda rng: world(rng, 40, 3, 3, 1, kept=0.8),
        lambda rng: verdicts(rng, 60, 2, 3),
        lambda rng: verdicts(rng, 60, 3, 3),
    ],
    ids=["two users", "three users, three judges", "a fifth is missing", "verdicts", "verdicts of three"],
)
def test_they_are_unbiased_and_their_intervals_hold(made):
    rng = np.random.default_rng(4)
    off, covered = [], []
    for life in range(LIVES):
        y, case, user, attempt, judge, truth = made(rng)
        scores = CrossedScores(y, case, user, attempt, judge, case)
        found = points(scores)
        drawn = over_resamples(
            scores.estimates, scores.groups, resamples=300, seed=life, rng="pcg64", threads=1
        )
        off.append(found - truth)
        ends = [
            estimate(one, each, groups=scores.groups, n=y.size).interval
            for one, each in zip(found, drawn, strict=True)
            if not np.isnan(one)
        ]
        covered.append([max(0, each.low) <= one <= each.high for each, one in zip(ends, truth, strict=False)])
    known = ~np.isnan(off[0])
    bias, error = np.mean(off, 0)[known], np.std(off, 0)[known] / np.sqrt(LIVES)
    assert (np.abs(bias) < 4 * error).all(), bias / error
    assert (np.mean(covered, 0) >= 0.86).all(), np.mean(covered, 0)


def test_for_two_users_it_is_the_paired_t_test():
    y = np.random.default_rng(5).normal([0.0, 0.5], size=(20, 2))
    found = user_effect(y, range(20))
    apart = y[:, 0] - y[:, 1]
    assert found.p == pytest.approx(stats.ttest_1samp(apart, 0).pvalue)
    assert found.variance == pytest.approx((apart.mean() ** 2 - apart.var(ddof=1) / 20) / 2)
    np.testing.assert_allclose(found.means, y.mean(0))


def test_the_variance_is_that_of_the_analysis_and_p_that_of_hotelling():
    y = np.random.default_rng(6).normal([0.0, 0.5, 1.0], size=(12, 3))
    found = user_effect(y, range(12))
    residual = y - y.mean(1, keepdims=True) - y.mean(0) + y.mean()
    ms_crossed = (residual**2).sum() / (11 * 2)
    assert found.variance == pytest.approx(y.mean(0).var(ddof=1) - ms_crossed / 12)
    contrasts = y[:, 1:] - y[:, :1]
    t2 = 12 * contrasts.mean(0) @ np.linalg.solve(np.cov(contrasts.T), contrasts.mean(0))
    assert found.p == pytest.approx(stats.f.sf(t2 * 10 / (2 * 11), 2, 10))


def test_p_holds_for_groups_of_several_cases_and_without_chance():
    rng, small = np.random.default_rng(7), 0
    for _ in range(400):
        shared = np.repeat(rng.normal(size=(15, 3)), 4, axis=0)
        small += user_effect(shared + rng.normal(size=(60, 3)), np.repeat(range(15), 4)).p <= 0.05
    assert 0.02 <= small / 400 <= 0.09
    assert user_effect(np.full((5, 2), 0.5), range(5)).p == 1.0
    assert user_effect([[0.0, 1.0]] * 5, range(5)).p == 2**-4
    assert user_effect([[0, 1, 2, 0], [1, 0, 2, 1]], [0, 1]).p is None
    assert user_effect(np.full((2, 4), 0.5), [0, 1]).p is None


@pytest.mark.parametrize(
    ("values", "groups"), [([[1.0]], [0]), ([[1.0, 2.0]], [0]), ([[nan, 1.0], [1, 2]], [0, 1])]
)
def test_wrong_arrays_are_refused(values, groups):
    with pytest.raises(ValueError, match="one group|expected finite"):
        user_effect(values, groups)
    with pytest.raises(ValueError, match="one user"):
        CrossedScores([1.0, 2.0], [0, 1], [0, 0], [0, 1], None, [0, 1])
    with pytest.raises(ValueError, match="finite"):
        CrossedScores([nan, 2.0], [0, 1], [0, 1], [0, 1], None, [0, 1])
    with pytest.raises(ValueError, match="shapes"):
        CrossedScores([1.0, 2.0], [0, 1, 2], [0, 1], [0, 1], None, [0, 1])
