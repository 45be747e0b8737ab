"""`trivium show --disagreements`, and the part of the page that tells the same."""

import json

import pytest

from tests.runs.judged_runs import judged_run, judgement, vote
from trivium.cli.main import run_command
from trivium.store.store import Store


@pytest.fixture
def stored(tmp_path):
    """A store with one run, and the options that name it and people's labels."""
    votes = [vote("openai:gpt-4o", 0.8), vote("anthropic:claude-haiku-4-5", 0.2)]
    with Store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        judged_run(store, {"a": [judgement(0.5, detail={"votes": votes})], "b": [judgement(0.9)]})
    labels = tmp_path / "labels.jsonl"
    labels.write_text(json.dumps({"case": "b", "dimension": "clarity", "value": 0.1}), encoding="utf-8")
    return ["--store", f"sqlite:///{tmp_path / 'store.db'}", "--labels", str(labels)]


def test_disagreements_are_printed(stored, capsys):
    assert run_command(["show", "--disagreements", *stored]) == 0
    out = capsys.readouterr().out
    assert "2 disagreements, compared with labels" in out
    assert "openai:gpt-4o 0.800" in " ".join(out.split())


def test_json_and_markdown_are_of_the_disagreements(stored, tmp_path, capsys):
    path = tmp_path / "out" / "apart.md"
    assert run_command(["show", "--disagreements", "--json", "--markdown", str(path), *stored]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["case"] for each in document["found"]] == ["b", "a"]
    assert "| **0.800** | `b` | `clarity` |" in path.read_text("utf-8")


def test_the_page_of_a_run_holds_them(stored, tmp_path):
    path = tmp_path / "report.html"
    assert run_command(["show", "--quiet", "--html", str(path), *stored]) == 0
    text = path.read_text("utf-8")
    assert 'id="disagreements"' in text
    assert "judge against people" in text
    assert run_command(["show", "--quiet", "--html", str(path), *stored[:2]]) == 0
    assert "judge against judge" in path.read_text("utf-8")


def test_a_missing_run_to_compare_with_is_reported(stored, capsys):
    assert run_command(["show", "--disagreements", "--against", "nowhere", *stored]) == 2
    assert "nowhere" in capsys.readouterr().err
