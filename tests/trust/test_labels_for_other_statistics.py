"""What agreement and certificates make of labels that were asked for actively."""

import numpy as np
import pytest

from trivium.errors import TrustError
from trivium.trust.active_inference import labelled_items
from trivium.trust.active_sampling import Sampling, next_draw
from trivium.trust.certification import certify
from trivium.trust.rater_agreement import RANKED, RATES, agreement


def run(seed, u, f, y, labels):
    sampling, answers = Sampling(seed=seed, population=len(u)), {}
    for _ in range(labels):
        draw = next_draw(sampling, u, f, answers)
        sampling = sampling.after(draw)
        answers[draw.item] = float(y[draw.item])
    return sampling, answers


def test_whole_weights_count_like_copies():
    rng = np.random.default_rng(0)
    judge, people, weights = rng.integers(1, 6, 60), rng.integers(1, 6, 60), rng.integers(1, 4, 60)
    weighted = agreement(judge, people, range(60), weights=weights, resamples=0)
    copies = np.repeat(np.arange(60), weights)
    plain = agreement(judge[copies], people[copies], copies, resamples=0)
    for name in (*RATES, *RANKED):
        # α corrects for the number of labels, which copies raise.
        assert weighted.figures[name].value == pytest.approx(plain.figures[name].value, abs=1e-12), name


def test_scaled_weights_change_nothing_but_alpha():
    rng = np.random.default_rng(1)
    judge = rng.integers(0, 2, 80)
    people = np.where(rng.random(80) < 0.8, judge, 1 - judge)
    one, other = (
        agreement(judge, people, np.arange(80) // 2, weights=np.full(80, scale), resamples=200)
        for scale in (1.0, 0.5)
    )
    for name in set(one.figures) - {"alpha_ordinal"}:
        assert one.figures[name].value == pytest.approx(other.figures[name].value)
        assert one.figures[name].interval.low == pytest.approx(other.figures[name].interval.low)
    assert one.figures["exact"].interval.method == "exact binomial, weighted"


def test_weights_take_the_bias_out_of_agreement():
    worlds, covered, weighted, plain = 20, 0, [], []
    for seed in range(worlds):
        rng = np.random.default_rng(seed)
        u, y = rng.random(500), (rng.random(500) < 0.5).astype(float)
        wrong = rng.random(500) < np.minimum(0.5, 0.02 * np.exp(3.5 * u))
        f = np.where(wrong, 1 - y, y)
        sampling, answers = run(seed, u, f, y, 100)
        found = labelled_items(sampling, answers)
        judge, people = f[found.items], y[found.items]
        kappa = agreement(judge, people, found.items, weights=found.weights, resamples=200).figures["kappa"]
        truth = agreement(f, y, range(500), resamples=0).figures["kappa"].value
        covered += kappa.interval.low <= truth <= kappa.interval.high
        weighted.append(kappa.value - truth)
        plain.append(agreement(judge, people, found.items, resamples=0).figures["kappa"].value - truth)
    error = np.std(weighted) / np.sqrt(worlds)
    assert abs(np.mean(weighted)) < 3 * error
    assert np.mean(plain) < -3 * error
    assert covered >= 0.95 * worlds - 2.6 * np.sqrt(0.05 * 0.95 * worlds)


def test_a_certificate_from_the_walked_labels_keeps_its_promise():
    """With 11 % wrong at every confidence, "at most 10 %" may be certified in at most 10 of 100 worlds."""
    worlds, broken, kept = 30, 0, 0
    for seed in range(worlds):
        rng = np.random.default_rng(seed)
        confidence, u = rng.random(300), rng.random(300)
        for rate in (0.11, 0.02) if seed < 20 else (0.11,):
            wrong = np.zeros(300)
            chances = np.exp(4 * u)
            wrong[rng.choice(300, int(300 * rate), replace=False, p=chances / chances.sum())] = 1
            sampling, _ = run(seed, u, np.zeros(300), wrong, 70)
            items = sampling.walked()
            made = certify(wrong[items], confidence[items], range(len(items)), epsilon=0.1, delta=0.1)
            if made.threshold is not None:
                accepted = wrong[confidence >= made.threshold]
                broken += rate > 0.1 and accepted.mean() > 0.1
                kept += rate < 0.1
    assert broken <= 0.1 * worlds + 2.6 * np.sqrt(worlds * 0.1 * 0.9)
    assert kept > 6


@pytest.mark.parametrize("weights", [[1.0, 1.0], [1.0, 0.0, 1.0], [1.0, np.inf, 1.0]])
def test_bad_weights_are_refused(weights):
    with pytest.raises(TrustError, match=r"weights(\[\d\]: must be above 0 and finite| must have shape)"):
        agreement([0, 1, 1], [0, 1, 0], "abc", weights=weights)


def test_weights_of_no_labels_say_so():
    assert agreement([], [], [], weights=[]).figures["kappa"].reason == "no item has both labels"
