"""Judged dimensions, asked of a provider on loopback through the real clients."""

import json
import logging
import re
from contextlib import contextmanager

import pytest

import trivium as tv
from tests.judge_server import HANG, MALFORMED, REFUSAL, RESET, TRUNCATED, Answer, JudgeServer, at, failure
from tests.judge_server import rate_limited as limited
from trivium.agents.attempt import Attempt
from trivium.errors import SuiteError
from trivium.metrics.registry import build_metrics
from trivium.metrics.scoring import score_attempts
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.suites.settings import JudgeSettings, Settings
from trivium.suites.suite import Suite

GPT, CLAUDE = "openai:gpt-4o-mini", "anthropic:claude-haiku-4-5"
KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)


@pytest.fixture
def served(monkeypatch):
    """Points the environment at a server, as a user would."""

    @contextmanager
    def point(server):
        with server:
            yield from _pointed(server)

    def _pointed(server):
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-1234567890")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-not-a-real-key-1234567890")
        yield server

    return point


def clarity(score=4, *, confidence=3, evidence=("the text",), **scores):
    criteria = dict.fromkeys(("structure", "readability", "logical_flow"), score) | scores
    return {
        "clarity": {
            "evidence": list(evidence),
            "criteria": {name: {"explanation": "so", "score": value} for name, value in criteria.items()},
            "reason": "it reads well",
            "confidence": confidence,
        }
    }


CASE = Case(id="c", input="Review it.", references=("the text is fine",), source="A source.")
ATTEMPT = Attempt(case="c", output="The  text\nis fine and clear.")


def judged(metrics=("clarity",), *, pairs=((CASE, ATTEMPT),), models=(GPT,), **judge):
    settings = Settings(
        judge=JudgeSettings(models=models, **judge), similarity={"jaccard": 1}, metrics=tuple(metrics)
    )
    from trivium.metrics.registry import default_metrics

    return score_attempts(build_metrics(default_metrics(settings), settings), list(pairs))


@pytest.mark.parametrize("model", [GPT, CLAUDE])
def test_a_judgement_is_recorded_with_all_that_it_rests_on(served, model):
    answer = clarity(4, logical_flow=5, evidence=["THE TEXT  is fine", "never said"])
    with served(JudgeServer(answer=lambda _: answer)) as server:
        (scores,) = judged(models=(model,))
    score = scores["clarity"]
    assert (score.status, score.tier, score.reason) == ("ok", "judge", "it reads well")
    assert score.value == pytest.approx((4 + 4 + 5) / 3 / 5)
    assert score.raw == {"structure": 4, "readability": 4, "logical_flow": 5}
    assert score.detail["model"] == model
    assert [each["found"] for each in score.detail["evidence"]] == [True, False]
    assert score.detail["signals"]["llm_evidence_count"] == 1
    assert score.detail["signals"]["verbalized_confidence"] == 3
    assert score.detail["tokens"]["input"] > 0
    assert len(server.requests) == 1


def test_dimensions_of_a_rubric_share_one_request_an_attempt(served):
    pairs = [(CASE, Attempt(case="c", repeat=n, output=f"text {n}")) for n in range(5)]
    with served(JudgeServer()) as server:
        results = judged(("technical_accuracy", "constructiveness", "review.clarity"), pairs=pairs)
    assert len(server.requests) == 5
    names = {"technical_accuracy", "constructiveness", "clarity"}
    assert all(scores[name].status in {"ok", "abstained"} for scores in results for name in names)


def test_token_signals_come_from_the_tokens_of_the_scores(served):
    odds = {"clarity.criteria.structure.score": {"4": 0.5, "3": 0.5}}
    odds |= {f"clarity.criteria.{name}.score": {"4": 1.0} for name in ("readability", "logical_flow")}
    with served(JudgeServer(answer=lambda _: Answer(output=clarity(4), odds=odds))):
        (scores,) = judged()
    signals = scores["clarity"].detail["signals"]
    assert signals["token_msp"] == pytest.approx((0.5 + 1 + 1) / 3)
    assert signals["token_pe"] == pytest.approx(0.6931471805599453 / 3)  # ln 2 of one token in three
    assert signals["token_energy"] == pytest.approx(0, abs=1e-9)


