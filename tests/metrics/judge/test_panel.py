"""Several judges of one attempt, asked of a provider on loopback."""

import statistics

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judge_server import HANG, REFUSAL, TRUNCATED, JudgeServer, at, failure
from tests.metrics.judge.asked import CLAUDE, GPT, MINI, clarity, judged, served
from trivium.metrics.judge.judgement import Judgement, unjudged
from trivium.metrics.judge.panel import combine_votes, majority
from trivium.suites.rubrics.built_in import built_in_rubrics

AGENT = built_in_rubrics()["agent"]
REVIEW = built_in_rubrics()["review"]

PANEL = (GPT, MINI, CLAUDE)
NAMES = {model.partition(":")[2]: model for model in PANEL}


def by_model(**answers):
    """A model each, by the words gpt, mini and claude."""
    models = dict(zip(("gpt", "mini", "claude"), NAMES, strict=True))
    chosen = {models[word]: answer for word, answer in answers.items()}
    return lambda question: chosen.get(question.model, clarity())


def panel_of(monkeypatch, server, metrics=("clarity",), **judge):
    with served(server, monkeypatch):
        (scores,) = judged(metrics, models=PANEL, panel=True, **judge)
    return scores[metrics[0]]


def test_the_score_of_a_panel_is_the_median_and_every_vote_is_recorded(monkeypatch):
    answer = by_model(
        gpt=clarity(5, reason="superb", confidence=5),
        mini=clarity(4, reason="good", evidence=["“THE  TEXT is.”", "never said"]),
        claude=clarity(1, reason="poor", confidence=2),
    )
    server = JudgeServer(answer=answer)
    score = panel_of(monkeypatch, server)
    assert (score.status, score.value, score.reason) == ("ok", pytest.approx(0.8), "good")
    assert len(server.requests) == 3
    detail = score.detail
    assert [(vote["model"], vote["value"], vote["reason"]) for vote in detail["votes"]] == [
        (GPT, 1.0, "superb"),
        (MINI, pytest.approx(0.8), "good"),
        (CLAUDE, pytest.approx(0.2), "poor"),
    ]
    assert score.raw == {"structure": 4, "readability": 4, "logical_flow": 4}
    assert detail["panel"] == {"asked": 3, "voted": 3, "failed": []}
    assert detail["model"] == f"{GPT} + {MINI} + {CLAUDE}"
    assert detail["requests"] == 3
    assert len(detail["prompt"]) == 16
    assert all("prompt" not in vote for vote in detail["votes"])
    assert detail["tokens"]["input"] == sum(vote["tokens"]["input"] for vote in detail["votes"])
    signals = detail["signals"]
    assert signals["verbalized_confidence"] == 3
    assert signals["llm_evidence_count"] == 1  # one quote of three judges, however it is written
    assert [each["found"] for each in detail["evidence"]] == [True, False]
    assert signals["panel_agreement"] == signals["consistency_modal_confidence"] == pytest.approx(1 / 3)
    assert signals["panel_score_std"] == pytest.approx(statistics.pstdev([1.0, 0.8, 0.2]))
    assert signals["token_msp"] == pytest.approx(
        statistics.fmean(vote["signals"]["token_msp"] for vote in detail["votes"][:2])
    )


def level(name, dimension="source_quality"):
    return {dimension: {"evidence": [], "reason": f"it is {name}", "level": name, "confidence": 4}}


@pytest.mark.parametrize(
    ("chosen", "status", "value"),
    [
        (("good", "poor", "good"), "ok", 0.8),
        (("good", "poor", "failed"), "abstained", None),
        (("good", "good", None), "ok", 0.8),
        (("good", None, None), "abstained", None),
        (("good", "poor", None), "abstained", None),
    ],
)
def test_a_level_needs_a_strict_majority(monkeypatch, chosen, status, value):
    answer = by_model(**dict(zip(("gpt", "mini", "claude"), map(level, chosen), strict=True)))
    score = panel_of(monkeypatch, JudgeServer(answer=answer), ("source_quality",))
    assert (score.status, score.value) == (status, value)
    if value is None:
        assert "judges" in score.reason
    else:
        assert score.raw == score.detail["level"] == "good"


