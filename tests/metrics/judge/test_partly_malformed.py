"""A dimension that was not answered as asked costs itself, and the others of its request nothing."""

import msgspec
import pytest

from tests.judge_server import JudgeServer
from tests.judge_server.fill import fill
from tests.metrics.judge.asked import ATTEMPT, CASE, CLAUDE, GPT, judged, served
from trivium.suites.case import Expect

ASPECTS = ("the method", "the data", "the result")
PAIR = (msgspec.structs.replace(CASE, expect=Expect(aspects=ASPECTS)), ATTEMPT)
OTHERS = ("factual_accuracy", "citation_accuracy", "source_quality")


def answer(question, *, aspects=3):
    """What the schema allows, with so many aspects."""
    filled = fill(question.schema, seed=7)
    one = {"aspect": "the method", "quote": "the text", "covered": "yes"}
    filled["completeness"]["aspects"] = [one] * aspects
    return filled


def judged_by(monkeypatch, answers, **judge):
    with served(JudgeServer(answer=answers), monkeypatch) as server:
        (scores,) = judged(("agent",), pairs=[PAIR], **judge)
    return scores, server


def again(question):
    return "cannot be used" in question.prompt


def test_the_others_keep_their_answers(monkeypatch):
    scores, server = judged_by(monkeypatch, lambda question: answer(question, aspects=2))
    assert scores["completeness"].status == "fallback"
    assert "completeness.aspects is a list of 2, expected a list of 3" in scores["completeness"].reason
    assert {scores[name].status for name in OTHERS} <= {"ok", "abstained", "skipped"}
    assert scores["factual_accuracy"].detail["requests"] == len(server.requests) == 2


def test_the_second_answer_counts_where_it_is_whole(monkeypatch):
    scores, server = judged_by(
        monkeypatch, lambda question: answer(question, aspects=3 if again(question) else 2)
    )
    assert (scores["completeness"].status, scores["completeness"].value) == ("ok", 1.0)
    assert len(server.requests) == 2
    assert "completeness.aspects must be a list of 3" in server.requests[1].prompt


def test_the_first_answer_counts_where_the_second_is_worse(monkeypatch):
    scores, _ = judged_by(
        monkeypatch, lambda question: "no more of this" if again(question) else answer(question, aspects=2)
    )
    assert scores["completeness"].status == "fallback"
    assert {scores[name].status for name in OTHERS} <= {"ok", "abstained", "skipped"}
    assert scores["factual_accuracy"].detail["evidence"]


def test_of_several_mistakes_each_is_told(monkeypatch):
    def both(question):
        filled = answer(question, aspects=2)
        filled["source_quality"]["confidence"] = 9
        return filled

    scores, server = judged_by(monkeypatch, both, on_failure="skip")
    assert {scores[name].status for name in ("completeness", "source_quality")} == {"skipped"}
    assert "completeness.aspects must be" in server.requests[1].prompt
    assert "source_quality.confidence must be one of 1, 2, 3, 4, 5" in server.requests[1].prompt


def test_a_sample_that_lacks_a_dimension_is_left_out_of_it(monkeypatch):
    def one_in_three(question):
        return answer(question, aspects=2 if question.body["seed"] == 1 else 3)

    scores, _ = judged_by(monkeypatch, one_in_three, samples=3)
    assert scores["completeness"].detail["samples"] == [1.0, 1.0]
    assert len(scores["source_quality"].detail["samples"]) == 3


@pytest.mark.parametrize("all_fail", [True, False])
def test_a_judge_of_a_panel_is_missing_in_that_dimension_alone(monkeypatch, all_fail):
    def one_is_wrong(question):
        return answer(question, aspects=2 if all_fail or question.model.startswith("gpt") else 3)

    scores, _ = judged_by(monkeypatch, one_is_wrong, models=(GPT, CLAUDE), panel=True, on_failure="fail")
    assert scores["source_quality"].detail["panel"]["voted"] == 2
    if all_fail:
        assert scores["completeness"].status == "error"
    else:
        panel = scores["completeness"].detail["panel"]
        assert (panel["asked"], panel["voted"]) == (2, 1)
        (failed,) = panel["failed"]
        assert failed["model"] == GPT
        assert "never as asked" in failed["reason"]
