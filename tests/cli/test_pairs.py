"""`trivium pairs`."""

import json

import pytest

from tests.judge_server import REFUSAL, JudgeServer
from tests.metrics.judge.asked import served
from tests.runs.compared_runs import CLAUDE, GPT, by_length, saying, stored_run
from trivium.cli.main import run_command
from trivium.store.store import Store


@pytest.fixture
def two(tmp_path):
    """The command with two stored runs."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with Store(url) as store:
        stored_run(store, "old", {"a": ["x"], "b": ["yy"]})
        stored_run(store, "new", {"a": ["xx"], "b": ["y"]}, judge={"models": [GPT]})
    return ["pairs", "old", "new", "--store", url]


def test_two_runs_are_compared_by_the_judge_of_heads_suite(two, monkeypatch, capsys, tmp_path):
    written, comment = tmp_path / "out" / "pairs.jsonl", tmp_path / "pairs.md"
    with served(JudgeServer(answer=saying(by_length)), monkeypatch):
        assert run_command([*two, "--output", str(written), "--markdown", str(comment)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "overall 0.500" in text
    pairs = [json.loads(line) for line in written.read_text("utf-8").splitlines()]
    assert [pair["verdicts"]["overall"]["verdict"] for pair in pairs] == ["win", "loss"]
    assert "| `overall` | **0.500** |" in comment.read_text("utf-8")


def test_the_judge_can_be_named(two, monkeypatch, capsys):
    server = JudgeServer(answer=saying(by_length))
    options = ["--models", f"{GPT},{CLAUDE}", "--panel", "--samples", "2", "--rubric", "agent", "--json"]
    with served(server, monkeypatch):
        assert run_command([*two, *options]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["models"] == [GPT, CLAUDE]
    assert "completeness" in found["figures"]
    assert len(server.requests) == 2 * 2 * 2 * 2


def test_a_comparison_takes_a_budget_and_reports_what_it_spent(two, monkeypatch, capsys):
    server = JudgeServer(answer=saying(by_length))
    with served(server, monkeypatch):
        assert run_command([*two, "--budget-usd", "0"]) == 3
        assert server.requests == []
        assert "$0.00 of $0.00 · 0 requests" in " ".join(capsys.readouterr().out.split())
        assert run_command([*two, "--budget-usd", "1"]) == 0
    assert "of $1.00 · 4 requests, 4 answered" in " ".join(capsys.readouterr().out.split())


def test_pairs_without_an_answer_end_with_three(two, monkeypatch, capsys):
    with served(JudgeServer(plan=lambda _: REFUSAL), monkeypatch):
        assert run_command([*two, "--quiet"]) == 3
    assert "pairs got no answer from any judge" in capsys.readouterr().err


def test_what_is_wrong_ends_with_two(two, capsys):
    assert run_command(["pairs", "new", "old", *two[3:]]) == 2
    assert "names no model" in capsys.readouterr().err