def test_a_provider_without_log_probabilities_leaves_the_token_signals_null(served):
    with served(JudgeServer(answer=lambda _: clarity())):
        (scores,) = judged(models=(CLAUDE,))
    assert scores["clarity"].detail["signals"]["token_msp"] is None


def test_samples_are_independent_and_tell_how_consistent_they_are(served):
    answers = iter([clarity(4), clarity(4), clarity(2)])
    with served(JudgeServer(answer=lambda _: next(answers))) as server:
        (scores,) = judged(samples=3, concurrency=1, seed=7)
    assert [each.body["seed"] for each in server.requests] == [7, 8, 9]
    assert {each.body["temperature"] for each in server.requests} == {0.7}
    score = scores["clarity"]
    assert score.value == pytest.approx(0.8)
    assert score.detail["signals"]["consistency_modal_confidence"] == pytest.approx(2 / 3)
    assert score.detail["signals"]["consistency_score_std"] == pytest.approx(0.18856180831641267)
    assert score.detail["signals"]["consistency_na_rate"] == 0


@pytest.mark.parametrize(
    ("given", "value", "criteria"),
    [
        # No two means are alike: the smallest of them, the old rule, would be 0.6.
        (((3, 3, 3), (5, 4, 5), (4, 5, 4)), 12 / 15, (4, 4, 4)),
        (((3, 3, 3), (4, 3, 5)), 10.5 / 15, (3.5, 3, 4)),
        # Of each criterion over the samples that scored it, and what one of two has is not enough.
        (((5, None, 3), (3, 3, 3), (5, 1, None)), 10 / 15, (5, 2, 3)),
        (((5, None, 3), (3, 3, 3)), None, (4, None, 3)),
    ],
)
def test_of_samples_the_median_of_each_criterion_counts(served, given, value, criteria):
    names = ("structure", "readability", "logical_flow")
    answers = iter([clarity(**dict(zip(names, each, strict=True))) for each in given])
    with served(JudgeServer(answer=lambda _: next(answers))):
        (scores,) = judged(samples=len(given), concurrency=1)
    score = scores["clarity"]
    assert score.value == (None if value is None else pytest.approx(value))
    assert score.status == ("abstained" if value is None else "ok")
    assert tuple(score.raw.values()) == criteria
    assert tuple(each["score"] for each in score.detail["criteria"].values()) == criteria
    assert len(score.detail["samples"]) == len(given)


def test_a_judge_may_abstain(served):
    with served(JudgeServer(answer=lambda _: clarity(4, structure=None))):
        (scores,) = judged()
    assert (scores["clarity"].status, scores["clarity"].value) == ("abstained", None)
    assert scores["clarity"].reason == "it reads well"


@pytest.mark.parametrize("fault", [limited(0), failure(500), failure(503, retry_after=0), RESET], ids=str)
def test_a_passing_failure_is_tried_again(served, fault):
    with served(JudgeServer(answer=lambda _: clarity(), plan=at({0: fault}))) as server:
        (scores,) = judged()
    assert scores["clarity"].status == "ok"
    assert scores["clarity"].detail["requests"] == len(server.requests) == 2


@pytest.mark.parametrize("fault", [MALFORMED, TRUNCATED], ids=str)
def test_a_malformed_answer_is_asked_for_once_more(served, fault):
    with served(JudgeServer(answer=lambda _: clarity(), plan=at({0: fault}))) as server:
        (scores,) = judged()
    assert scores["clarity"].status == "ok"
    assert len(server.requests) == 2
    assert "cannot be used" in server.requests[1].prompt


