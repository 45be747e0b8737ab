"""Means from labels asked for actively: closed forms, unbiasedness by enumeration, coverage by simulation."""

import itertools

import numpy as np
import pytest
from scipy.stats import t

from trivium.errors import TrustError
from trivium.trust.active_inference import active_mean, labelled_items
from trivium.trust.active_sampling import Draw, Sampling, next_draw
from trivium.trust.bias_correction import corrected_mean


def sampled(items, probabilities, population):
    draws = tuple(
        Draw(item=int(item), probability=float(p), how="active")
        for item, p in zip(items, probabilities, strict=True)
    )
    return Sampling(seed=0, population=population, draws=draws)


def uniform(items, population):
    return sampled(items, 1 / (population - np.arange(len(items))), population)


def run(seed, u, f, y, labels):
    sampling, answers = Sampling(seed=seed, population=len(u)), {}
    for _ in range(labels):
        draw = next_draw(sampling, u, f, answers)
        sampling = sampling.after(draw)
        answers[draw.item] = float(y[draw.item])
    return sampling, answers


def test_the_weights_are_unbiased_for_any_probabilities_that_depend_on_the_past():
    figures = np.array([0.3, 1.0, 0.0, 0.7, 0.2])

    def probabilities(past):
        """Of the items left: uneven, and dependent on what was drawn and seen."""
        left = [item for item in range(5) if item not in past]
        scores = np.array([1 + item + 3 * sum(figures[list(past)]) * (item % 2) for item in left])
        return left, 0.2 / len(left) + 0.8 * scores / scores.sum()

    for drawn in range(1, 6):
        expectation = total = 0.0
        for items in itertools.permutations(range(5), drawn):
            stated = []
            for place, item in enumerate(items):
                left, q = probabilities(items[:place])
                stated.append(min(1.0, q[left.index(item)]))
            found = labelled_items(sampled(items, stated, 5), dict.fromkeys(items, 1.0))
            expectation += np.prod(stated) * float(found.weights @ figures[list(items)]) / drawn
            total += np.prod(stated)
        assert total == pytest.approx(1)
        assert expectation == pytest.approx(figures.mean())


def test_uniform_probabilities_give_each_label_the_weight_1():
    found = labelled_items(uniform([3, 1, 4, 0], 6), dict.fromkeys([3, 1, 4, 0], 1.0))
    assert found.weights == pytest.approx(np.ones(4))


def test_with_uniform_probabilities_it_is_the_regression_estimator():
    rng = np.random.default_rng(1)
    f = rng.random(400)
    y = np.clip(0.2 + 0.6 * f + rng.normal(0, 0.1, 400), 0, 1)
    items = rng.permutation(400)[:80]
    found = active_mean(uniform(items, 400), f, {int(item): y[item] for item in items}, range(400))
    slope, intercept = np.polyfit(f[items], y[items], 1)
    error = y[items] - intercept - slope * f[items]
    assert found.value == pytest.approx(intercept + slope * f.mean())
    assert found.weight == pytest.approx(slope)
    assert found.rho2 == pytest.approx(np.corrcoef(f[items], y[items])[0, 1] ** 2)
    variance = (1 - 80 / 400) * error @ error / 78 / 80
    # The sum over draws of 1 / (items left)² is its integral, to within a per cent.
    assert found.interval_items.std_error == pytest.approx(np.sqrt(variance), rel=0.04)
    reach = t.ppf(0.975, 78) * found.interval_items.std_error
    assert found.interval_items.high - found.value == pytest.approx(reach)
    classical = 1 / (variance / y[items].var(ddof=1) + 1 / 400)
    assert found.effective_labels == pytest.approx(classical, rel=0.08)
    squared = found.interval_items.std_error**2 / y[items].var(ddof=1)
    assert found.effective_labels == pytest.approx(1 / (squared + 1 / 400))
    assert found.saved == pytest.approx(1 - 80 / found.effective_labels)
    assert found.judge == f.mean()


def test_uniform_labels_give_what_two_peers_give():
    """ppi-python 0.2.3 (``ppi_mean_ci``) and glide-py 0.11.0 (``ASIMeanEstimator``) on the same numbers."""
    i = np.arange(1000)
    f = (i * 617 % 1009) / 1009
    y = ((i * 263 % 997) / 997 < 0.15 + 0.7 * f).astype(float)
    items = (np.arange(150) * 7 + 3) % 1000
    found = active_mean(uniform(items, 1000), f, {int(item): y[item] for item in items}, range(1000))
    ppi, ppi_low, ppi_high = 0.50444026, 0.43073052, 0.57814999
    asi, asi_low, asi_high = 0.50572623, 0.43126448, 0.58018797
    assert found.value == pytest.approx(ppi, abs=1e-4)
    assert found.value == pytest.approx(asi, abs=2e-3)
    width = found.interval.high - found.interval.low
    # Student's t and the two disagreements that are added cost 2 %.
    assert width == pytest.approx(ppi_high - ppi_low, rel=0.03)
    assert width == pytest.approx(asi_high - asi_low, rel=0.03)
    assert width > ppi_high - ppi_low
    squared = found.interval_items.std_error**2 / np.append(y[items], [0, 1]).var(ddof=1)
    assert found.effective_labels == pytest.approx(150 / 152 / (squared + 1 / 1000))


