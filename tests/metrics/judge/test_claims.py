"""Claims, each with its quote and reasoning, and what a judge was not shown."""

from functools import partial

import pytest

import trivium as tv
from tests.judge_server import JudgeServer
from tests.metrics.judge.asked import ATTEMPT, judged
from tests.metrics.judge.asked import served as served_by
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.suites.settings import JudgeSettings, Settings
from trivium.suites.suite import Suite

GPT = "openai:gpt-4o-mini"


@pytest.fixture
def served(monkeypatch):
    return partial(served_by, patch=monkeypatch)


def claims_of(*verdicts, quote=""):
    claims = [
        {"claim": "c", "quote": quote, "reasoning": "so", "importance": "major", "verdict": each}
        for each in verdicts
    ]
    return {"factual_accuracy": {"claims": claims, "reason": "so", "confidence": 3}}


LONG = Case(id="c", input="q", source="x" * 3000 + " The sea is blue.", references=("short",))


@pytest.mark.parametrize(("most", "seen"), [(60_000, True), (2000, False)])
def test_a_fact_behind_the_first_characters_is_seen_by_default_and_never_counts_as_false(served, most, seen):
    def honest(question):
        there = "The sea is blue." in question.prompt
        return claims_of("supported" if there else "not_shown", quote="The sea is blue." * there)

    with served(JudgeServer(answer=honest)):
        (scores,) = judged(("factual_accuracy",), pairs=((LONG, ATTEMPT),), excerpt_chars=most)
        (usual,) = judged(("factual_accuracy",), pairs=((LONG, ATTEMPT),))
    score = scores["factual_accuracy"]
    assert usual["factual_accuracy"].value == 1.0
    assert (score.status, score.value) == (("ok", 1.0) if seen else ("abstained", None))
    assert score.raw["not_shown"] == (0 if seen else 1)
    part = {"source": {"shown": 2000, "of": 3017, "unit": "characters"}}
    assert score.detail.get("shown") == (None if seen else part)
    if not seen:
        assert score.reason == "what the claims rest on was not shown to the judge (judge.excerpt_chars)"


def test_what_was_not_shown_takes_no_part_in_a_score(served):
    with served(JudgeServer(answer=lambda _: claims_of("supported", "contradicted", "not_shown"))):
        (cut,) = judged(("factual_accuracy",), pairs=((LONG, ATTEMPT),), excerpt_chars=100)
        (whole,) = judged(("factual_accuracy",), pairs=((LONG, ATTEMPT),))
    assert cut["factual_accuracy"].value == 0.5
    # Where nothing was cut, what the texts do not say is unverifiable, whatever the judge calls it.
    assert whole["factual_accuracy"].value == pytest.approx(1 / 3)
    assert whole["factual_accuracy"].raw == cut["factual_accuracy"].raw | {"unverifiable": 1, "not_shown": 0}


def test_each_claim_has_its_quote_and_reasoning_before_its_verdict(served):
    with served(JudgeServer(answer=lambda _: claims_of("supported", quote="the text is fine"))) as server:
        (scores,) = judged(("factual_accuracy",))
    (question,) = server.requests
    fields = question.schema["properties"]["factual_accuracy"]["properties"]
    assert list(fields) == ["claims", "reason", "confidence"]
    assert list(fields["claims"]["items"]["properties"]) == [
        "claim",
        "quote",
        "reasoning",
        "importance",
        "verdict",
    ]
    detail = scores["factual_accuracy"].detail
    assert detail["claims"][0]["quote"] == "the text is fine"
    assert detail["evidence"] == [{"quote": "the text is fine", "found": True}]


def test_no_more_is_shown_than_the_context_of_the_smallest_model_allows(served):
    source = "y" * 70_000
    pairs = ((Case(id="c", input="q", source=source), ATTEMPT),)
    shares = {}
    with served(JudgeServer()):
        for model in (GPT, "openai:gpt-3.5-turbo", "openai:my-own"):
            (scores,) = judged(("technical_accuracy",), pairs=pairs, models=(model,))
            shares[model] = scores["technical_accuracy"].detail["shown"]["source"]["shown"]
    assert shares == {GPT: 60_000, "openai:gpt-3.5-turbo": 16_385, "openai:my-own": 60_000}


def test_a_run_says_how_much_of_what_judges_were_shown(served, tmp_path):
    cases = [
        {"id": str(n), "input": "q", "source": "z" * (84_000 if n < 3 else 50), "references": "fine"}
        for n in range(5)
    ]
    suite = Suite(
        name="s",
        cases=cases,
        settings=Settings(
            judge=JudgeSettings(models=(GPT,), rubric=("review", "agent")),
            similarity={"jaccard": 1},
            metrics=("technical_accuracy", "constructiveness", "factual_accuracy"),
        ),
    )
    with served(JudgeServer()), Store(str(tmp_path / "s.db")) as store:
        run = tv.evaluate(suite, agent=lambda _: "It is fine.", store=store)
        lines = [line for line in run.summary().warnings if "in part" in line]
    assert lines == [
        "judges were shown source in part in 3 of 5: 180,000 of 252,000 characters (judge.excerpt_chars)"
    ]
