"""Scores by hand: what a judge answered, and what it comes to."""

import itertools
from fractions import Fraction

import pytest

from trivium.agents.attempt import Attempt
from trivium.metrics.judge.judgement import combine_samples, nearest_level, raw_of, value_of
from trivium.metrics.judge.panel import by_judge, majority
from trivium.metrics.judge.prompts.answer import Answer, Aspect, Claim
from trivium.metrics.metric import MetricInput, Score
from trivium.metrics.registry import metric_class
from trivium.suites.case import Case
from trivium.suites.rubrics.built_in import built_in_rubrics
from trivium.suites.rubrics.rubric import Criterion, Dimension

TWO = Dimension(
    name="d",
    asks="?",
    criteria=(Criterion(name="a", asks="?", weight=3), Criterion(name="b", asks="?", weight=1)),
)


def answer(**fields):
    return Answer(reason="", evidence=(), confidence=3, **fields)


def test_criteria_have_the_stated_weights():
    given = answer(criteria={"a": 5.0, "b": 1.0})
    assert value_of(given, TWO, scale="ratio") == pytest.approx(4 / 5)
    assert value_of(given, TWO, scale="minmax") == pytest.approx(3 / 4)
    assert value_of(answer(criteria={"a": 5.0, "b": None}), TWO, scale="ratio") is None


def test_major_claims_count_twice_and_aspects_alike():
    claims = tuple(
        Claim(claim="c", quote="", reasoning="", importance=importance, verdict=verdict)
        for importance, verdict in [("major", "supported"), ("minor", "partly"), ("minor", "contradicted")]
    )
    scored = Dimension(name="d", asks="?", claims=True)
    assert value_of(answer(claims=claims), scored, scale="ratio") == pytest.approx(2.5 / 4)
    aspects = tuple(Aspect(aspect="a", quote="", covered=each) for each in ("yes", "partly", "no", "no"))
    covered = Dimension(name="d", asks="?", aspects=True)
    assert value_of(answer(aspects=aspects), covered, scale="ratio") == pytest.approx(1.5 / 4)
    assert raw_of(answer(claims=claims), scored) == {
        "supported": 1,
        "partly": 1,
        "contradicted": 1,
        "unverifiable": 0,
        "not_shown": 0,
    }
    unseen = (*claims, Claim(claim="c", quote="", reasoning="", importance="major", verdict="not_shown"))
    assert value_of(answer(claims=unseen), scored, scale="ratio") == pytest.approx(2.5 / 4)
    assert value_of(answer(claims=unseen[-1:]), scored, scale="ratio") is None
    assert raw_of(answer(aspects=aspects), covered) == {"yes": 1, "partly": 1, "no": 2}
    assert value_of(answer(), scored, scale="ratio") is None
    assert value_of(answer(), covered, scale="ratio") is None


def test_a_level_has_its_value_and_criteria_are_reported_as_given():
    levelled = Dimension(name="d", asks="?", levels={"fine": 0.9, "bad": 0.2})
    assert value_of(answer(level="fine"), levelled, scale="ratio") == 0.9
    assert value_of(answer(), levelled, scale="ratio") is None
    assert raw_of(answer(level="bad"), levelled) == "bad"
    assert raw_of(answer(criteria={"a": 5.0, "b": 1.0}), TWO) == {"a": 5.0, "b": 1.0}


def test_of_the_levels_of_samples_the_lower_middle_counts():
    levelled = Dimension(name="d", asks="?", levels={"fine": 0.9, "fair": 0.5, "bad": 0.2})

    def together(*levels):
        return combine_samples([answer(level=level) for level in levels], levelled, scale="ratio")

    assert together("fine", "bad", "fair") == (0.5, "fair", 2)
    assert together("fine", "fair") == (0.5, "fair", 1)
    assert together("fine", "bad", "bad", "fine") == (0.2, "bad", 1)
    assert together("fine", None, "fine") == (0.9, "fine", 0)
    assert together("fine", None) == (None, None, 1)


