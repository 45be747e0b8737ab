"""Signals as a judgement records them."""

import pytest

from tests.judge_server import REFUSAL, JudgeServer, at
from tests.metrics.judge.asked import clarity, judged, served


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


def test_one_sample_left_of_several_tells_no_consistency(monkeypatch):
    server = JudgeServer(answer=lambda _: clarity(), plan=at({0: REFUSAL, 1: REFUSAL}))
    with served(server, monkeypatch):
        (scores,) = judged(samples=3, concurrency=1)
    assert scores["clarity"].value == pytest.approx(0.8)
    assert scores["clarity"].detail["signals"]["consistency_modal_confidence"] is None