def test_a_score_out_of_bounds_is_malformed(served):
    with served(JudgeServer(answer=lambda _: clarity(6))) as server:
        (scores,) = judged(on_failure="fail")
    assert scores["clarity"].status == "error"
    assert "clarity.criteria.structure.score is 6, expected one of 1, 2, 3, 4, 5" in scores["clarity"].reason
    assert len(server.requests) == 2


def test_the_next_model_judges_when_the_first_cannot(served):
    def answers(question):
        return clarity(2 if question.model.startswith("claude") else 5)

    def plan(question):
        return failure(400) if question.model.startswith("gpt") else at({})(question)

    with served(JudgeServer(answer=answers, plan=plan)):
        (scores,) = judged(models=(GPT, CLAUDE))
    assert scores["clarity"].value == pytest.approx(0.4)
    assert scores["clarity"].detail["model"] == CLAUDE
    assert "400" in scores["clarity"].detail["passed_over"][0]


@pytest.mark.parametrize(
    ("policy", "status", "value"),
    [("tier1", "fallback", 0.5), ("skip", "skipped", None), ("fail", "error", None)],
)
def test_the_policy_decides_when_no_model_answers(served, policy, status, value):
    attempt = Attempt(case="c", output="the text")
    with served(JudgeServer(plan=lambda _: REFUSAL)):
        (scores,) = judged(pairs=((CASE, attempt),), on_failure=policy)
    score = scores["clarity"]
    assert (score.status, score.value) == (status, value)
    assert score.method == ("similarity" if policy == "tier1" else None)
    assert "refused" in score.reason


def test_without_a_reference_there_is_nothing_to_fall_back_on():
    (scores,) = judged(pairs=((Case(id="c", input="q"), ATTEMPT),))
    assert scores["clarity"].status == "skipped"
    assert "the case has no reference" in scores["clarity"].reason


def test_a_hanging_request_ends_at_its_time_limit(served):
    with served(JudgeServer(answer=lambda _: clarity(), plan=at({0: HANG}))):
        (scores,) = judged(timeout=0.3)
    assert scores["clarity"].status == "ok"


def test_no_more_requests_are_in_flight_than_were_allowed(served):
    pairs = [(CASE, Attempt(case="c", repeat=n, output=f"text {n}")) for n in range(12)]
    with served(JudgeServer(answer=lambda _: clarity(), latency=0.01)) as server:
        judged(pairs=pairs, concurrency=3)
    assert server.peak_in_flight <= 3


def test_without_a_key_one_line_says_why_the_judge_is_off(caplog):
    with caplog.at_level(logging.WARNING):
        (scores,) = judged(("clarity", "agent"), pairs=[(CASE, ATTEMPT)] * 3)[:1]
    assert scores["clarity"].status == scores["source_quality"].status == "fallback"
    assert [record.message for record in caplog.records if "judge" in record.message] == [
        f"the judge {GPT} is off: OPENAI_API_KEY is not set, which {GPT} needs"
    ]


def test_a_suite_without_a_judge_skips_what_is_judged():
    settings = Settings(metrics=("planning_rationality",))
    (scores,) = score_attempts(build_metrics(settings.metrics, settings), [(CASE, ATTEMPT)])
    assert scores["planning_rationality"].status == "skipped"
    assert "names no judge" in scores["planning_rationality"].reason


def test_an_unknown_rubric_is_refused_with_the_nearest():
    with pytest.raises(SuiteError, match='no rubric is called "reviw". Did you mean "review"'):
        judged(rubric=("reviw",))


def test_a_key_never_reaches_a_reason(served):
    with served(JudgeServer(plan=lambda _: failure(401))):
        (scores,) = judged()
    assert "sk-not-a-real-key" not in repr(scores)


