"""A dimension that was not answered as asked costs itself, and the others of its request nothing."""

import msgspec
import pytest

from tests.judge_server import JudgeServer
from tests.judge_server.answer import Answer
from tests.judge_server.faults import TRUNCATED, at, failure
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


def fields(question):
    """The dimensions that are asked about."""
    return set(question.schema["properties"])


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


def test_asked_again_is_only_what_was_wrong_and_the_rest_stays(monkeypatch):
    def other_the_second_time(question):
        if not again(question):
            return answer(question, aspects=2)
        return answer(question) | {name: {"reason": "another"} for name in OTHERS}

    scores, server = judged_by(monkeypatch, other_the_second_time)
    assert [fields(question) for question in server.requests] == [{"completeness", *OTHERS}, {"completeness"}]
    assert "Give completeness again, and nothing else" in server.requests[1].prompt
    assert scores["completeness"].value == 1.0
    assert {scores[name].status for name in OTHERS} <= {"ok", "abstained", "skipped"}
    assert not any(scores[name].detail["reason"] == "another" for name in OTHERS)


def test_of_two_answers_each_dimension_has_the_tokens_of_its_own(monkeypatch):
    def respond(question):
        covered, good = ("yes", 1.0) if again(question) else ("maybe", 0.1)
        filled = fill(question.schema, seed=7)
        filled["completeness"]["aspects"] = [{"aspect": "a", "quote": "q", "covered": covered}] * 3
        odds = {f"completeness.aspects.{n}.covered": {covered: good} for n in range(3)}
        if "source_quality" in filled:
            filled["source_quality"]["level"] = "good"
            odds["source_quality.level"] = {"good": 0.25, "poor": 0.75}
        return Answer(output=filled, odds=odds)

    scores, server = judged_by(monkeypatch, respond)
    assert len(server.requests) == 2
    tokens = {
        name: scores[name].detail["signals"]["token_msp"] for name in ("completeness", "source_quality")
    }
    assert tokens == {"completeness": pytest.approx(1.0), "source_quality": pytest.approx(0.25)}


def test_what_is_still_wrong_of_what_was_asked_again_is_missing_alone(monkeypatch):
    def one_of_two(question):
        filled = fill(question.schema, seed=7)
        filled["completeness"]["aspects"] = []
        if not again(question):
            filled["source_quality"]["level"] = "fine"
        return filled

    scores, server = judged_by(monkeypatch, one_of_two, on_failure="skip")
    assert fields(server.requests[1]) == {"completeness", "source_quality"}
    assert scores["completeness"].status == "skipped"
    assert scores["completeness"].reason.count("answered twice") == 1
    assert scores["source_quality"].status in {"ok", "abstained"}


def test_each_of_several_mistakes_is_reported(monkeypatch):
    def both(question):
        filled = answer(question, aspects=2)
        filled["source_quality"]["level"] = "fine"
        return filled

    scores, server = judged_by(monkeypatch, both, on_failure="skip")
    assert {scores[name].status for name in ("completeness", "source_quality")} == {"skipped"}
    assert "completeness.aspects must be" in server.requests[1].prompt
    assert "source_quality.level must be one of excellent" in server.requests[1].prompt


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


def wrong_in_completeness(question, *, model="gpt-4o"):
    """An answer with too few aspects of that model's, a right one of any other."""
    filled = answer(question) if "completeness" in fields(question) else fill(question.schema, seed=7)
    if question.model.startswith(model) and "completeness" in filled:
        filled["completeness"]["aspects"] = filled["completeness"]["aspects"][:2]
    return filled


