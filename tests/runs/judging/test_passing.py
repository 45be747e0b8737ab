"""Tests that the rubric ``agent`` decides whether an attempt passes, unless the suite says otherwise."""

from dataclasses import replace

import msgspec
import pytest

from tests.runs.judging.suites import MODEL, OTHER, provider, run, suite
from trivium.store.store import Store
from trivium.suites.settings import PassRule

METRICS = ("similarity", "success", "agent")


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


def answers(*, claude=None, covered="no", **levels):
    """Levels of source_quality and what is covered by model; all other dimensions have no score."""

    def answer(question):
        mine = question.api == "messages"
        none = {"evidence": [], "reason": "so", "confidence": 3}
        aspect = {"aspect": "the method", "quote": "", "covered": "yes" if mine else covered}
        answers_given = {
            "factual_accuracy": none | {"claims": []},
            "citation_accuracy": none | {"level": None},
            "source_quality": none | {"level": claude if mine else levels.get("gpt")},
            "completeness": none | {"aspects": [] if levels else [aspect]},
        }
        return {name: answers_given[name] for name in question.schema["properties"]}

    return answer


def verdicts(found):
    summary = found.summary()
    return [each.passed for each in found.evaluations()], summary.pass_rate.value, summary


@pytest.mark.parametrize(
    ("level", "passed"), [("excellent", True), ("good", True), ("acceptable", False), ("failed", False)]
)
def test_the_rubric_decides_at_seven_tenths(monkeypatch, store, level, passed):
    with provider(monkeypatch, answer=answers(gpt=level)):
        found, rate, summary = verdicts(run(suite(2, metrics=METRICS), store))
    assert found == [passed, passed]
    assert rate == float(passed)
    if not passed:
        assert {each.why for each in summary.failures} == {
            f"agent.overall {({'acceptable': 0.6, 'failed': 0})[level]:.3f} is under 0.7"
        }


def test_what_has_no_score_has_no_verdict(monkeypatch, store):
    with provider(monkeypatch, answer=answers(gpt=None)):
        found, rate, _ = verdicts(run(suite(2, metrics=METRICS), store))
    assert (found, rate) == ([None, None], None)


@pytest.mark.parametrize(("covered", "passed"), [("yes", True), ("partly", None), ("no", None)])
def test_of_a_panel_the_majority_decides_and_a_tie_nothing(monkeypatch, store, covered, passed):
    with provider(monkeypatch, answer=answers(covered=covered)):
        found = run(suite(1, metrics=METRICS, models=[MODEL, OTHER], panel=True), store)
    (evaluation,) = found.evaluations()
    assert evaluation.scores["agent.overall"].value == {"yes": 1, "partly": 0.75, "no": 0.5}[covered]
    assert evaluation.passed is passed


def test_a_panel_does_not_pass_an_attempt_that_most_of_it_fails_even_if_the_median_passes(monkeypatch, store):
    """One misses what is asked for, one finds a claim wrong; of both dimensions the median is 1."""
    found_by = {"gpt-4o-mini": ("no", "supported"), "gpt-4o": ("yes", "contradicted")}

    def answer(question):
        covered, verdict = found_by.get(question.model, ("yes", "supported"))
        answers_given = answers(gpt=None)(question)
        answers_given["completeness"]["aspects"] = [{"aspect": "a", "quote": "", "covered": covered}]
        answers_given["factual_accuracy"]["claims"] = [
            {"claim": "c", "quote": "", "reasoning": "so", "importance": "major", "verdict": verdict}
        ]
        return answers_given

    with provider(monkeypatch, answer=answer):
        models = [MODEL, "openai:gpt-4o", OTHER]
        found, _, summary = verdicts(run(suite(1, metrics=METRICS, models=models, panel=True), store))
    assert found == [False]
    assert summary.metrics["agent.overall"].mean == 1.0
    (failure,) = summary.failures
    assert failure.why == "agent.overall is 1.000, but most of its judges are under 0.7"


def test_a_rule_of_the_suite_goes_first(monkeypatch, store):
    asked = suite(1, metrics=METRICS)
    settings = msgspec.structs.replace(asked.settings, passed=PassRule(metric="similarity", at_least=0.0))
    with provider(monkeypatch, answer=answers(gpt="failed")):
        found = run(replace(asked, settings=settings), store)
    assert [each.passed for each in found.evaluations()] == [True]


def test_without_the_whole_rubric_success_decides(monkeypatch, store):
    with provider(monkeypatch, answer=answers(gpt="excellent")):
        found, *_ = verdicts(run(suite(1, metrics=("similarity", "success", "source_quality")), store))
    assert found == [False]