def test_for_further_items_it_agrees_with_ppi_of_uniform_labels():
    rng = np.random.default_rng(2)
    f = rng.random(600)
    y = np.clip(0.2 + 0.6 * f + rng.normal(0, 0.15, 600), 0, 1)
    groups = rng.integers(0, 150, 600)
    items = rng.permutation(600)[:120]
    rest = np.setdiff1d(np.arange(600), items)
    found = active_mean(uniform(items, 600), f, {int(item): y[item] for item in items}, groups)
    peer = corrected_mean(y[items], f[items], f[rest], groups=groups[items], groups_only=groups[rest])
    assert found.value == pytest.approx(peer.value, abs=0.002)
    assert found.interval.std_error == pytest.approx(peer.interval.std_error, rel=0.05)
    assert found.interval.groups == peer.interval.groups
    reach = t.ppf(0.975, peer.interval.groups - 1) * found.interval.std_error
    assert found.interval.high - found.value == pytest.approx(reach)


def test_labels_of_a_whole_population_leave_no_doubt_about_it():
    rng = np.random.default_rng(3)
    f, y = rng.random(50), rng.random(50)
    sampling, answers = run(0, rng.random(50), f, y, 50)
    found = active_mean(sampling, f, answers, range(50))
    assert found.interval_items.low == pytest.approx(y.mean())
    assert found.interval_items.high == pytest.approx(y.mean())
    assert found.interval.high - found.interval.low > 0.1
    assert found.effective_labels is None


def test_only_answers_before_the_first_unanswered_draw_count():
    rng = np.random.default_rng(4)
    f, y = rng.random(90), rng.random(90)
    sampling, answers = run(0, rng.random(90), f, y, 40)
    shorter = Sampling(seed=0, population=90, draws=sampling.draws[:30])
    expected = active_mean(shorter, f, answers, range(90))
    del answers[sampling.draws[30].item]
    found = active_mean(sampling, f, answers, range(90))
    assert found.value == expected.value
    assert (found.labels, found.waiting, expected.waiting) == (30, 10, 0)


def test_labels_that_cannot_be_told_are_left_out_counted_and_bounded():
    rng = np.random.default_rng(5)
    f, y = np.zeros(200), (rng.random(200) < 0.7).astype(float)
    items = rng.permutation(200)[:60]
    answers: dict[int, float | None] = {int(item): y[item] for item in items}
    for item in items[:6]:
        answers[int(item)] = None
    found = active_mean(uniform(items, 200), f, answers, range(200))
    assert found.value == pytest.approx(y[items[6:]].mean())
    assert (found.labels, found.cannot_tell) == (54, 6)
    # As if only the 54 had been drawn, from the 180 of 200 items that can be told.
    fewer = active_mean(uniform(range(54), 180), f[:180], dict(enumerate(y[items[6:]])), range(180))
    assert found.interval_items.std_error == pytest.approx(fewer.interval_items.std_error, rel=0.03)
    width, other = (each.interval_items.high - each.interval_items.low for each in (found, fewer))
    assert width == pytest.approx(other, rel=0.03)
    low = active_mean(uniform(items, 200), f, answers | dict.fromkeys(map(int, items[:6]), 0.0), range(200))
    high = active_mean(uniform(items, 200), f, answers | dict.fromkeys(map(int, items[:6]), 1.0), range(200))
    assert found.bounds == pytest.approx((low.interval.low, high.interval.high), abs=2e-3)
    assert high.bounds == (high.interval.low, high.interval.high)


def test_a_judge_whose_scores_are_upside_down_gets_no_weight():
    rng = np.random.default_rng(6)
    f = (rng.random(200) < 0.5).astype(float)
    items = rng.permutation(200)[:60]
    found = active_mean(uniform(items, 200), f, {int(item): 1 - f[item] for item in items}, range(200))
    assert found.weight == 0
    assert found.value == pytest.approx(1 - f[items].mean())


