"""Composites and verdicts of one attempt; oracles: weighted means in exact fractions, the bars by hand."""

from fractions import Fraction
from itertools import combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.agents.attempt import Attempt
from trivium.metrics.evaluation import composite, evaluation, nearest_threshold, recommend
from trivium.metrics.metric import Score
from trivium.suites.settings import CompositeSettings, PassRule, Settings, Thresholds

BARS = Thresholds()


def scored(**values):
    return {
        name: Score(name=name, tier="text", value=value, status="skipped" if value is None else "ok")
        for name, value in values.items()
    }


def settings(missing="rescale", **weights):
    return CompositeSettings(weights=weights, missing=missing)


PARTS = st.dictionaries(
    st.sampled_from("abcdef"),
    st.tuples(st.sampled_from([0.0, 0.1, 0.167, 1.0, 5.0]), st.none() | st.floats(0, 1)),
    min_size=1,
)


@given(PARTS, st.sampled_from(["rescale", "zero"]))
def test_it_is_the_weighted_mean_of_the_parts_that_have_a_score(parts, missing):
    weights = {name: weight for name, (weight, _) in parts.items()}
    values = {name: value for name, (_, value) in parts.items()}
    found = composite(scored(**values), settings(missing, **weights))
    there = [(Fraction(w), Fraction(values[n])) for n, w in weights.items() if w and values[n] is not None]
    total = sum(Fraction(w) for w in weights.values())
    covered = sum((w for w, _ in there), Fraction(0))
    divisor = total if missing == "zero" else covered
    if not divisor:
        assert (found.value, found.status, found.recommendation) == (None, "skipped", None)
        return
    assert found.value == pytest.approx(float(sum(w * v for w, v in there) / divisor), abs=1e-12)
    assert 0 <= found.value <= 1
    assert found.coverage == pytest.approx(float(covered / total))
    assert found.parts == {name: values[name] for name, weight in weights.items() if weight}
    assert (found.status, found.reason) == ("ok", None)


def test_a_part_that_was_never_scored_is_missing():
    assert composite(scored(a=0.5), settings(a=1, b=3)).parts == {"a": 0.5, "b": None}
    assert composite(scored(a=0.5), settings(a=1, b=3)).coverage == 0.25


def test_without_a_score_or_a_weight_there_is_none_and_it_says_why():
    assert composite(scored(a=None), settings(a=1)).reason == "no part has a score"
    assert composite(scored(a=1.0), settings(a=0)).reason == "no part has a weight"
    assert composite({}, settings(a=0), failed="timeout").reason == "no part has a weight"
    assert composite(scored(a=None), settings(a=1)).coverage == composite({}, settings(a=0)).coverage == 0.0
    assert composite(scored(a=None), settings("zero", a=1)).value == 0.0


def test_a_failed_attempt_scores_0_even_if_it_was_scored():
    found = composite(scored(success=0.0), settings(success=1, b=1, c=0), failed="timeout")
    assert (found.value, found.coverage, found.status) == (0.0, 1.0, "ok")
    assert found.parts == {"success": 0.0, "b": None}
    assert (found.recommendation, found.reason) == ("reject", "the attempt failed: timeout")


def test_a_part_that_fell_back_is_reported():
    scores = scored(a=0.5, b=0.5, c=0.5) | {
        name: Score(
            name=name, tier="judge", value=0.5, status="fallback", method="similarity", reason="no judge"
        )
        for name in ("b", "d")
    }
    found = composite(scores, settings(a=1, b=1))
    assert (found.status, found.reason) == ("fallback", "fallback in b")
    assert composite(scores, settings(a=1, b=0)).status == "ok"


def test_a_fallback_for_a_judgement_adds_no_coverage_and_leaves_its_part_open():
    scores = scored(a=0.6) | {
        "b": Score(
            name="b", tier="judge", value=0.9, status="fallback", method="similarity", reason="no judge"
        )
    }
    found = composite(scores, settings(a=1, b=3))
    assert (found.status, found.coverage) == ("fallback", 0.25)
    assert found.value == pytest.approx((0.6 + 3 * 0.9) / 4)
    assert found.bounds == pytest.approx((0.6 / 4, (0.6 + 3) / 4))
    assert composite(scored(a=0.6, b=0.5), settings(a=1, b=3)).bounds is None