@pytest.mark.parametrize("fault", [failure(400), REFUSAL, TRUNCATED, HANG], ids=str)
def test_a_judge_that_fails_makes_the_panel_smaller_and_is_reported(monkeypatch, fault):
    def plan(question):
        return fault if question.model == "gpt-4o-mini" else at({})(question)

    server = JudgeServer(answer=by_model(gpt=clarity(5), claude=clarity(4)), plan=plan)
    score = panel_of(monkeypatch, server, timeout=0.5 if fault is HANG else 60)
    assert (score.status, score.value) == ("ok", pytest.approx(0.9))
    (failed,) = score.detail["panel"]["failed"]
    assert failed["model"] == MINI
    assert failed["reason"]
    assert score.method == f"{GPT} + {CLAUDE} without {MINI}"
    assert score.detail["panel"]["voted"] == 2
    assert score.detail["model"] == f"{GPT} + {CLAUDE}"


def test_a_panel_of_which_none_answers_goes_the_way_of_any_judge(monkeypatch):
    score = panel_of(monkeypatch, JudgeServer(plan=lambda _: REFUSAL))
    assert (score.status, score.method) == ("fallback", "similarity")
    assert score.reason.count("refused") == 3


def test_half_of_a_panel_abstaining_is_a_tie_and_abstains(monkeypatch):
    def plan(question):
        return REFUSAL if question.model == "gpt-4o-mini" else at({})(question)

    answer = by_model(gpt=clarity(5), claude=clarity(None, reason="too little"))
    score = panel_of(monkeypatch, JudgeServer(answer=answer, plan=plan))
    assert (score.status, score.value, score.reason) == ("abstained", None, "1 of 2 judges abstained")


def test_a_criterion_has_the_median_of_most_judges_or_no_score(monkeypatch):
    answer = by_model(gpt=clarity(5), mini=clarity(4, structure=None), claude=clarity(1, structure=None))
    score = panel_of(monkeypatch, JudgeServer(answer=answer))
    assert (score.status, score.reason) == ("abstained", "2 of 3 judges abstained")
    assert score.raw == {"structure": None, "readability": 4, "logical_flow": 4}
    mostly = by_model(gpt=clarity(5), mini=clarity(4), claude=clarity(1, structure=None))
    assert panel_of(monkeypatch, JudgeServer(answer=mostly)).raw["structure"] == 4.5


def test_each_judge_of_a_panel_is_asked_for_every_sample(monkeypatch):
    server = JudgeServer(answer=by_model(gpt=clarity(5), mini=clarity(4), claude=clarity(4)))
    score = panel_of(monkeypatch, server, samples=2)
    assert len(server.requests) == 6
    assert [vote["samples"] for vote in score.detail["votes"]] == [[1.0, 1.0], [0.8, 0.8], [0.8, 0.8]]
    signals = score.detail["signals"]
    assert signals["consistency_modal_confidence"] == pytest.approx(4 / 6)
    assert signals["panel_agreement"] == pytest.approx(2 / 3)


def test_claims_of_a_panel_count_by_their_score(monkeypatch):
    def claims(*verdicts):
        found = [
            {"claim": "c", "quote": "", "reasoning": "so", "importance": "major", "verdict": verdict}
            for verdict in verdicts
        ]
        return {"factual_accuracy": {"evidence": [], "claims": found, "reason": "so", "confidence": 3}}

    answer = by_model(gpt=claims("supported"), mini=claims("supported", "contradicted"), claude=claims())
    score = panel_of(monkeypatch, JudgeServer(answer=answer), ("factual_accuracy",))
    assert score.value == pytest.approx(0.75)
    assert [each["verdict"] for each in score.detail["claims"]] == [
        "supported"
    ]  # of the first of the nearest
    none = JudgeServer(answer=by_model(gpt=claims(), mini=claims(), claude=claims("supported")))
    assert panel_of(monkeypatch, none, ("factual_accuracy",)).status == "skipped"


CLARITY = next(each for each in REVIEW.dimensions if each.name == "clarity")
LEVELLED = next(each for each in AGENT.dimensions if each.name == "source_quality")


def vote(model, value, raw=None):
    took = {"tokens": {"input": 1, "output": 1}, "latency_seconds": 0.1, "requests": 1, "shared_by": 1}
    status = "abstained" if value is None else "ok"
    return Judgement(status=status, value=value, raw=raw, reason=model, detail=took | {"model": model})


