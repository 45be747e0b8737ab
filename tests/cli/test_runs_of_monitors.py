"""The runs of a monitor, one a day, among the runs of tests: they are told apart, and never mixed up."""

import json

import pytest

import trivium as tv
from tests.monitor.test_scorer import NOW, record, suite
from trivium.cli.main import run_command
from trivium.monitor.day import DAY
from trivium.monitor.monitored import monitored
from trivium.monitor.scorer import Scorer
from trivium.store.store import Store

NOTE = "some taken more often than others"


@pytest.fixture(autouse=True)
def days(tmp_path, monkeypatch) -> None:
    """Two days of production in the store of the current folder, the second one not over."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".trivium").mkdir()
    with Store(".trivium/store.db") as store, Scorer(store, monitored(suite())) as scorer:
        for day in range(2):
            record(store, *(f"{day}-{number}" for number in range(3)), time=NOW + day * DAY)
            scorer.score_all(NOW + day * DAY)


@pytest.fixture
def outcome(capsys):
    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run_command(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def evaluate() -> str:
    cases = [{"id": "a", "input": "2 + 2", "references": ["4"]}]
    return tv.evaluate(cases, agent=lambda _: "4", store=".trivium/store.db").id


def test_the_list_says_which_runs_are_of_production(outcome):
    _, out, _ = outcome("list")
    assert "live-…: samples of production, unweighted" in out
    assert "3/0" not in out
    rows = json.loads(outcome("list", "--json")[1])
    assert [(row["kind"], row["state"], row["attempts"], row["due"]) for row in rows] == [
        ("live", "running", 3, 3), ("live", "done", 3, 3)
    ]  # fmt: skip


def test_a_list_without_runs_of_production_does_not_mention_it(outcome):
    evaluate()
    assert "production" not in outcome("list", "--limit", "1")[1]


def test_the_newest_run_is_one_of_tests(outcome):
    """A run of production begins every day, whatever the user does; it has to be named."""
    assert json.loads(outcome("show", "--json")[1])["run"].startswith("live-")
    tested = evaluate()
    with Store(".trivium/store.db") as store, Scorer(store, monitored(suite())) as scorer:
        record(store, "later", time=NOW + 2 * DAY)
        scorer.score_all(NOW + 2 * DAY)
        assert store.runs()[0].kind == "live"
        assert store.run(kind="live").id == store.runs()[0].id
    assert json.loads(outcome("show", "--json")[1])["run"] == tested


def test_a_shown_run_of_production_says_what_its_figures_are_of(outcome):
    run = json.loads(outcome("list", "--json")[1])[0]["run"]
    assert NOTE in " ".join(outcome("show", run)[1].split())


def test_runs_of_production_cannot_be_compared_and_the_answer_says_what_can(outcome):
    runs = [row["run"] for row in json.loads(outcome("list", "--json")[1])]
    code, _, err = outcome("compare", *runs)
    assert code == 2
    assert "samples of production, which no other run has" in err
    assert "trivium monitor status" in err


def test_exported_figures_of_production_come_with_the_note(outcome):
    run = json.loads(outcome("list", "--json")[1])[0]["run"]
    code, out, err = outcome("export", run, "--what", "attempts")
    assert code == 0
    for line in out.splitlines():
        assert json.loads(line)["metadata"]["sampling"] == {"probability": 0.5, "rule": "errors"}
    assert NOTE in err
    assert "trivium monitor status" in err
    evaluate()
    assert NOTE not in outcome("export", "--what", "attempts")[2]