def test_of_claims_the_middle_score_counts_and_the_sample_nearest_to_it_speaks():
    scored = Dimension(name="d", asks="?", claims=True)
    samples = [
        answer(
            claims=tuple(
                Claim(claim="c", quote="", reasoning="", importance="minor", verdict=each)
                for each in verdicts
            )
        )
        for verdicts in (["contradicted"], ["supported", "partly"], ["supported"], [])
    ]
    value, raw, nearest = combine_samples(samples[:3], scored, scale="ratio")
    assert (value, nearest) == (0.75, 1)
    assert raw["partly"] == 1
    assert combine_samples(samples, scored, scale="ratio").value == 0.75
    assert combine_samples(samples[2:], scored, scale="ratio") == (None, raw_of(samples[3], scored), 1)


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [([True, False], None), ([True, True, False], True), ([True, False, False], False), ([False], False)],
)
def test_a_majority_is_more_than_half(verdicts, said):
    assert majority(verdicts) is said


CRITERIA = [each for rubric in built_in_rubrics().values() for each in rubric.dimensions if each.criteria]


@pytest.mark.parametrize("scale", ["ratio", "minmax"])
@pytest.mark.parametrize("dimension", CRITERIA, ids=lambda each: each.name)
def test_scores_that_are_equal_are_the_same_number(dimension, scale):
    """By fractions, which do not round: or else samples that agree would count as different scores."""
    weights = [Fraction(str(each.weight)) for each in dimension.criteria]
    numbers: dict[Fraction, set] = {}
    for values in itertools.product(range(1, 6), repeat=len(weights)):
        given = {each.name: float(value) for each, value in zip(dimension.criteria, values, strict=True)}
        mean = sum(map(Fraction.__mul__, weights, map(Fraction, values))) / sum(weights)
        score = mean / 5 if scale == "ratio" else (mean - 1) / 4
        numbers.setdefault(score, set()).add(value_of(answer(criteria=given), dimension, scale=scale))
    for score, found in numbers.items():
        (value,) = found
        assert value == pytest.approx(float(score), abs=1e-12)
        assert 0 <= value <= 1


LEVELS = {"excellent": "1", "good": "0.8", "acceptable": "0.6", "poor": "0.3", "failed": "0"}


def test_a_mean_that_is_the_pass_mark_passes():
    """0.7 is reached by many levels together, some of which add up to a hair less in floating point."""
    overall = metric_class("agent.overall")()
    weights = {name: Fraction(str(weight)) for name, weight in overall.weights.items()}
    reached = 0
    for levels in itertools.product(map(Fraction, LEVELS.values()), repeat=len(weights)):
        mean = sum(map(Fraction.__mul__, weights.values(), levels)) / sum(weights.values())
        if abs(mean - Fraction("0.7")) > Fraction("0.005"):
            continue
        reached += mean == Fraction("0.7")
        subject = MetricInput(Case(id="c", input=None), Attempt(case="c"))
        votes = {
            name: [{"model": judge, "value": float(level)} for judge in ("one", "other")]
            for name, level in zip(weights, levels, strict=True)
        }
        for name, level in zip(weights, levels, strict=True):
            subject.scores[name] = Score(name=name, tier="judge", status="ok", value=float(level))
        assert overall.score(subject).detail["passed"] == (mean >= Fraction("0.7"))
        by_each = by_judge(
            {
                name: Score(name=name, tier="judge", status="ok", value=0.5, detail={"votes": votes[name]})
                for name in weights
            },
            overall.weights,
        )
        assert {value >= 0.7 for value in by_each.values()} == {mean >= Fraction("0.7")}
    assert reached > 20


@pytest.mark.parametrize(
    ("value", "level"),
    [
        (0.9, "good"),
        (0.7, "acceptable"),
        (0.45, "poor"),
        (0.15, "failed"),
        (0.46, "acceptable"),
        (1.0, "excellent"),
    ],
)
def test_the_level_shown_is_the_nearest_and_ties_go_down(value, level):
    """0.45 is as far from 0.3 as from 0.6, which floating point does not know."""
    assert nearest_level(value, Dimension(name="d", asks="?").level_values) == level
