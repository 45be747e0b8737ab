"""Ten ways that users go, from an empty folder to a conclusion, and which tests go them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from tests.features.world import World
from tests.test_docs import ROOT, blocks
from tests.traces.opentelemetry.spans import content
from tests.traces.readers.claude_events import STREAM
from tests.traces.readers.otlp.test_encodings import SPANS
from tests.traces.readers.test_langsmith import FLAT
from tests.traces.readers.test_openai_agents import CASE

JOURNEYS = {
    "developer": ("test_journeys.py::test_a_first_suite_is_run_changed_and_compared", "README.md"),
    "CI engineer": (
        "test_journeys.py::test_a_broken_third_fails_the_gate_and_the_comparison_which_shows_it",
        "examples/test_ci.py::test_a_regression_fails_the_pull_request_and_is_in_the_comment",
    ),
    "owner of traces": (
        "test_journeys.py::test_a_folder_of_four_tools_traces_becomes_one_table",
        "traces.md",
    ),
    "researcher": ("test_journeys.py::test_a_file_of_verdicts_is_certified", "judges-and-people.md"),
    "labeller and lead": (
        "web/pages/test_people_in_a_browser.py::test_two_people_label_blind_and_a_third_decides",
        "web/pages/test_people_in_a_browser.py::test_a_lead_settles_ten_disagreements_by_keyboard",
    ),
    "operator": ("web/pages/test_in_a_browser.py::test_from_an_alert_to_the_case_by_links", "monitor.md"),
    "notebook": ("test_journeys.py::test_the_page_on_notebooks_holds_in_one", "notebooks.md"),
    "large file": ("test_journeys.py::test_a_large_file_is_scored_the_same_in_parts", "large-runs.md"),
    "documents": (
        "test_journeys.py::test_a_table_of_answers_with_their_documents_is_scored",
        "answers-from-documents.md",
    ),
    "conversations": ("conversations.md",),
}
"""The tests of each way: a test, or a page whose files, commands and code ``test_docs.py`` runs."""

CASES = 40
BROKEN = range(0, CASES, 3)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("TRIVIUM_STORE", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return World(capsys)


def write_lines(path: str, rows: Iterable[Any]) -> None:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_suite(name: str = "suite.json", **settings: Any) -> None:
    """A suite of forty cases; the agents ``bot.py:sound`` and ``bot.py:broken`` answer it."""
    write_lines(
        "cases.jsonl",
        ({"id": f"c{n}", "input": f"item {n}", "references": [f"ITEM {n}"]} for n in range(CASES)),
    )
    suite = {"name": "items", "cases": "cases.jsonl", "success": {"exact": True}, **settings}
    Path(name).write_text(json.dumps(suite), encoding="utf-8")
    Path("bot.py").write_text(
        "def sound(question):\n    return question.upper()\n\n\n"
        "def broken(question):\n"
        "    return 'out of order' if int(question.split()[1]) % 3 == 0 else question.upper()\n",
        encoding="utf-8",
    )


@pytest.mark.parametrize("journey", JOURNEYS)
def test_each_journey_has_its_tests(journey: str) -> None:
    for named in JOURNEYS[journey]:
        file, _, name = named.partition("::")
        if name:
            assert f"def {name}(" in (ROOT / "tests" / file).read_text("utf-8")
        else:
            assert blocks(ROOT / file if file == "README.md" else ROOT / "docs" / file)


# An agent function, to the first comparison


def test_a_first_suite_is_run_changed_and_compared(world: World) -> None:
    world.call("init", "--yes", "--from", "python")
    assert world.code == 0
    command = world.out.split("Next:")[1].split()[1:5]  # what it says to do next is done

    world.call(*command)
    assert world.code == 0
    assert "2 of 3 passed" in world.out

    agent = Path("agent.py")
    agent.write_text(agent.read_text("utf-8").replace("I do not know.", "Vientiane, I think."), "utf-8")
    world.call(*command)
    assert "3 of 3 passed" in world.out
    assert "next: trivium compare, trivium view" in world.out

    world.call("compare")
    assert world.code == 0
    answer, changed = world.out.split("what changed")
    assert "Likely not worse (" in answer
    assert "more cases would settle it" in " ".join(answer.split())
    assert "Laos" in changed
    assert changed.index("I do not know.") < changed.index("Vientiane, I think.")


# A gate in CI, and a third of the cases broken


def test_a_broken_third_fails_the_gate_and_the_comparison_which_shows_it(world: World) -> None:
    write_suite(metrics=["success"], gates={"pass_rate": {"at_least": 0.8}})
    world.call("run", "suite.json", "--agent", "bot.py:sound", "--quiet")
    assert world.code == 0

    world.call("run", "suite.json", "--agent", "bot.py:broken", "--junit", "junit.xml")
    assert world.code == 1
    assert "✗ fail  pass_rate ≥ 0.8" in world.out
    assert "out of order" in world.out
    assert Path("junit.xml").read_text("utf-8").count("<failure") == len(BROKEN) + 1  # the gate is one too

    world.call("compare", "--confirm", "60", "--cases", str(CASES), "--markdown", "comment.md")
    assert world.code == 1
    assert "no call was made: none would change the answer" in world.err
    answer, changed = world.out.split("what changed")
    assert "✗ fail" in answer
    assert [line.split()[1] for line in changed.splitlines() if line.startswith("↓")] == [
        f"c{number}" for number in BROKEN
    ]
    assert changed.count("out of order") == len(BROKEN)
    comment = Path("comment.md").read_text("utf-8")
    assert "❌ Trivium · `items`: fail" in comment
    assert "out of order" in comment


def test_a_gate_whose_judge_is_missing_is_not_passed(world: World) -> None:
    (rubric,) = (each for each in blocks(ROOT / "docs" / "rubrics.md") if each.label == "tone.yaml")
    Path("tone.yaml").write_text(rubric.text, encoding="utf-8")
    write_suite(
        metrics=["kindness"],
        judge={"models": "openai:gpt-4o-mini", "rubric": "tone.yaml"},
        gates={"kindness": {"at_least": 0.5}},
    )
    world.call("run", "suite.json", "--agent", "bot.py:sound")
    assert world.code == 3
    assert "✓ pass" not in world.out
    assert "OPENAI_API_KEY" in world.out + world.err


# Two agents, and labels from people


def test_two_agents_are_compared_and_their_judge_is_held_against_people(world: World) -> None:
    write_suite(metrics=["success"])
    base = world.ask("run", "suite.json", "--agent", "bot.py:broken")["run"]
    head = world.ask("run", "suite.json", "--agent", "bot.py:sound")["run"]
    judged = [
        {"case": f"c{n}", "dimension": "correct", "value": float(n not in BROKEN)} for n in range(CASES)
    ]
    write_lines("judgements.jsonl", ({**row, "model": "some-judge"} for row in judged))
    # People disagree with the judge on the first two answers: 38 of 40 remain.
    labels = [{**row, "by": "ann"} for row in judged]
    for row in labels[:2]:
        row["value"] = 1 - row["value"]
    write_lines("labels.jsonl", labels)

    world.call("compare", base, head)
    assert world.code == 0
    assert "✓ pass" in world.out

    world.call("trust", "import", base, "judgements.jsonl")
    assert world.code == 0
    world.call("trust", "agree", "--dimension", "correct", "--labels", "labels.jsonl")
    assert world.code == 0
    said = " ".join(world.out.split())
    assert said.startswith("The judge some-judge agrees with people in 95 %")
    assert "of 40 items" in said


# A folder of traces from four tools


def test_a_folder_of_four_tools_traces_becomes_one_table(world: World) -> None:
    Path("traces").mkdir()
    Path("traces/collector.json").write_bytes(content(*SPANS))
    write_lines("traces/langsmith.jsonl", FLAT)
    write_lines("traces/claude.jsonl", STREAM)
    write_lines("traces/openai.jsonl", CASE)

    world.call("traces", "score", "traces")
    assert world.code == 0
    assert "4 traces" in world.out
    found = world.ask("traces", "score", "traces")
    assert found["formats"] == {"claude-code": 1, "langsmith": 1, "openai-agents": 1, "otlp": 1}
    assert {each["agent"] for each in found["agents"]} >= {"boss", "aide", "main", "Explore", "triage"}
    assert {each["tool"]: each["failed"] for each in found["tools"]}["Bash"] == 1

    rows = world.rows("--what", "scores")
    assert len({row["case"] for row in rows}) == 4

    Path("traces/notes.jsonl").write_text("not a trace\n", encoding="utf-8")
    world.call("traces", "score", "traces")
    assert world.code == 3
    assert "4 traces" in world.out
    assert "notes.jsonl" in world.out + world.err


# A notebook


def test_the_page_on_notebooks_holds_in_one(tmp_path: Path) -> None:
    code = next(each.text for each in blocks(ROOT / "docs" / "notebooks.md") if each.language == "python")
    cells = [nbformat.v4.new_code_cell(each) for each in (code, "head", "tv.compare(base, head)")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()

    run, comparison = (cell["outputs"][0]["data"]["text/html"] for cell in notebook.cells[1:])
    assert "8 of 8 passed" in run
    assert "ikely not worse (" in comparison
    assert "success" in comparison
    assert "composite" not in run + comparison  # the suite weighs nothing


# A file of verdicts, as a researcher has it


def test_a_file_of_verdicts_is_certified(world: World) -> None:
    # Sure of the first hundred and right in all of them; of the others one in ten is wrong.
    rows = [
        f"p{n},{n % 2 if n < 100 or n % 10 else 1 - n % 2},{n % 2},{0.95 if n < 100 else 0.6}"
        for n in range(200)
    ]
    header = "paper_id,prediction,ground_truth,confidence"
    Path("verdicts.csv").write_text("\n".join([header, *rows]), encoding="utf-8")
    world.call("trust", "curve", "verdicts.csv", "--bootstrap-resamples", "200")
    assert world.code == 0
    assert "200 items" in world.out
    found = world.ask("trust", "certify", "verdicts.csv", "--epsilon", "0.1")
    assert world.code == 0
    assert found["threshold"] is not None
    assert found["n_accepted"] >= 100


# A large file


def test_a_large_file_is_scored_the_same_in_parts(world: World) -> None:
    suite = {"name": "items", "cases": "cases.jsonl", "metrics": ["success"], "success": {"exact": True}}
    numbers = range(2_000)
    write_lines("cases.jsonl", ({"id": f"c{n}", "input": n, "references": [str(n)]} for n in numbers))
    write_lines("outputs.jsonl", ({"case": f"c{n}", "output": str(n - n % 7 // 6)} for n in numbers))
    Path("suite.json").write_text(json.dumps(suite), encoding="utf-8")
    command = ("score", "suite.json", "--outputs", "outputs.jsonl")
    whole = world.ask(*command)
    parts = world.ask(*command, "--partitions", "parts")
    assert whole["pass_rate"] == parts["pass_rate"]
    assert whole["pass_rate"]["value"] == pytest.approx(1 - len([n for n in numbers if n % 7 == 6]) / 2_000)


# Answers from documents, in a table


def test_a_table_of_answers_with_their_documents_is_scored(world: World) -> None:
    Path("cases.csv").write_text(
        "id,question,reference,expect.relevant\n"
        "a,How long may I return shoes?,30 days,Shoes: 30 days.\n"
        'b,Do you ship to Peru?,Yes,"[""We ship to Peru."", ""Countries""]"\n',
        encoding="utf-8",
    )
    Path("answers.csv").write_text(
        "id,response,retrieved_contexts\n"
        "a,You may return them for 30 days.,\"['Shoes: 30 days.']\"\n"
        "b,No.,\"['We ship to Peru.', 'Prices']\"\n",
        encoding="utf-8",
    )
    suite = {"name": "answers", "cases": "cases.csv", "metrics": ["success", "retrieval_recall"]}
    Path("suite.json").write_text(json.dumps(suite), encoding="utf-8")
    world.call("score", "suite.json", "--outputs", "answers.csv")
    assert world.code == 0
    assert "1 of 2 passed" in world.out
    assert "retrieval_recall  0.750" in world.out
    attempts = world.rows("--what", "attempts")
    assert [len(row["metadata"]["contexts"]) for row in attempts] == [1, 2]