@given(st.lists(st.sampled_from([None, 0.2, 0.4, 0.8, 1.0]), min_size=1, max_size=7), st.randoms())
def test_a_panel_does_not_depend_on_the_order_of_its_judges(values, shuffled):
    def answering(given):
        return combine_votes(
            CLARITY, [vote(f"m{value}", value) for value in given], retrieval_signals=lambda _: {}
        )

    mixed = list(values)
    shuffled.shuffle(mixed)
    found, again = answering(values), answering(mixed)
    assert (found.status, found.value, found.detail["signals"]) == (
        again.status,
        again.value,
        again.detail["signals"],
    )
    numbers = [value for value in values if value is not None]
    assert (found.value is None) == (2 * len(numbers) <= len(values))
    if found.value is not None:
        assert found.value == pytest.approx(statistics.median(numbers), abs=1e-11)


@pytest.mark.parametrize(
    ("levels", "why"),
    [
        (
            ["good", "poor", "failed"],
            "no level of source_quality has a majority of 3 judges: 1 for good, 1 for",
        ),
        (
            ["poor", "good", "good", None],
            "no level of source_quality has a majority of 4 judges: 2 for good, 1",
        ),
        (["good", "good", "good", None, None, None], "3 of 6 judges abstained"),
        ([None, "good", None], "2 of 3 judges abstained"),
    ],
)
def test_the_reason_for_an_abstention_of_a_panel_is_reported(levels, why):
    votes = [vote("m", None if name is None else LEVELLED.level_values[name], name) for name in levels]
    assert combine_votes(LEVELLED, votes, retrieval_signals=lambda _: {}).reason.startswith(why)


@pytest.mark.parametrize(("costs", "total"), [((0.1, 0.2), 0.3), ((0.1, None), None), ((None, None), None)])
def test_what_a_panel_took_is_what_its_judges_took(costs, total):
    votes = []
    for place, cost in enumerate(costs, 1):
        one = vote("m", 0.8)
        took = {
            "tokens": {"input": 10 * place, "output": place},
            "latency_seconds": 0.1 * place,
            "requests": place,
        }
        votes.append(msgspec.structs.replace(one, detail=one.detail | took | {"cost_usd": cost}))
    detail = combine_votes(CLARITY, votes, retrieval_signals=lambda _: {}).detail
    assert detail["cost_usd"] == (None if total is None else pytest.approx(total))
    assert (detail["tokens"], detail["requests"]) == ({"input": 30, "output": 3}, 3)
    assert detail["latency_seconds"] == pytest.approx(0.2)  # they were asked at once


@given(st.lists(st.sampled_from([None, *LEVELLED.level_values]), min_size=1, max_size=7))
def test_a_panels_level_is_one_that_more_than_half_are_for(levels):
    votes = [vote("m", None if name is None else LEVELLED.level_values[name], name) for name in levels]
    found = combine_votes(LEVELLED, [*votes, unjudged("x", "y")], retrieval_signals=lambda _: {})
    most = max(levels, key=lambda name: (name is not None) * levels.count(name))
    if most is not None and 2 * levels.count(most) > len(levels):
        assert (found.status, found.raw) == ("ok", most)
    else:
        assert (found.status, found.value) == ("abstained", None)


def test_a_panel_passes_what_more_than_half_of_its_judges_pass(monkeypatch):
    def overall(*levels):
        chosen = dict(zip(NAMES, levels, strict=True))

        def answer(question):
            own = level(chosen[question.model])["source_quality"]
            forms = question.schema["properties"]
            return {
                name: own if "level" in form["properties"] else _covered(form) for name, form in forms.items()
            }

        with served(JudgeServer(answer=answer), monkeypatch):
            (scores,) = judged(("agent.overall",), models=PANEL, panel=True)
        return scores["agent.overall"].detail

    mostly = overall("good", "good", "failed")
    assert mostly["passed"] is True
    assert mostly["by_judge"][CLAUDE] < 0.7 <= mostly["by_judge"][GPT]
    assert overall("good", "failed", "failed")["passed"] is False
    assert majority([True, False]) is None


def _covered(form):
    """An answer that claims nothing and covers nothing."""
    empty = {"evidence": [], "reason": "so", "confidence": 3}
    return empty | {name: [] for name in form["properties"] if name not in empty}