def test_models_may_be_chosen_by_the_complexity_of_a_case(served):
    hard = Case(id="h", input="q", complexity="complex")
    with served(JudgeServer(answer=lambda _: clarity())) as server:
        judged(pairs=((CASE, ATTEMPT), (hard, ATTEMPT)), models_by_complexity={"complex": (CLAUDE,)})
    assert sorted(each.model for each in server.requests) == ["claude-haiku-4-5", "gpt-4o-mini"]


def test_the_scale_and_its_step_are_the_suites(served):
    with served(JudgeServer(answer=lambda _: clarity(4.5))):
        (scores,) = judged(scale="minmax", step=0.5)
    assert scores["clarity"].value == pytest.approx(3.5 / 4)


def test_a_document_is_shown_as_an_excerpt(served):
    case = Case(id="c", input="q", source="begin " + "x" * 5000 + " finish")
    with served(JudgeServer()) as server:
        judged(("technical_accuracy",), pairs=((case, ATTEMPT),), excerpt_chars=100)
    prompt = server.requests[0].prompt
    assert "begin" in prompt
    assert "finish" not in prompt


def test_a_document_may_be_shown_where_the_output_leads(served):
    case = Case(id="c", input="q", source="Nothing of it.\n\n" * 50 + "It is fine and clear there.")
    with served(JudgeServer()) as server:
        for excerpts in ("head", "retrieval"):
            judged(("technical_accuracy",), pairs=((case, ATTEMPT),), excerpt_chars=100, excerpts=excerpts)
    assert ["fine and clear there" in each.prompt for each in server.requests] == [False, True]


def test_a_rubric_in_all_is_the_weighted_mean_of_its_dimensions(served):
    def level(name):
        return {"evidence": [], "reason": "so", "level": name, "confidence": 4}

    claims = [
        {"claim": "a", "quote": "", "reasoning": "so", "importance": "major", "verdict": "supported"},
        {"claim": "b", "quote": "", "reasoning": "so", "importance": "minor", "verdict": "contradicted"},
    ]
    answer = {
        "factual_accuracy": {"evidence": [], "claims": claims, "reason": "so", "confidence": 4},
        "completeness": {
            "aspects": [
                {"aspect": "a", "quote": "the text is", "covered": "yes"},
                {"aspect": "b", "quote": "", "covered": "yes"},
                {"aspect": "c", "quote": "", "covered": "yes"},
                {"aspect": "d", "quote": "", "covered": "partly"},
                {"aspect": "e", "quote": "", "covered": "partly"},
            ],
            "reason": "so",
            "confidence": 4,
        },
        "citation_accuracy": level("poor"),
        "source_quality": level(None),
    }
    with served(JudgeServer(answer=lambda _: answer)) as server:
        (scores,) = judged(("agent",))
    assert len(server.requests) == 1
    assert scores["factual_accuracy"].value == pytest.approx(2 / 3)
    assert scores["factual_accuracy"].detail["level"] == "acceptable"
    assert scores["completeness"].raw == {"yes": 3, "partly": 2, "no": 0}
    assert scores["completeness"].detail["signals"]["llm_evidence_count"] == 1
    assert scores["source_quality"].status == "abstained"
    assert scores["agent.tool_efficiency"].status == "skipped"
    expected = (0.30 * 2 / 3 + 0.25 * 0.8 + 0.15 * 0.3) / 0.70
    assert scores["agent.overall"].value == pytest.approx(expected)
    assert scores["agent.overall"].detail["passed"] is False


def test_from_the_suite_file_to_the_summary(served, tmp_path):
    suite = {
        "name": "s",
        "cases": [{"id": "a", "input": "q", "references": ["the text is fine"]}],
        "metrics": ["review"],
        "similarity": {"jaccard": 1},
        "judge": {"models": GPT},
    }
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    (tmp_path / "outputs.jsonl").write_text(json.dumps({"case": "a", "output": "the text is fine"}))
    with served(JudgeServer()), Store(str(tmp_path / "s.db")) as store:
        run = tv.evaluate(
            Suite.load(tmp_path / "suite.json"), outputs=tmp_path / "outputs.jsonl", store=store
        )
        summary = run.summary()
        (evaluation,) = run.evaluations()
    assert summary.dimension_averages == {
        name: evaluation.scores[name].value for name in ("clarity", "constructiveness")
    }
    assert summary.metrics["technical_accuracy"].status["skipped"] == 1