def test_the_next_model_is_asked_for_that_dimension_alone(monkeypatch):
    scores, server = judged_by(monkeypatch, wrong_in_completeness, models=(GPT, CLAUDE))
    assert [(question.model, len(fields(question))) for question in server.requests] == [
        ("gpt-4o", 4),
        ("gpt-4o", 1),
        ("claude-haiku-4-5", 1),
    ]
    completeness, others = scores["completeness"], [scores[name] for name in OTHERS]
    assert (completeness.status, completeness.value) == ("ok", 1.0)
    assert completeness.detail["model"] == CLAUDE
    assert completeness.detail["shared_by"] == 1
    (passed_over,) = completeness.detail["passed_over"]
    assert "answered twice, never as asked: completeness.aspects is a list of 2" in passed_over
    assert {each.detail["model"] for each in others} == {GPT}
    assert not any("passed_over" in each.detail for each in others)


def test_the_policy_decides_after_the_last_model_and_says_why_of_each(monkeypatch):
    def wrong_in_all(question):
        return wrong_in_completeness(question, model="")

    scores, server = judged_by(monkeypatch, wrong_in_all, models=(GPT, CLAUDE), on_failure="fail")
    assert [len(fields(question)) for question in server.requests] == [4, 1, 1, 1]
    assert scores["completeness"].status == "error"
    assert scores["completeness"].reason.count("answered twice, never as asked") == 2
    assert "gpt-4o answered" in scores["completeness"].reason
    assert "claude-haiku-4-5 answered" in scores["completeness"].reason


@pytest.mark.parametrize("panel", [False, True])
def test_the_reason_for_an_unjudged_dimension_names_every_model(monkeypatch, panel):
    def wrong_in_all(question):
        return wrong_in_completeness(question, model="")

    scores, _ = judged_by(
        monkeypatch, wrong_in_all, models=(GPT, CLAUDE, "mistral:x"), panel=panel, on_failure="skip"
    )
    assert scores["source_quality"].status in {"ok", "abstained"}
    assert "gpt-4o answered twice" in scores["completeness"].reason
    assert "claude-haiku-4-5 answered twice" in scores["completeness"].reason
    assert "install the `mistral` package" in scores["completeness"].reason


def test_a_budget_that_ends_before_asking_again_leaves_the_others_their_answers(monkeypatch):
    def costs_all_that_is_left(question):
        return Answer(output=answer(question, aspects=2), usage=(1_000, 90_000))

    scores, server = judged_by(
        monkeypatch, costs_all_that_is_left, budget_tokens=100_000, on_failure="skip", models=(GPT, CLAUDE)
    )
    assert len(server.requests) == 1
    assert {scores[name].status for name in OTHERS} <= {"ok", "abstained"}
    assert "answered once, not as asked (completeness.aspects is a list of 2" in scores["completeness"].reason
    assert "budget of 100,000 tokens" in scores["completeness"].reason


def test_a_provider_that_fails_when_asked_again_leaves_the_others_their_answers(monkeypatch):
    plan = at({1: failure(400, message="{no} more")})
    with served(JudgeServer(answer=lambda _: answer(_, aspects=2), plan=plan), monkeypatch) as server:
        (scores,) = judged(("agent",), pairs=[PAIR], on_failure="skip")
    assert len(server.requests) == 2
    assert {scores[name].status for name in OTHERS} <= {"ok", "abstained"}
    assert "and no more: gpt-4o" in scores["completeness"].reason
    assert "{no} more" in scores["completeness"].reason


def test_an_answer_that_was_cut_off_says_so_and_names_the_setting(monkeypatch):
    with served(JudgeServer(plan=lambda _: TRUNCATED), monkeypatch) as server:
        (scores,) = judged(("agent",), pairs=[PAIR], on_failure="skip", max_tokens=300)
    assert "cut off at 300 tokens, judge.max_tokens" in scores["source_quality"].reason
    assert "be brief" in server.requests[1].prompt


def test_a_malformed_answer_is_sent_back_in_bounded_length(monkeypatch):
    scores, server = judged_by(monkeypatch, lambda _: "x" * 100_000, on_failure="skip")
    assert scores["source_quality"].status == "skipped"
    first, second, *_ = server.requests
    assert len(second.prompt) < len(first.prompt) + 30_000
