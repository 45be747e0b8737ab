"""Signals as a judgement records them."""

import pytest

from tests.judge_server import REFUSAL, Answer, JudgeServer, at
from tests.metrics.judge.asked import CLAUDE, MINI, clarity, judged, served


def test_how_evidence_is_compared_is_recorded(monkeypatch, tiny_onnx_folder):
    answer = clarity(evidence=["a source"])
    found = {}
    with served(JudgeServer(answer=lambda _: answer), monkeypatch):
        for kind in ("cosine", "encoder"):
            (scores,) = judged(encoder=str(tiny_onnx_folder), evidence_similarity=kind)
            found[kind] = scores["clarity"].detail
    assert [detail["evidence_similarity"] for detail in found.values()] == ["cosine", "encoder"]


def test_samples_that_were_lost_are_counted(monkeypatch):
    server = JudgeServer(answer=lambda _: clarity(), plan=at({0: REFUSAL}))
    with served(server, monkeypatch):
        (scores,) = judged(samples=3, concurrency=1)
    detail = scores["clarity"].detail
    assert (detail["samples_asked"], len(detail["samples"])) == (3, 2)
    assert detail["signals"]["consistency_modal_confidence"] == 1.0


def test_one_sample_left_of_several_gives_no_consistency(monkeypatch):
    server = JudgeServer(answer=lambda _: clarity(), plan=at({0: REFUSAL, 1: REFUSAL}))
    with served(server, monkeypatch):
        (scores,) = judged(samples=3, concurrency=1)
    assert scores["clarity"].value == pytest.approx(0.8)
    assert scores["clarity"].detail["signals"]["consistency_modal_confidence"] is None


SIGNALS = {
    *("llm_evidence_count", "verbalized_confidence", "token_msp", "token_pe", "token_energy"),
    *("retrieval_reference_count", "retrieval_similarity_mean", "retrieval_similarity_max"),
    *("consistency_modal_confidence", "consistency_score_std", "consistency_na_rate"),
}


@pytest.mark.parametrize("model", [MINI, CLAUDE])
@pytest.mark.parametrize("samples", [1, 2])
def test_every_signal_is_recorded_and_null_if_unavailable(monkeypatch, model, samples):
    with served(JudgeServer(answer=lambda _: clarity()), monkeypatch):
        (scores,) = judged(models=[model], samples=samples)
    signals = scores["clarity"].detail["signals"]
    assert set(signals) == SIGNALS
    missing = {name for name in SIGNALS if name.startswith("retrieval")}  # clarity sees no source
    missing |= {name for name in SIGNALS if name.startswith("consistency") and samples == 1}
    missing |= {name for name in SIGNALS if name.startswith("token") and model == CLAUDE}
    assert {name for name, value in signals.items() if value is None} == missing


PRICES = {MINI: {"input": 3.0, "output": 7.0}}


def test_what_a_judgement_took_is_what_all_its_answers_took(monkeypatch):
    """Two samples, of which the first is malformed at first."""
    usages = [(100, 10), (200, 20), (400, 40)]

    def answer(question):
        text = "no" if question.number == 0 else clarity()
        return Answer(output=text, usage=usages[question.number])

    with served(JudgeServer(answer=answer), monkeypatch) as server:
        (scores,) = judged(models=[MINI], samples=2, concurrency=1, prices=PRICES)
    detail = scores["clarity"].detail
    assert detail["requests"] == len(server.requests) == 3
    assert detail["tokens"] == {"input": 700, "output": 70}
    assert detail["cost_usd"] == pytest.approx((700 * 3.0 + 70 * 7.0) / 1e6)


def test_a_cost_that_is_known_in_part_is_unknown(monkeypatch):
    with served(JudgeServer(answer=lambda _: clarity()), monkeypatch):
        (scores,) = judged(models=[MINI, "openai:my-own"], panel=True, samples=2, prices=PRICES)
    detail = scores["clarity"].detail
    known, unknown = detail["votes"]
    assert known["cost_usd"] > 0
    assert unknown["cost_usd"] is detail["cost_usd"] is None
