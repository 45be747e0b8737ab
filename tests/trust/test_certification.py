"""Certified acceptance keeps its promise in simulated worlds where the truth is known."""

import json
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

from tests.goldens import data
from trivium.errors import TrustError
from trivium.trust.certification import certify

EPSILON, DELTA = 0.1, 0.1


def at_most(broken, worlds, promise):
    """Whether so many broken promises fit the promised rate, allowing for three standard errors.

    Where a promise of 0.1 is just kept, 1 draw of worlds in 500 says otherwise (seeds are fixed). Where it
    is broken in 0.19 of 400 worlds, in 0.26 of 120, or in 0.30 of 80, 97 draws of 100 say so.
    """
    return broken / worlds <= promise + 3 * (promise * (1 - promise) / worlds) ** 0.5


def test_a_judge_that_is_too_often_wrong_is_certified_no_more_often_than_promised():
    rng, worlds = np.random.default_rng(1), 400
    broken = sum(
        certify(rng.random(60) < 0.1001, rng.random(60), range(60)).threshold is not None
        for _ in range(worlds)
    )
    assert at_most(broken, worlds, DELTA)
    assert broken > 0.05 * worlds  # the test is not merely idle: the promise is nearly used up


@pytest.mark.parametrize("levels", [None, 5])
def test_the_error_above_a_certified_threshold_is_as_promised(levels):
    rng, worlds, broken, certified = np.random.default_rng(2), 400, 0, 0
    for _ in range(worlds):
        confidence = rng.random(200)
        if levels:
            confidence = np.ceil(confidence * levels) / levels
        wrong = rng.random(200) < 0.35 * (1 - confidence)
        found = certify(wrong, confidence, range(200), epsilon=EPSILON, delta=DELTA)
        if found.threshold is not None:
            certified += 1
            grid = np.arange(1, levels + 1) / levels if levels else np.linspace(0, 1, 2_001)
            broken += (0.35 * (1 - grid[grid >= found.threshold - 1e-12])).mean() > EPSILON
            assert found.error_bound <= EPSILON + 1e-12
    assert at_most(broken, worlds, DELTA)
    assert certified > 0.3 * worlds


@pytest.mark.parametrize("verdicts", [70, 400])
def test_starting_again_uses_up_no_more_than_was_promised(verdicts):
    rng, worlds = np.random.default_rng(6), 120
    broken = sum(
        certify(rng.random(verdicts) < 0.1001, rng.random(verdicts), range(verdicts)).threshold is not None
        for _ in range(worlds)
    )
    assert at_most(broken, worlds, DELTA)


def test_an_error_among_the_most_confident_rarely_leaves_a_good_judge_without_a_certificate():
    rng, worlds, accepted = np.random.default_rng(7), 200, 0.0
    for _ in range(worlds):
        accepted += certify(rng.random(200) < 0.03, rng.random(200), range(200)).coverage
    # The chance that the 22 surest are all right, where one start alone could begin, is 0.97^22 = 0.51.
    assert accepted / worlds > 0.8


def clustered(rng, groups, size, rate):
    """Groups whose verdicts are nearly all right or nearly all wrong together, and equally sure."""
    share = rng.beta(rate / 4, (1 - rate) / 4, groups)
    wrong = rng.random((groups, size)) < share[:, None]
    confidence = rng.random(groups)[:, None] + 1e-3 * rng.random((groups, size))
    return wrong.ravel(), confidence.ravel(), np.repeat(np.arange(groups), size).tolist()


def test_errors_that_come_in_groups_do_not_break_the_promise():
    rng, worlds, broken, ignoring = np.random.default_rng(3), 80, Counter(), 0
    for _ in range(worlds):
        wrong, confidence, groups = clustered(rng, 40, 4, 0.12)
        for bound in ("betting", "hoeffding"):
            broken[bound] += certify(wrong, confidence, groups, bound=bound).threshold is not None
        ignoring += certify(wrong, confidence, range(wrong.size)).threshold is not None
    assert at_most(broken["betting"], worlds, DELTA)
    assert at_most(broken["hoeffding"], worlds, DELTA)
    assert not at_most(ignoring, worlds, DELTA)  # as if each verdict stood alone, the promise breaks


def test_good_judges_are_certified_in_groups_too():
    rng, certified = np.random.default_rng(4), 0
    for _ in range(25):
        wrong, confidence, groups = clustered(rng, 300, 3, 0.004)
        found = certify(wrong, confidence, groups)
        certified += found.threshold is not None
        assert found.method == "betting"
    assert certified >= 17


