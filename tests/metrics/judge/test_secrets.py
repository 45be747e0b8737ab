"""A provider that gives keys away in its errors: they reach no log, no store and no message."""

import json
import logging

import pytest

import trivium as tv
from tests.judge_server import JudgeServer, failure
from trivium.store.store import Store
from trivium.suites.suite import Suite

KEYS = {"OPENAI_API_KEY": "correct horse battery staple", "ANTHROPIC_API_KEY": f"of our gateway {'7x' * 150}"}
MODELS = ["openai:gpt-4o-mini", "anthropic:claude-haiku-4-5"]


def told(question):
    """An error that repeats the headers of the request, keys and all."""
    return failure(
        401, message=f"who is {question.headers.get('x-api-key', question.headers.get('authorization'))}?"
    )


@pytest.mark.parametrize("policy", ["fail", "skip", "tier1"])
def test_a_key_that_an_error_repeats_is_stored_nowhere(policy, tmp_path, monkeypatch, caplog, capfd):
    raw = {
        "name": "s",
        "cases": [{"id": "a", "input": "q", "references": ["fine"]}],
        "metrics": ["clarity"],
        "similarity": {"jaccard": 1},
        "judge": {"models": MODELS, "on_failure": policy},
    }
    (tmp_path / "outputs.jsonl").write_text(json.dumps({"case": "a", "output": "fine"}))
    with JudgeServer(plan=told) as server, caplog.at_level(logging.DEBUG, "trivium"):
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_url)
        for name, key in KEYS.items():
            monkeypatch.setenv(name, key)
        with Store(f"sqlite:///{tmp_path / 's.db'}") as store:
            run = tv.evaluate(Suite.from_dict(raw), outputs=tmp_path / "outputs.jsonl", store=store)
            (evaluation,) = run.evaluations()
    assert server.counts["requests"] == len(MODELS)
    assert "who is" in evaluation.scores["clarity"].reason
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    printed = "".join(capfd.readouterr()) + caplog.text + repr(evaluation)
    for key in KEYS.values():
        for piece in (key, key[:20]):
            assert piece not in printed
            assert piece.encode() not in stored