def test_a_rubric_may_be_judged_by_one_request_a_dimension(served):
    with served(JudgeServer()) as server:
        (scores,) = judged(("constructiveness", "clarity"), together=False)
    prompts = {asked_alone(each): each.prompt for each in server.requests}
    assert len(server.requests) == len(prompts) == 2
    assert "A source." in prompts["constructiveness"]
    assert "A source." not in prompts["clarity"]  # which does not look at it
    assert scores["clarity"].detail["shared_by"] == 1


def asked_alone(question):
    """The dimension that a request is about which asks for no other."""
    return re.search(r"\nRubric\n\n(\w+): ", question.prompt).group(1)


@pytest.mark.parametrize("model", [GPT, CLAUDE])
def test_requests_of_a_case_share_all_but_what_they_ask(served, model):
    """So that providers bill a long source once: dimensions that look at the same, and samples."""
    with served(JudgeServer()) as server:
        (scores,) = judged(
            ("technical_accuracy", "constructiveness", "clarity"), models=(model,), together=False, samples=2
        )
    assert {name: score.status for name, score in scores.items() if score.tier == "judge"} == dict.fromkeys(
        ("technical_accuracy", "constructiveness", "clarity"), "ok"
    )
    prompts = {}
    for each in server.requests:
        prompts.setdefault(asked_alone(each), set()).add(each.prompt)
    assert all(len(each) == 1 for each in prompts.values()), "samples differ in nothing that is read"
    names = ("technical_accuracy", "constructiveness", "clarity")
    (accuracy,), (constructive,), (clear,) = (prompts[name] for name in names)
    assert len({json.dumps(each.schema) for each in server.requests}) == 1
    end = accuracy.index("\n\nThat was all.")
    assert accuracy[:end] == constructive[:end]
    assert "A source." in accuracy[:end]
    assert accuracy.index("CODE is") == clear.index("CODE is"), "the instructions are the same"
    assert "actionable_feedback" not in accuracy
    assert all(
        each.detail["prompt"] != scores["clarity"].detail["prompt"]
        for each in (scores["technical_accuracy"], scores["constructiveness"])
    )


def test_an_answer_about_one_dimension_alone_is_read_by_its_neutral_keys(served):
    criteria = {f"criterion_{n}": {"explanation": f"e{n}", "score": n} for n in (1, 2, 3)}
    answer = {"judgement": {"evidence": [], "criteria": criteria, "reason": "r", "confidence": 3}}
    with served(
        JudgeServer(
            answer=lambda _: Answer(
                output=answer, odds={"judgement.criteria.criterion_1.score": {"1": 0.75, "2": 0.25}}
            )
        )
    ):
        (scores,) = judged(("clarity",), together=False)
    detail = scores["clarity"].detail
    assert scores["clarity"].raw == {"structure": 1, "readability": 2, "logical_flow": 3}
    assert detail["criteria"]["readability"] == {"explanation": "e2", "score": 2}
    assert detail["signals"]["token_msp"] is not None


def test_cases_share_the_instructions(served):
    pairs = [(CASE, ATTEMPT), (Case(id="d", input="Another."), Attempt(case="d", output="Other words."))]
    with served(JudgeServer()) as server:
        judged(("clarity",), pairs=pairs)
    systems = {each.body["messages"][0]["content"] for each in server.requests}
    assert len(server.requests) == 2
    assert len(systems) == 1
    assert "logical_flow" in systems.pop()
