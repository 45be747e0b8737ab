"""Tests runs without a judge key: one warning, the fallback policy, and flags in every report."""

import json

import pytest

from tests.runs.judging.suites import MODEL, run, suite
from trivium.cli.main import run_command
from trivium.display import as_text
from trivium.reports.summary import render_markdown
from trivium.runs.items.files import Labels
from trivium.runs.items.join import items_of_run
from trivium.store.store import Store
from trivium.suites.suite import Suite

WHY = "OPENAI_API_KEY is not set"


@pytest.fixture(autouse=True)
def _no_key(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


def without_references(cases: int, **judge) -> Suite:
    raw = [{"id": f"c{i}", "input": f"paper {i}"} for i in range(cases)]
    settings = {"metrics": ["similarity", "clarity"], "similarity": {"cosine": 1}}
    return Suite.from_dict({"name": "bare", "cases": raw, "judge": {"models": [MODEL]} | judge} | settings)


@pytest.mark.parametrize(
    ("policy", "referenced", "status"),
    [
        ("tier1", True, "fallback"),
        ("tier1", False, "skipped"),
        ("skip", True, "skipped"),
        ("skip", False, "skipped"),
        ("fail", True, "error"),
        ("fail", False, "error"),
    ],
)
def test_the_policy_decides_and_every_answer_says_why(store, caplog, policy, referenced, status):
    made = suite(3, on_failure=policy) if referenced else without_references(3, on_failure=policy)
    found = run(made, store)
    summary = found.summary()
    assert summary.metrics["clarity"].status == {status: 3}
    assert caplog.text.count(f"the judge {MODEL} is off: {WHY}") == 1, "in one line, once"
    (warning,) = [line for line in summary.warnings if line.startswith("clarity ") and WHY in line]
    assert warning in " ".join(as_text(summary, width=4000).split())
    assert WHY.replace("_", r"\_") in render_markdown(summary)
    scores = [one.evaluation.scores["clarity"] for one in store.evaluations(found.record)]
    assert all(score.status == status and WHY in score.reason for score in scores)
    assert summary.spent is None


def test_the_command_says_it_in_its_answer_and_in_its_page(tmp_path, store, capfd):
    found = run(suite(2), store)
    page = tmp_path / "report.html"
    options = [found.id, "--store", store.url, "--html", str(page)]
    assert run_command(["show", *options, "--json"]) == 3, "what was due is missing"
    answer = json.loads(capfd.readouterr().out)
    assert answer["metrics"]["clarity"]["status"] == {"fallback": 2}
    assert any(WHY in line for line in answer["warnings"])
    assert WHY in page.read_text()


def test_a_fallback_for_a_judgement_never_calibrates(tmp_path, store):
    """Joined with labels it is an abstention, exported as a judgement it is not there."""
    found = run(suite(3), store)
    labels = tmp_path / "labels.jsonl"
    lines = [{"case": f"c{i}", "repeat": 0, "dimension": "clarity", "value": 0.8} for i in range(3)]
    labels.write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = items_of_run(store, found.record, dimension="clarity", labels=Labels(labels))
    assert any("3 fallback" in note for note in table.notes)
    from trivium.runs.items.import_judgements import judgement_rows

    assert list(judgement_rows(store, found.record)) == []
