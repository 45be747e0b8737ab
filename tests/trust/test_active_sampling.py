"""Each item's probability of being labelled next is what is stated, whatever was answered before."""

import json
from collections import Counter

import msgspec
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import chisquare, rankdata

from trivium.errors import TrustError
from trivium.trust.active_sampling import (
    STEEPEST,
    UNIFORM_SHARE,
    Draw,
    Sampling,
    check_arrays,
    next_draw,
    residuals,
    slope,
)


def world(seed, n=60, b=3.0):
    """Uncertainties, predictions and truths whose errors are frequent where the uncertainty is high."""
    rng = np.random.default_rng(seed)
    u = rng.random(n)
    f = (rng.random(n) < 0.5).astype(float)
    wrong = rng.random(n) < 0.4 * np.exp(b * (u - 1))
    return u, f, np.where(wrong, 1 - f, f)


def asked(sampling, u, f, y, labels, *, answers=None):
    """The sampling after ``labels`` more draws, each answered at once."""
    answers = {} if answers is None else answers
    for _ in range(labels):
        draw = next_draw(sampling, u, f, answers)
        sampling = sampling.after(draw)
        answers[draw.item] = y[draw.item]
    return sampling, answers


def test_items_are_drawn_as_often_as_their_probability_says():
    u, f, y = world(6, b=6.0)
    sampling, answers = asked(Sampling(seed=1, population=60), u, f, y, 45)
    draws, expected, drawn = 1000, {}, Counter()
    for seed in range(draws):
        draw = next_draw(msgspec.structs.replace(sampling, seed=seed), u, f, answers)
        drawn[draw.item] += 1
        expected[draw.item] = draw.probability
    assert len(expected) == 15
    assert sum(expected.values()) == pytest.approx(1)
    assert max(expected.values()) > 1.5 * min(expected.values())
    assert chisquare([drawn[item] for item in expected], [draws * p for p in expected.values()]).pvalue > 1e-3


def test_every_probability_has_at_least_a_fifth_uniform_and_every_item_is_drawn_once():
    u, f, y = world(0)
    sampling, _ = asked(Sampling(seed=5, population=60), u, f, y, 60)
    assert sorted(draw.item for draw in sampling.draws) == list(range(60))
    for place, draw in enumerate(sampling.draws):
        assert draw.probability >= UNIFORM_SHARE / (60 - place) - 1e-12
    assert next_draw(sampling, u, f, {}) is None


def test_without_answers_all_items_are_equally_likely():
    u, f, _ = world(0)
    sampling = Sampling(seed=5, population=60)
    for left in range(60, 0, -1):
        draw = next_draw(sampling, u, f, {})
        assert draw.probability == pytest.approx(1 / left)
        sampling = sampling.after(draw)


def test_a_draw_depends_on_answers_of_drawn_items_only():
    u, f, y = world(4)
    sampling, answers = asked(Sampling(seed=2, population=60), u, f, y, 30)
    everything = dict(enumerate(y)) | {7_000: 0.5}
    assert next_draw(sampling, u, f, everything) == next_draw(sampling, u, f, answers)


def test_answers_that_cannot_be_told_or_are_late_teach_nothing():
    u, f, y = world(3)
    sampling, answers = asked(Sampling(seed=1, population=60), u, f, y, 45)
    late = dict(list(answers.items())[:19])
    untold = late | dict.fromkeys(list(answers)[19:])
    assert next_draw(sampling, u, f, late).probability == pytest.approx(1 / 15)
    assert next_draw(sampling, u, f, untold) == next_draw(sampling, u, f, late)


def test_a_sampling_continues_from_json_as_if_it_had_never_stopped():
    u, f, y = world(1)
    whole, _ = asked(Sampling(seed=9, population=60), u, f, y, 40)
    half, answers = asked(Sampling(seed=9, population=60), u, f, y, 20)
    text = json.dumps(msgspec.to_builtins(half))
    again, _ = asked(msgspec.convert(json.loads(text), Sampling), u, f, y, 20, answers=answers)
    assert again == whole


def test_the_draws_of_a_seed_stay_the_same():
    u, f, y = world(1)
    sampling, _ = asked(Sampling(seed=9, population=60), u, f, y, 5)
    # By hand: PCG64's raw numbers do not change between versions of NumPy.
    raw = [np.random.PCG64(np.random.SeedSequence([9, step])).random_raw(2) for step in range(2, 7)]
    assert [draw.how for draw in sampling.draws] == [
        "uniform" if int(first) / 2**64 < UNIFORM_SHARE else "active" for first, _ in raw
    ]


def test_the_random_order_has_nothing_to_do_with_numbers_of_the_same_seed():
    population = Sampling(seed=7, population=500)
    order = []
    while len(order) < 40:
        draw = next_draw(population, np.zeros(500), np.zeros(500), {})
        population = population.after(draw)
        if draw.how == "uniform":
            order.append(np.random.default_rng(7).random(500)[draw.item])
    assert np.mean(order) > 0.3


def test_the_walked_items_are_a_simple_random_sample():
    u, f, y = world(6, b=6.0)
    worlds, seen, sizes, active = 60, np.zeros(60), [], 0
    for seed in range(worlds):
        sampling, _ = asked(Sampling(seed=seed, population=60), u, f, y, 40)
        walked = sampling.walked()
        assert len(set(walked)) == len(walked)
        assert set(walked) <= {draw.item for draw in sampling.draws}
        assert {draw.item for draw in sampling.draws if draw.how == "uniform"} <= set(walked)
        assert walked[:20] == [draw.item for draw in sampling.draws[:20]]
        seen[walked] += 1
        sizes.append(len(walked))
        active += len(walked) < 40
    share = np.mean(sizes) / 60
    assert active > 0.75 * worlds
    assert np.mean(sizes) > 20 + 20 * UNIFORM_SHARE  # what was drawn actively before counts too
    assert abs(np.corrcoef(seen, rankdata(u))[0, 1]) < 0.3
    assert np.abs(seen / worlds - share).max() < 4.5 * np.sqrt(share * (1 - share) / worlds)
    assert Sampling(seed=1, population=4).walked() == []


