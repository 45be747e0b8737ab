"""Tests that a secret in an agent's output is never stored, shown or exported."""

import json
from pathlib import Path

import pytest

from trivium.agents.response import SECRETS_MASKED
from trivium.cli.main import run_command
from trivium.store.store import Store

OWN, OTHER = "my-own-key-9876543210", "ghp_abcdefghijklmnopqrst123456"


@pytest.fixture(autouse=True)
def _a_leaking_agent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", OWN)
    Path("leaking_agent.py").write_text(
        "import os\n"
        "def ask(question):\n"
        "    key = os.environ['OPENAI_API_KEY']\n"
        "    span = {'id': 's', 'kind': 'tool', 'name': 'env', 'input': {'password': 'hunter2'},\n"
        f"            'output': '{OTHER}'}}\n"
        "    trace = {'trace_id': 't', 'spans': [span]}\n"
        "    output = [f'key {key}', {'password': 'hunter2'}]\n"
        "    return {'output': output, 'trace': trace, 'metadata': {'seen': key}}\n"
    )
    suite = {
        "name": "s",
        "metrics": ["jaccard", "time"],
        "cases": [{"id": "c", "input": "?", "references": ["key"]}],
    }
    Path("suite.json").write_text(json.dumps(suite))


def test_an_agent_that_is_asked(capsys):
    store = ["--store", "s.db"]
    assert run_command(["run", "suite.json", "--agent", "leaking_agent:ask", "--html", "r.html", *store]) == 0
    assert run_command(["export", "--what", "attempts", "--output", "a.jsonl", *store]) == 0
    printed = capsys.readouterr()
    everything = [
        printed.out,
        printed.err,
        *(path.read_text(errors="replace") for path in Path().glob("[ars].*")),
    ]
    assert len(everything) >= 5
    for secret in (OWN, OTHER, "hunter2"):
        assert not any(secret in text for text in everything)
    with Store("s.db", read_only=True) as opened:
        (stored,) = opened.attempts(opened.run())
    assert stored.attempt.output == ["key [masked]", {"password": "[masked]"}]
    assert stored.attempt.flags == (SECRETS_MASKED,)
    assert stored.attempt.trace.spans[0].output == "[masked]"

    # What was exported is scored as it was.
    assert run_command(["score", "suite.json", "--outputs", "a.jsonl", "--store", "again.db"]) == 0
    with Store("s.db", read_only=True) as first, Store("again.db", read_only=True) as second:
        values = [
            next(each.evaluations(each.run())).evaluation.scores["jaccard"].value for each in (first, second)
        ]
    assert values[0] == values[1]


def test_outputs_that_were_recorded_elsewhere():
    Path("o.jsonl").write_text(json.dumps({"case": "c", "output": f"it is {OTHER}"}) + "\n")
    assert run_command(["score", "suite.json", "--outputs", "o.jsonl", "--store", "s.db", "--quiet"]) == 0
    with Store("s.db", read_only=True) as opened:
        (stored,) = opened.attempts(opened.run())
    assert stored.attempt.output == "it is [masked]"
    assert stored.attempt.flags == (SECRETS_MASKED,)
