"""Scores by hand: what a judge answered, and what it comes to."""

import pytest

from trivium.metrics.judge.panels.majority import majority
from trivium.metrics.judge.prompts.answer import Answer, Aspect, Claim
from trivium.metrics.judge.rubrics.scoring import value_of
from trivium.suites.rubrics.rubric import Criterion, Dimension

TWO = Dimension(
    name="d",
    asks="?",
    criteria=(Criterion(name="a", asks="?", weight=3), Criterion(name="b", asks="?", weight=1)),
)


def answer(**fields):
    return Answer(reason="", evidence=(), confidence=3, **fields)


def test_criteria_weigh_what_they_are_said_to():
    given = answer(criteria={"a": 5.0, "b": 1.0})
    assert value_of(given, TWO, scale="ratio") == pytest.approx(4 / 5)
    assert value_of(given, TWO, scale="minmax") == pytest.approx(3 / 4)
    assert value_of(answer(criteria={"a": 5.0, "b": None}), TWO, scale="ratio") is None


def test_major_claims_count_twice_and_aspects_alike():
    claims = tuple(
        Claim(claim="c", importance=importance, verdict=verdict)
        for importance, verdict in [("major", "supported"), ("minor", "partly"), ("minor", "contradicted")]
    )
    scored = Dimension(name="d", asks="?", claims=True)
    assert value_of(answer(claims=claims), scored, scale="ratio") == pytest.approx(2.5 / 4)
    aspects = tuple(Aspect(aspect="a", quote="", covered=each) for each in ("yes", "partly", "no", "no"))
    covered = Dimension(name="d", asks="?", aspects=True)
    assert value_of(answer(aspects=aspects), covered, scale="ratio") == pytest.approx(1.5 / 4)


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [([True, False], None), ([True, True, False], True), ([True, False, False], False), ([False], False)],
)
def test_a_majority_is_more_than_half(verdicts, said):
    assert majority(verdicts) is said