def test_all_uniform_draws_are_walked_whatever_the_answers():
    u, f, y = world(6, b=6.0)
    sampling, answers = Sampling(seed=3, population=60), {}
    for left in range(60, 10, -1):
        draw = next_draw(sampling, u, f, answers, uniform_share=1.0)
        assert (draw.how, draw.probability) == ("uniform", pytest.approx(1 / left))
        sampling = sampling.after(draw)
        answers[draw.item] = y[draw.item]
    assert sampling.walked() == [draw.item for draw in sampling.draws]


def test_the_slope_is_earned():
    rng = np.random.default_rng(0)
    found = {}
    for b in (0.0, 2.0):
        slopes = []
        for _ in range(200):
            ranks = rng.uniform(-1, 1, 100)
            f = (rng.random(100) < 0.5).astype(float)
            wrong = rng.random(100) < 0.2 * np.exp(b * ranks) / np.exp(b) * (2 if b else 1)
            slopes.append(slope(ranks, f, np.where(wrong, 1 - f, f)))
        found[b] = np.array(slopes)
    assert np.mean(found[0.0] == 0) > 0.7
    assert np.median(found[2.0]) > 0.7
    assert found[2.0].max() <= STEEPEST
    assert slope(np.linspace(-1, 1, 19), np.zeros(19), np.arange(19.0)) == 0
    assert slope(np.zeros(30), np.zeros(30), np.arange(30.0)) == 0
    assert slope(np.linspace(-1, 1, 30), np.arange(30.0), np.arange(30.0)) == 0


def test_the_slope_is_that_of_a_general_optimiser_less_its_standard_error():
    rng = np.random.default_rng(8)
    ranks = rng.uniform(-1, 1, 150)
    y = rng.normal(0, np.exp(0.8 * ranks), 150)
    squares = (y - y.mean()) ** 2 / np.var(y)
    dispersion = 1.0
    for _ in range(40):
        scale = dispersion
        a, b = minimize(
            lambda c, scale=scale: (
                np.sum(np.exp(c[0] + c[1] * ranks) - squares * (c[0] + c[1] * ranks)) + scale * c[1] ** 2 / 8
            ),
            [0.0, 0.0],
            tol=1e-10,
        ).x
        expected = np.exp(a + b * ranks)
        dispersion = np.mean((squares - expected) ** 2 / expected)
    curvature = np.array(
        [
            [expected.sum(), expected @ ranks],
            [expected @ ranks, expected @ ranks**2 + dispersion / 4],
        ]
    )
    error = np.sqrt(dispersion * np.linalg.inv(curvature)[1, 1])
    assert slope(ranks, np.zeros(150), y) == pytest.approx(b - error, rel=1e-3)
    assert 0.5 < b - error < 3
    steep = np.linspace(-1, 1, 400)
    assert slope(steep, np.zeros(400), np.where(np.arange(400) % 2, 1, -1) * np.exp(5 * steep)) == STEEPEST


def test_ranks_and_the_weighted_fit_are_those_of_peers():
    rng = np.random.default_rng(9)
    u, f, y = rng.integers(0, 6, 50).astype(float), rng.random(50), rng.random(50) + 2
    ranks, _ = check_arrays(Sampling(seed=0, population=50), u, f)
    assert ranks == pytest.approx((2 * rankdata(u) - 1) / 50 - 1)
    weights = rng.random(50)
    left, intercept, rise = residuals(f, y + f, weights)
    assert (rise, intercept) == pytest.approx(tuple(np.polyfit(f, y + f, 1, w=np.sqrt(weights))))
    assert left == pytest.approx(y + f - intercept - rise * f)


def test_unknown_uncertainty_counts_as_the_middle():
    u, f, y = world(3)
    u[:10] = np.nan
    sampling, answers = asked(Sampling(seed=1, population=60), u, f, y, 40)
    assert next_draw(sampling, u, f, answers) is not None
    assert next_draw(Sampling(seed=1, population=2), [np.nan, np.nan], [0, 1], {}).probability == 0.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: next_draw(Sampling(seed=0, population=3), [0, 1], [0, 1, 1], {}), "each of 3 items"),
        (lambda: next_draw(Sampling(seed=0, population=2), [0, 1], [0, np.nan], {}), r"predictions\[1\]"),
        (
            lambda: next_draw(Sampling(seed=0, population=1), [0], [0], {}, uniform_share=0.1),
            "between 0.2 and 1; found 0.1",
        ),
        (lambda: Sampling(seed=-1, population=2), "at least 0"),
        (lambda: Sampling(seed=0, population=1, draws=(draw(1),)), r"between 0 and population - 1 \(0\)"),
        (lambda: Sampling(seed=0, population=2, draws=(draw(1), draw(1))), "at most once"),
        (lambda: Sampling(seed=0, population=2, draws=(draw(1, 0.0),)), "above 0"),
        (
            lambda: next_draw(Sampling(seed=0, population=2, draws=(draw(1),)), [0, 1], [0, 1], {1: np.inf}),
            "finite",
        ),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(TrustError, match=message):
        make()


def draw(item, probability=0.5):
    return Draw(item=item, probability=probability, how="uniform")
