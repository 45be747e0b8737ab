"""Corrected scores against published implementations' figures and in worlds where the truth is known."""

import numpy as np
import pytest
from scipy.stats import t

from trivium.errors import TrustError
from trivium.trust.bias_correction import corrected_mean, corrected_rate

PEOPLE = [1, 0, 1, 1, 0, 1, 0, 1, 1, 0]
JUDGE = [0.9, 0.2, 0.7, 0.8, 0.4, 0.6, 0.1, 0.9, 0.5, 0.3]
REST = [0.8, 0.3, 0.6, 0.9, 0.2, 0.7, 0.5, 0.4, 0.85, 0.15, 0.95, 0.35, 0.65, 0.75, 0.25]


def alone(n, start=0):
    return [f"g{start + i}" for i in range(n)]


def test_the_corrected_mean_is_that_of_ppi_py():
    found = corrected_mean(PEOPLE, JUDGE, REST, groups=alone(10), groups_only=alone(15, 10))
    assert found.weight == pytest.approx(0.9517948717948717, abs=1e-12)  # ppi-python 0.2.3
    assert found.value == pytest.approx(0.615863247863248, abs=1e-12)
    assert found.people == 0.6
    assert found.judge == pytest.approx(np.mean(JUDGE + REST))


def test_the_interval_is_that_of_two_independent_samples():
    found = corrected_mean(PEOPLE, JUDGE, REST, groups=alone(10), groups_only=alone(15, 10))
    residuals = np.subtract(PEOPLE, np.multiply(found.weight, JUDGE))
    error = (residuals.var(ddof=1) / 10 + found.weight**2 * np.var(REST, ddof=1) / 15) ** 0.5
    assert found.interval.std_error == pytest.approx(error, abs=1e-12)
    reach = 2.2621571628 * error  # t, 9 df
    assert found.interval.low <= found.value - reach
    assert found.interval.high >= found.value + reach
    # Two labels in ten lie at the median of the differences, so each end allows for a tenth of a label.
    n, end = 10.1, 1.0
    mean = (residuals.sum() + 0.1 * end) / n
    squares = ((residuals - mean) ** 2).sum() + 0.1 * (end - mean) ** 2
    wider = (squares / n / (n - 1) + found.weight**2 * np.var(REST, ddof=1) / 15) ** 0.5
    assert found.interval.high == pytest.approx(
        found.value + mean - residuals.mean() + 2.2621571628 * wider, abs=1e-9
    )


def test_rogan_gladen_and_its_interval_are_those_of_lee_et_al():
    people = [1] * 60 + [0] * 40
    judge = [1] * 48 + [0] * 12 + [0] * 36 + [1] * 4  # sensitivity 0.8, specificity 0.9
    rest = [1] * 120 + [0] * 80
    found = corrected_rate(people, judge, rest, groups=alone(100), groups_only=alone(200, 100))
    assert (found.sensitivity, found.specificity) == (0.8, 0.9)
    assert found.value == pytest.approx(0.5 / 0.7)
    # The authors' published confidence_interval(0.6, 0.9, 0.8, 200, 40, 60, alpha=0.05):
    assert found.interval.low == pytest.approx(0.569849132061413, abs=1e-9)
    assert found.interval.high == pytest.approx(0.8758118755234885, abs=1e-9)
    assert found.warnings == ()