@pytest.mark.parametrize(
    ("least", "parts", "recommended"),
    [
        (0.5, {"success": 1.0, "time": 1.0}, False),
        (0.3, {"success": 1.0, "time": 1.0}, True),
        (0.0, {"success": 0.0}, True),
        (0.0, {"time": 1.0}, False),
        (0.5, {"time": 1.0, "success": None, "similarity": 0.9, "planning_rationality": 0.8}, True),
    ],
)
def test_no_recommendation_where_too_little_was_measured_or_nothing_looks_at_the_result(
    least, parts, recommended
):
    found = composite(scored(**parts), CompositeSettings(min_coverage=least))
    assert (found.recommendation is not None) is recommended
    assert found.value is not None


def test_the_process_alone_recommends_nothing():
    trace = {
        name: Score(name=name, tier="trace", value=1.0)
        for name in ("tool_efficiency", "coordination_quality")
    }
    assert composite(trace, settings(tool_efficiency=1, coordination_quality=1)).recommendation is None
    assert composite(trace | scored(a=1.0), settings(tool_efficiency=1, a=1)).recommendation == "accept"


def test_a_composite_that_is_a_threshold_but_for_rounding_reaches_it():
    """Every composite of six fifths that is exactly a threshold in fractions is recommended as that."""
    weights = CompositeSettings().weights
    named = {Fraction(4, 5): "accept", Fraction(3, 5): "weak_accept", Fraction(2, 5): "weak_reject"}
    met = 0
    for fifths in combinations_with_replacement(range(6), 6):
        exact = Fraction(sum(fifths), 30)
        if exact in named:
            met += 1
            found = composite(
                scored(**{name: n / 5 for name, n in zip(weights, fifths, strict=True)}), CompositeSettings()
            )
            assert found.recommendation == named[exact], fifths
    assert met > 50


@pytest.mark.parametrize(
    ("value", "named", "weight"),
    [
        (1.0, "accept", 1.0), (0.8, "accept", 1.0), (0.799, "weak_accept", 0.7), (0.6, "weak_accept", 0.7),
        (0.599, "weak_reject", -0.7), (0.4, "weak_reject", -0.7),
        (0.399, "reject", -1.0), (0.0, "reject", -1.0),
    ],
)  # fmt: skip
def test_the_bars_of_the_recommendations_themselves_are_reached(value, named, weight):
    assert recommend(value, BARS) == named
    found = composite(scored(a=value), settings(a=1))
    assert (found.recommendation, found.recommendation_weight) == (named, weight)
    assert composite({}, settings(a=1)).recommendation_weight is None


@pytest.mark.parametrize(
    ("value", "distance"), [(1.0, 0.2), (0.8, 0.0), (0.75, 0.05), (0.5, 0.1), (0.42, 0.02), (0.0, 0.4)]
)
def test_the_nearest_bar_may_lie_above_or_below(value, distance):
    assert abs(value - nearest_threshold(value, BARS)) == pytest.approx(distance)


@pytest.mark.parametrize(
    ("rule", "scores", "passed"),
    [
        (None, scored(success=1.0, a=0.0), True),
        (None, scored(success=0.99), False),
        (None, scored(similarity=1.0), None),
        (None, scored(success=None), None),
        (PassRule(metric="a", at_least=0.5), scored(a=0.5, success=0.0), True),
        (PassRule(metric="a", at_least=0.5), scored(a=0.49, success=1.0), False),
        (PassRule(metric="composite", at_least=0.5), scored(success=0.5), True),
        (PassRule(metric="composite", at_least=0.5), scored(b=1.0), None),
    ],
)
def test_an_attempt_passes_by_the_suites_rule_or_by_its_success(rule, scores, passed):
    weighed = Settings(composite=settings(success=1, a=1), passed=rule)
    assert evaluation(Attempt(case="c", repeat=2, output="x"), scores, weighed).passed is passed


def test_a_failed_attempt_never_passes():
    found = evaluation(Attempt(case="c", repeat=2, error="timeout"), scored(success=1.0), Settings())
    assert (found.case, found.repeat, found.passed, found.failed) == ("c", 2, False, "timeout")
    assert found.composite.value == 0.0
