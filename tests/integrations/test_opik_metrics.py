"""Opik: its metrics score attempts of Trivium, each given what its parameters are called for."""

import pytest

import trivium as tv
from trivium.errors import MissingExtra
from trivium.integrations.opik import opik_metric
from trivium.metrics.registry import REGISTERED

from opik.evaluation.metrics import Contains, Equals, IsJson, LevenshteinRatio, base_metric, score_result  # isort: skip


@pytest.fixture(autouse=True)
def _forget():
    before = set(REGISTERED)
    yield
    for name in set(REGISTERED) - before:
        del REGISTERED[name]


class Own(base_metric.BaseMetric):
    def __init__(self, *results):
        super().__init__(name="own", track=False)
        self.results = list(results)
        self.seen = []

    def score(self, input, context=None, **ignored):
        self.seen.append((input, context, ignored))
        return self.results if len(self.results) != 1 else self.results[0]


def score_result_of(value, **fields):
    return score_result.ScoreResult(name=fields.pop("name", "own"), value=value, **fields)


@pytest.mark.parametrize(
    ("make", "output", "references", "value"),
    [
        (lambda: Equals(track=False), "a", ["a"], 1.0),
        (lambda: Equals(track=False), "a", ["b", "a"], 1.0),
        (lambda: Equals(track=False), "a", ["b"], 0.0),
        (lambda: Contains(track=False), "hello world", ["world"], 1.0),
        (lambda: IsJson(track=False), '{"a": 1}', [], 1.0),
        (lambda: IsJson(track=False), "{", [], 0.0),
    ],
)
def test_a_metric_of_theirs_scores_like_them(make, output, references, value):
    opik_metric("opik.metric", make)
    assert tv.score("opik.metric", output=output, references=references).value == value


def test_values_between_are_theirs():
    opik_metric("opik.levenshtein", lambda: LevenshteinRatio(track=False))
    theirs = LevenshteinRatio(track=False).score(output="kitten", reference="sitting").value
    assert tv.score("opik.levenshtein", output="kitten", references=["sitting"]).value == theirs


def test_what_the_metric_needs_and_is_not_there_skips_it():
    opik_metric("opik.equals", lambda: Equals(track=False))
    assert tv.score("opik.equals", output="a").reason == "the case has no reference"

    class Picky(Own):
        def score(self, output, rubric):
            raise AssertionError

    opik_metric("opik.picky", Picky)
    found = tv.score("opik.picky", output="a")
    assert (found.status, found.reason) == (
        "skipped", "the metric needs rubric, which the case and the attempt do not have",
    )  # fmt: skip


def test_it_sees_what_its_parameters_are_called_for():
    own = Own(score_result_of(0.25, reason="short"))
    opik_metric("opik.own", lambda: own)
    found = tv.score("opik.own", output="a", input={"q": 1}, source="doc", references=["r"])
    assert (found.value, found.reason) == (0.25, "short")
    assert own.seen == [('{"q":1}', ["doc"], {})]


def test_several_results_give_their_mean_and_each_is_recorded():
    opik_metric(
        "opik.many",
        lambda: Own(score_result_of(1.0, name="a"), score_result_of(0.5, name="b", reason="half")),
    )
    found = tv.score("opik.many", output="x", input="?")
    assert (found.value, found.raw, found.detail, found.reason) == (
        0.75,
        [1.0, 0.5],
        {"a": 1.0, "b": 0.5},
        "half",
    )


def test_what_failed_or_gave_nothing_is_an_error():
    opik_metric("opik.failed", lambda: Own(score_result_of(0.0, scoring_failed=True, reason="no model")))
    found = tv.score("opik.failed", output="x", input="?")
    assert (found.status, found.reason) == ("error", "RuntimeError: no model")
    opik_metric("opik.empty", Own)
    assert tv.score("opik.empty", output="x", input="?").status == "error"


def test_lower_may_be_better_and_other_scales_are_reported_alone():
    opik_metric("opik.low", lambda: Own(score_result_of(0.25)), lower_is_better=True)
    assert tv.score("opik.low", output="x", input="?").value == 0.75
    opik_metric("opik.high", lambda: Own(score_result_of(7.0)))
    found = tv.score("opik.high", output="x", input="?")
    assert (found.value, found.raw, found.status) == (None, 7.0, "ok")


def test_without_the_package_one_line_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "opik", None)
    with pytest.raises(MissingExtra, match=r'pip install "trivium\[opik\]"'):
        opik_metric("opik.none", Own)