def world(rng, n, m, truth, *, sensitivity=0.9, specificity=0.8, size=1):
    """Verdicts of people and of a lenient judge; a group's verdicts go together where size is above 1."""
    groups = np.arange((n + m) // size)
    share = rng.beta(truth, 1 - truth, groups.size) if size > 1 else np.full(groups.size, truth)
    y = (rng.random(n + m) < np.repeat(share, size)).astype(float)
    f = np.where(y == 1, rng.random(n + m) < sensitivity, rng.random(n + m) > specificity).astype(float)
    owner = np.repeat(groups, size).tolist()
    return {"people": y[:n], "judge": f[:n], "judge_only": f[n:]}, {
        "groups": owner[:n],
        "groups_only": owner[n:],
    }


@pytest.mark.parametrize(
    ("correct", "n", "truth", "size", "judge"),
    [
        (corrected_mean, 40, 0.7, 1, (0.9, 0.8)),
        (corrected_mean, 30, 0.95, 1, (0.97, 0.9)),
        (corrected_mean, 150, 0.6, 5, (0.9, 0.8)),
        (corrected_rate, 60, 0.7, 1, (0.9, 0.8)),
        (corrected_rate, 200, 0.6, 5, (0.9, 0.8)),
    ],
)
def test_the_interval_covers_the_truth_that_the_judge_alone_misses(correct, n, truth, size, judge):
    rng, worlds, covered, seen, missed = np.random.default_rng(7), 300, 0, 0, 0
    for _ in range(worlds):
        scores, groups = world(rng, n, 600, truth, size=size, sensitivity=judge[0], specificity=judge[1])
        found = correct(*scores.values(), **groups)
        if found.interval is None:
            continue
        seen += 1
        covered += found.interval.low <= truth <= found.interval.high
        missed += abs(found.judge - truth) > 0.02
    assert seen > 0.9 * worlds
    assert covered / seen >= 0.92
    assert missed > 0.2 * worlds


def steps_near_the_end(rng, n):
    """Scores on five steps, most at the end, and a judge that is exact in 90 %."""
    people = rng.choice(5, size=n, p=(0.03, 0.04, 0.08, 0.15, 0.7)) / 4
    return people, np.where(rng.random(n) < 0.9, people, rng.integers(0, 5, n) / 4)


def skewed(rng, n):
    people = rng.beta(6, 0.6, n)
    return people, np.clip(people + rng.normal(0.03, 0.08, n), 0, 1)


def one_in_twenty_far_below(rng, n):
    """Scores near the end, all a little different, and one in twenty near the other, unseen by the judge."""
    people = np.where(rng.random(n) < 0.05, 0.2 * rng.random(n), 1 - 0.02 * rng.random(n))
    return people, 1 - 0.02 * rng.random(n)


@pytest.mark.parametrize(
    ("draw", "truth", "worst"),
    [(steps_near_the_end, 0.8625, 0.93), (skewed, 6 / 6.6, 0.93), (one_in_twenty_far_below, 0.9455, 0.7)],
)
@pytest.mark.parametrize("labels", [10, 20])
def test_scores_that_are_not_only_right_or_wrong_are_covered_with_few_labels_too(draw, truth, worst, labels):
    covered, by_t, worlds = 0, 0, 200
    for seed in range(worlds):
        people, judge = draw(np.random.default_rng([seed, 3]), labels + 300)
        groups = {"groups": range(labels), "groups_only": range(labels, labels + 300)}
        found = corrected_mean(people[:labels], judge[:labels], judge[labels:], **groups)
        covered += found.interval.low <= truth <= found.interval.high
        by_t += abs(found.value - truth) <= t.ppf(0.975, labels - 1) * found.interval.std_error
    assert covered / worlds >= 0.93
    assert by_t / worlds < worst


def test_many_scores_of_a_good_judge_narrow_the_interval():
    rng = np.random.default_rng(8)
    scores, groups = world(rng, 100, 3_000, 0.6, sensitivity=0.95, specificity=0.95)
    with_judge = corrected_mean(*scores.values(), **groups).interval
    without = corrected_mean(scores["people"], scores["judge"], [], groups=groups["groups"], groups_only=[])
    assert without.weight == 0
    assert without.value == pytest.approx(scores["people"].mean())
    assert with_judge.high - with_judge.low < 0.75 * (without.interval.high - without.interval.low)


def test_a_judge_that_says_nothing_is_ignored():
    found = corrected_mean([0.2, 0.8], [0.5, 0.5], [0.5] * 5, groups=["a", "b"], groups_only=alone(5))
    assert (found.weight, found.value) == (0.0, 0.5)


def test_groups_in_both_samples_are_the_same_clusters():
    rng = np.random.default_rng(9)
    share = rng.random(40)
    apart = corrected_mean(share, share**2, share**2, groups=alone(40), groups_only=alone(40, 40))
    shared = corrected_mean(share, share**2, share**2, groups=alone(40), groups_only=alone(40))
    assert shared.value == apart.value
    assert shared.interval.std_error != pytest.approx(apart.interval.std_error, rel=0.05)


def test_labels_that_show_no_disagreement_prove_little():
    found = corrected_mean([0.4] * 10, [0.5] * 10, [0.5] * 90, groups=alone(10), groups_only=alone(90, 10))
    assert found.value == pytest.approx(0.4)
    assert found.interval.low == pytest.approx(0.4 - (1 - 0.05**0.1))
    assert "rule of three" in found.interval.method
    binary = corrected_mean([1] * 10, [1] * 10, [1] * 90, groups=alone(10), groups_only=alone(90, 10))
    assert binary.interval.low < 0.9
    assert binary.interval.high == 1


def test_what_cannot_be_corrected_says_why():
    pair = {"groups": ["a", "b"], "groups_only": ["c", "d"]}
    assert (
        corrected_mean([], [], [0.5], groups=[], groups_only=["a"]).reason == "no item has a label of people"
    )
    one = corrected_mean([0.5, 0.6], [0.5, 0.4], [], groups=["a", "a"], groups_only=[])
    assert (one.interval, one.reason) == (None, "one labelled group gives no interval")
    assert "sensitivity" in corrected_rate([0, 0], [0, 1], [1, 0], **pair).reason
    assert "specificity" in corrected_rate([1, 1], [0, 1], [1, 0], **pair).reason
    assert "better than chance" in corrected_rate([1, 0], [0, 1], [1, 0], **pair).reason
    assert "nothing but" in corrected_rate([1, 0], [1, 0], [], groups=["a", "b"], groups_only=[]).reason
    assert corrected_rate([], [], [1], groups=[], groups_only=["a"]).value is None
    lone = corrected_rate([1, 0], [1, 0], [1, 0], groups=["a", "b"], groups_only=["c", "c"])
    assert (lone.value, lone.interval, lone.reason) == (0.5, None, "one group gives no interval")


def test_too_few_labels_to_tell_a_judge_from_chance_give_no_interval():
    people, judge = [1, 1, 1, 0], [1, 0, 0, 0]
    found = corrected_rate(people, judge, [0, 1], groups=alone(4), groups_only=alone(2, 4))
    assert found.value is not None
    people, judge = [1] * 9 + [0], [1] + [0] * 8 + [0]
    found = corrected_rate(people, judge, [0, 1], groups=alone(10), groups_only=alone(2, 10))
    assert found.reason == "too few labels to tell the judge from chance"


def test_shared_groups_assumed_independent_give_a_warning():
    found = corrected_rate([1, 0, 1], [1, 0, 1], [1, 0], groups=["a", "b", "c"], groups_only=["a", "d"])
    assert found.warnings[0].startswith("1 groups have both")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"people": [1, 2]}, r"people\[1\]: must be"),
        ({"judge": [1, np.nan]}, r"judge\[1\]: must be"),
        ({"judge": [1]}, "equal length"),
        ({"groups": ["a"]}, "each score needs a group"),
        ({"level": 0}, "level"),
    ],
)
@pytest.mark.parametrize("correct", [corrected_mean, corrected_rate])
def test_invalid_data_and_options_are_refused(correct, changes, says):
    plan = {"people": [1, 0], "judge": [1, 0], "judge_only": [1], "groups": ["a", "b"], "groups_only": ["c"]}
    plan |= changes
    with pytest.raises(TrustError, match=says):
        correct(plan.pop("people"), plan.pop("judge"), plan.pop("judge_only"), **plan)


@pytest.mark.parametrize("size", [10, 37])
def test_labels_that_only_repeat_their_document_count_once(size):
    """A judge that is right on all labels of four documents was met four times, however many they are."""
    people, rest = np.array([1, 1, 0, 0]), np.tile([1, 1, 0], 20)
    once = corrected_rate(people, people, rest, groups=alone(4), groups_only=alone(60, 4))
    repeated = np.repeat(people, size)
    documents = np.repeat(alone(4), size).tolist()
    often = corrected_rate(repeated, repeated, rest, groups=documents, groups_only=alone(60, 4))
    assert (often.sensitivity, often.specificity) == (1.0, 1.0)
    assert (often.interval.low, often.interval.high) == pytest.approx((once.interval.low, once.interval.high))
