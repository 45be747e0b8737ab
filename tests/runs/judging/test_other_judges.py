"""Tests that substitute judges are reported, and compared only with the same judges."""

import pytest

import trivium as tv
from tests.judge_server.faults import ANSWER, REFUSAL, failure
from tests.runs.judging.suites import MODEL, OTHER, provider, run, suite
from trivium.errors import ComparisonError
from trivium.store.store import Store

CASES = 4
BOTH = ("constructiveness", "clarity")


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


REFUSED = failure(400)


def down(*papers, by=REFUSED):
    """The first model fails for some papers."""

    def plan(question):
        wanted = any(f"Review paper {each}." in question.prompt for each in papers)
        return by if wanted and question.api == "chat" else ANSWER

    return plan


def judge_warnings(found):
    return [line for line in found.summary().warnings if line.startswith("judged by")]


def test_a_run_whose_judges_all_judged_says_nothing(monkeypatch, store):
    with provider(monkeypatch):
        found = [run(suite(models=[MODEL, OTHER], panel=panel), store) for panel in (False, True)]
    assert [judge_warnings(each) for each in found] == [[], []]


def test_a_smaller_panel_is_reported_once_for_all_dimensions(monkeypatch, store):
    with provider(monkeypatch, plan=down(1, 3, by=REFUSAL)):
        found = run(suite(metrics=("similarity", *BOTH), models=[MODEL, OTHER], panel=True), store)
    line = f"judged by {OTHER} without {MODEL}: constructiveness in 2 of {CASES}, clarity in 2 of {CASES}"
    assert judge_warnings(found) == [line]
    scores = [each.scores["clarity"] for each in found.evaluations()]
    assert [each.method for each in scores] == [None, f"{OTHER} without {MODEL}"] * 2
    assert {each.status for each in scores} <= {"ok", "abstained"}


def test_a_judge_that_is_off_is_missed_by_every_panel(monkeypatch, store):
    with provider(monkeypatch):
        monkeypatch.delenv("ANTHROPIC_API_KEY")
        found = run(suite(models=[OTHER, MODEL], panel=True), store)
    assert judge_warnings(found) == [f"judged by {MODEL} without {OTHER}: clarity in {CASES} of {CASES}"]


def test_a_substitute_model_and_a_fallback_are_reported_separately(monkeypatch, store):
    def plan(question):
        return failure(400) if "paper 0" in question.prompt else down(2)(question)

    with provider(monkeypatch, plan=plan):
        found = run(suite(models=[MODEL, OTHER]), store)
    assert judge_warnings(found) == [f"judged by {OTHER} in place of {MODEL}: clarity in 1 of {CASES}"]
    (leaning,) = [line for line in found.summary().warnings if line.startswith("clarity was not judged")]
    assert leaning.startswith(f"clarity was not judged in 1 of {CASES}: ")
    assert "; similarity is the fallback for 1: 0." in leaning


def test_what_judges_make_together_is_made_by_those_who_made_its_parts(monkeypatch, store):
    with provider(monkeypatch, plan=down(2)):
        found = run(suite(metrics=("similarity", "agent"), models=[MODEL, OTHER]), store)
    overall = [each.scores["agent.overall"] for each in found.evaluations()]
    assert [each.method for each in overall] == [None, None, f"{OTHER} in place of {MODEL}", None]
    assert not any("agent.overall" in line for line in judge_warnings(found))


def test_attempts_of_unlike_judges_are_not_compared(monkeypatch, store):
    asked = suite(models=[MODEL, OTHER], cache=False)
    weather = []

    def plan(question):
        return down(*weather)(question)

    with provider(monkeypatch, plan=plan):
        base = run(asked, store)
        weather.append(2)
        once = run(asked, store)
        weather.extend(range(CASES))
        always = run(asked, store)
    assert tv.compare(base, once).metrics["clarity"].left_out == 1
    with pytest.raises(
        ComparisonError, match=f"clarity: clarity in base, {OTHER} in place of {MODEL} in head"
    ):
        tv.compare(base, always)