def test_few_labels_give_no_interval_and_say_why():
    none = active_mean(Sampling(seed=0, population=3), [0, 1, 1], {}, "abc")
    assert (none.value, none.reason) == (None, "no item has a label")
    untold = active_mean(uniform([1], 3), [0, 1, 1], {1: None}, "abc")
    assert (untold.value, untold.cannot_tell) == (None, 1)
    two = active_mean(uniform([1, 2], 3), [0, 1, 1], {1: 1, 2: 0}, "abc")
    assert (two.value, two.interval, two.reason) == (0.5, None, "at most 2 labels give no interval")
    one = active_mean(uniform([1], 3), [0, 1, 1], {1: 1}, "abc")
    assert (one.value, one.interval_items, one.reason) == (1, None, "at most 2 labels give no interval")
    one_group = active_mean(uniform([1, 2, 0], 4), [0, 1, 1, 0], {1: 1, 2: 0, 0: 0}, "aaaa")
    assert one_group.reason == "one labelled group gives no interval"
    assert active_mean(Sampling(seed=0, population=0), [], {}, []).judge is None


def test_labels_that_are_all_alike_still_leave_doubt():
    items = range(30)
    right = active_mean(uniform(items, 500), np.ones(500), dict.fromkeys(items, 1.0), range(500))
    assert right.value == 1
    assert right.interval_items.low < 0.95
    half = active_mean(uniform(items, 500), np.ones(500), dict.fromkeys(items, 0.5), range(500))
    assert half.interval.high - half.value == pytest.approx(1 - 0.05 ** (1 / 30))
    wide = active_mean(
        uniform(items, 500), np.ones(500), dict.fromkeys(items, 3.0), range(500), low=1, high=5
    )
    assert wide.interval.high - wide.value == pytest.approx(4 * (1 - 0.05 ** (1 / 30)))
    assert wide.interval_items.high - wide.value == pytest.approx(4 * (1 - 0.05 ** (1 / 30)) * 0.94)
    assert half.effective_labels is None
    assert half.rho2 is None


def test_another_range_only_rescales():
    rng = np.random.default_rng(7)
    f, y, u = rng.random(150), (rng.random(150) < 0.5) * 1.0, rng.random(150)
    sampling, answers = run(0, u, f, y, 60)
    here = active_mean(sampling, f, answers, range(150))
    there = active_mean(
        sampling, 1 + 4 * f, {item: 1 + 4 * v for item, v in answers.items()}, range(150), low=1, high=5
    )
    assert there.value == pytest.approx(1 + 4 * here.value)
    assert there.interval.low == pytest.approx(1 + 4 * here.interval.low)
    assert there.interval_items.high == pytest.approx(1 + 4 * here.interval_items.high)
    assert there.saved == pytest.approx(here.saved)


def verdicts(rng, n, *, error):
    """A judge that errs where it is unsure, over a population of ``n`` items in groups of four."""
    groups = np.arange(n) // 4
    u = rng.random(n)
    y = (rng.random(n) < np.repeat(rng.beta(3, 1.5, n // 4), 4)).astype(float)
    wrong = rng.random(n) < error * np.exp(2 * (2 * u - 1))
    return u, np.where(wrong, 1 - y, y), y, groups


@pytest.mark.parametrize(("labels", "error"), [(30, 0.08), (60, 0.04)])
def test_intervals_cover_and_are_no_wider_than_those_of_uniform_labels(labels, error):
    """A true coverage of 0.80 is found by 92 draws of 60 worlds in 100."""
    worlds, covered, further, errors, width, uniform_width = 60, 0, 0, [], 0.0, 0.0
    for seed in range(worlds):
        u, f, y, groups = verdicts(np.random.default_rng(seed), 240, error=error)
        found = active_mean(*run_of(seed, u, f, y, labels), groups)
        plain = active_mean(*run_of(seed, np.zeros(240), f, y, labels), groups)
        covered += found.interval_items.low <= y.mean() <= found.interval_items.high
        further += found.interval.low <= 2 / 3 <= found.interval.high
        errors.append(found.value - y.mean())
        width += found.interval_items.high - found.interval_items.low
        uniform_width += plain.interval_items.high - plain.interval_items.low
    assert covered >= 0.95 * worlds - 2.6 * np.sqrt(0.05 * 0.95 * worlds)
    assert further >= 0.95 * worlds - 2.6 * np.sqrt(0.05 * 0.95 * worlds)
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(worlds)
    assert width <= 1.03 * uniform_width


def run_of(seed, u, f, y, labels):
    sampling, answers = run(seed, u, f, y, labels)
    return sampling, f, answers


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 1.0}, "level must lie"),
        ({"groups": "ab"}, "each of 3 items needs a group; found 2"),
        ({"answers": {1: 1.5}}, "between 0 and 1; found 1.5 for item 1"),
        ({"predictions": [0, 1]}, "each of 3 items"),
    ],
)
def test_bad_input_is_refused(options, message):
    given = {"sampling": uniform([1], 3), "predictions": [0, 1, 1], "answers": {1: 1.0}, "groups": "abc"}
    with pytest.raises(TrustError, match=message):
        active_mean(**(given | options))
