"""Scores of Inspect: values as Inspect itself counts them, in the words of a run."""

import math

import pytest

import trivium as tv
from trivium.formats.inspect_log.archive import Log
from trivium.formats.inspect_log.samples import as_number, scores_of


@pytest.mark.parametrize(
    "value", ["C", "I", "P", "N", "yes", "No", "true", "0.25", 1, 0, True, False, 0.3, "7"]
)
def test_a_value_counts_as_it_does_for_inspect(value):
    scorer = pytest.importorskip("inspect_ai.scorer")
    assert as_number(value) == scorer.value_to_float()(value)


@pytest.mark.parametrize("value", ["maybe", "", None, [1], {"a": 1}, math.nan, math.inf, "nan", 10**400])
def test_what_has_no_value_gets_none(value):
    assert as_number(value) is None


def means(run):
    return {name: metric.mean for name, metric in run.summary().metrics.items()}


@pytest.fixture
def run(logs, tmp_path):
    def evaluate(name):
        source = f"inspect:{logs / name}"
        return tv.evaluate(source, outputs=source, store=f"sqlite:///{tmp_path / 'store.db'}")

    return evaluate


@pytest.mark.parametrize("name", ["plain.eval", "edited.eval"])
def test_means_are_those_that_inspect_reports(logs, run, name):
    results = pytest.importorskip("inspect_ai.log").read_eval_log(str(logs / name)).results
    reported = {f"inspect.{score.name}": score.metrics["accuracy"].value for score in results.scores}
    found = means(run(name))
    assert {metric: found[metric] for metric in reported} == pytest.approx(reported)
    assert found["success"] == pytest.approx(reported["inspect.match"])


def test_scores_beyond_one_and_unscored_ones_are_no_values(run):
    metrics = run("agents.eval").summary().metrics
    assert (metrics["inspect.parts.style"].mean, metrics["inspect.parts.style"].n) == (0.5, 4)
    assert metrics["inspect.parts.length"].n == 0
    assert metrics["inspect.parts.length"].status == {"ok": 2, "abstained": 2}
    assert (metrics["inspect.judged"].mean, metrics["inspect.judged"].n) == (0.5, 2)
    assert metrics["inspect.judged"].status == {"ok": 2, "abstained": 2}


def test_an_archive_and_a_document_hold_the_same(logs):
    archived, whole = Log(logs / "agents.eval"), Log(logs / "agents.json")
    assert (archived.task, archived.model, archived.status) == (whole.task, whole.model, whole.status)
    pairs = [
        sorted(((s.id, s.epoch, repr(scores_of(s.raw))) for s in log.samples()), key=repr)
        for log in (archived, whole)
    ]
    assert pairs[0] == pairs[1]


def test_a_log_of_years_ago_holds_one_score_without_a_name():
    (score,) = scores_of({"score": {"value": "C", "answer": "4"}})
    assert (score.name, score.value, score.answer) == ("inspect.score", 1.0, "4")
    assert scores_of({"scores": None}) == []


def test_recorded_scores_are_not_metrics_of_other_suites(run):
    run("plain.eval")
    suite = tv.Suite(name="s", cases=[{"id": "1", "input": "?"}])
    from trivium.metrics.registry import default_metrics

    assert not [name for name in default_metrics(suite.settings) if name.startswith("inspect.")]
    assert tv.score("inspect.match", output="x").status == "skipped"


def test_two_logs_are_compared(logs, run):
    found = tv.compare(run("plain.eval"), run("edited.eval"))
    assert found.metrics["inspect.match"].delta == pytest.approx(1 / 6)