def test_a_certificate_on_half_of_the_real_papers_holds_on_the_other_half():
    lines = [json.loads(line) for line in data("paper_verdicts.jsonl").read_text().splitlines()]
    rng, halves, broken, certified = np.random.default_rng(5), 600, 0, 0
    runs = {}
    for line in lines:
        if line["confidence"] is not None and line["prompt"].endswith("set226"):
            runs.setdefault((line["model"], line["prompt"]), []).append(line)
    for run in runs.values():
        wrong = np.array([line["prediction"] != line["ground_truth"] for line in run])
        sure = np.array([line["confidence"] for line in run])
        for _ in range(halves // len(runs)):
            half = rng.permutation(wrong.size) < wrong.size // 2
            found = certify(wrong[half], sure[half], range(half.sum()), epsilon=0.4, delta=DELTA)
            if found.threshold is not None:
                certified += 1
                accepted = ~half & (sure >= found.threshold)
                # The other half is a sample too: it breaks the promise where it contradicts it at 5 %.
                broken += binom.sf(wrong[accepted].sum() - 1, accepted.sum(), 0.4) < 0.05
    assert certified > 20
    assert at_most(broken, certified, DELTA)


def test_a_certificate_by_hand():
    found = certify([0] * 22, [0.9] * 22, range(22), n_items=44)
    assert (found.threshold, found.n_accepted, found.errors, found.coverage) == (0.9, 22, 0, 0.5)
    assert found.error_bound == pytest.approx(1 - 0.1 ** (1 / 22))  # all right: the closed form
    assert found.method == "exact binomial"
    assert (found.reason, found.tested) == (None, 1)


def test_below_22_verdicts_nothing_can_be_certified_at_a_tenth():
    found = certify([0] * 21, [0.9] * 21, range(21))
    assert found.threshold is None
    assert found.reason == (
        "too few labels: at least 22 are needed, all of them right; about 26 labels with the error rate of "
        "these 21 would be enough"
    )
    assert (found.shortfall, found.labels_needed) == ("too few labels", 26)
    assert (found.n_accepted, found.coverage, found.error_bound, found.tested) == (0, 0.0, None, 0)


def test_a_wrong_verdict_among_the_first_of_few_says_why():
    found = certify([1] + [0] * 39, np.linspace(1, 0, 40), range(40))
    assert found.reason.startswith(
        "too few labels: 1 of the 22 most confident verdicts is wrong (4.5 %), which does not yet show "
        "that at most 10 % are; about "
    )
    assert (found.shortfall, found.tested) == ("too few labels", 1)
    # That many labels with one error in 40 are enough, wherever the error is.
    more = found.labels_needed
    assert 40 < more <= 120
    assert certify([1] + [0] * (more - 1), np.linspace(1, 0, more), range(more)).threshold is not None


def test_of_more_verdicts_the_search_starts_again_where_twice_as_many_are_accepted():
    # A third of delta needs 33 without an error; the second start, at 66, has two thirds, and 1 error of 66
    # has the tail 0.008.
    found = certify([1] + [0] * 99, np.linspace(1, 0, 100), range(100))
    assert (found.n_accepted, found.errors) == (100, 1)
    assert found.tested == 1 + 35


def test_where_every_start_fails_it_says_so():
    found = certify([1, 0] * 50, np.linspace(1, 0, 100), range(100))
    assert found.reason == (
        "too often wrong: at the best threshold 17 of the 34 most confident verdicts are wrong (50.0 %), and "
        "more labels of the same quality would not change that"
    )
    assert (found.shortfall, found.labels_needed, found.tested) == ("too wrong", None, 2)


def test_what_earlier_starts_still_hold_goes_on():
    # With 140 verdicts starts are at 33, 66 and 132, each with a third of 0.1. All of it is held at the end
    # where nothing failed: 8 errors of 140 have a tail below 0.1 that is above a third of it.
    wrong = [0] * 132 + [1] * 8
    found = certify(wrong, np.linspace(1, 0, 140), range(140))
    assert 0.1 / 3 < binom.cdf(8, 140, EPSILON) < 0.1
    assert found.n_accepted == 140


def test_the_search_stops_at_a_threshold_that_fails_until_it_starts_again():
    found = certify([0] * 40 + [1] * 5 + [0] * 15, np.linspace(1, 0, 60), range(60))
    assert 40 < found.n_accepted < 45


def test_nothing_labelled_certifies_nothing():
    found = certify([], [], [])
    assert (found.threshold, found.coverage) == (None, 0.0)
    assert found.reason == "there are no labelled verdicts"
    assert found.method == "exact binomial"


def test_too_few_groups_say_so():
    found = certify([0] * 40, [0.5] * 40, [n // 2 for n in range(40)])
    assert found.threshold is None
    assert found.reason.startswith(
        "too few labels: with up to 2 verdicts in a group, more than 21 groups with as many are needed, "
        "all of them right; there are 20; about "
    )


def test_one_error_among_44_at_a_tenth_lacks_labels_and_is_not_too_wrong():
    # 150 verdicts, none of the further ones as good: more labels of the same quality would be enough.
    wrong = [0] * 20 + [1] + [0] * 23 + [1, 0] * 53
    found = certify(wrong, np.linspace(1, 0, 150), range(150))
    assert (found.threshold, found.shortfall) == (None, "too few labels")
    assert found.reason.startswith("too few labels: 1 of the 33 most confident verdicts is wrong (3.0 %)")


@pytest.mark.parametrize("bound", ["betting", "hoeffding"])
@pytest.mark.parametrize("size", [1, 3])
def test_as_many_more_labels_of_the_same_kind_as_are_named_do(size, bound):
    n = 40 * size
    wrong = np.arange(n) == n // 3
    first = certify(wrong, np.linspace(1, 0, n), [row // size for row in range(n)], bound=bound)
    assert first.shortfall == "too few labels"
    times = -(-first.labels_needed // n)
    again, sure = np.repeat(wrong, times), np.repeat(np.linspace(1, 0, n), times)
    groups = [(row // times // size, row % times) for row in range(n * times)]
    assert certify(again, sure, groups, bound=bound).threshold is not None


def test_more_than_21_full_groups_that_are_all_right_are_needed_and_can_do():
    def certified(groups, size):
        return certify([0] * groups * size, [0.5] * groups * size, [n // size for n in range(groups * size)])

    for size in (2, 5):
        assert certified(21, size).threshold is None
        assert certified(40, size).threshold == 0.5


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"wrong": [0, 2]}, r"wrong\[1\]: must be 0 or 1; found 2"),
        ({"confidence": [0.5, np.nan]}, r"confidence\[1\]: must be a finite number"),
        ({"groups": ["a"]}, "equal length"),
        ({"groups": ["a", "b", "c"]}, "equal length"),
        ({"groups": ["a", "a"], "group_size": 1}, "found 1, and one has 2"),
        ({"wrong": [], "confidence": [], "groups": [], "group_size": 0}, "found 0, and one has 0"),
        ({"epsilon": 0}, "epsilon must lie between"),
        ({"delta": 1.5}, "delta must lie between"),
        ({"delta": 1}, "delta must lie between"),
        ({"n_items": 1}, "n_items"),
        ({"group_size": 0}, "group_size"),
        ({"bound": "chernoff"}, "bound must be"),
    ],
)
def test_invalid_data_and_options_are_refused(changes, says):
    plan = {"wrong": [0, 1], "confidence": [0.1, 0.2], "groups": ["a", "b"]} | changes
    with pytest.raises(TrustError, match=says):
        certify(plan.pop("wrong"), plan.pop("confidence"), plan.pop("groups"), **plan)


def test_one_group_with_several_verdicts_makes_all_of_them_clustered():
    wrong, confidence = [0] * 40, [0.5] * 40
    uneven = certify(wrong, confidence, [0, 0, *range(1, 39)])
    assert (uneven.method, uneven) == (
        "betting",
        certify(wrong, confidence, [0, 0, *range(1, 39)], group_size=2),
    )
    assert certify(wrong, confidence, range(40), group_size=1).method == "exact binomial"
    assert certify(wrong, confidence, range(40), group_size=2).method == "betting"


def test_a_judge_may_say_only_whether_it_is_sure():
    sure = np.arange(60) < 30
    found = certify(~sure, sure, range(60))
    assert (found.threshold, found.n_accepted, found.errors) == (1.0, 30, 0)


@pytest.mark.parametrize("sure", [-1.0, 0.0, 1.0])
def test_verdicts_of_equal_confidence_are_accepted_or_rejected_together(sure):
    found = certify([0] * 22, [sure] * 22, range(22))
    assert (found.threshold, found.n_accepted) == (sure, 22)
