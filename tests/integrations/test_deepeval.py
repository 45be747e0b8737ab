"""DeepEval: its metrics score attempts of Trivium, each with what it needs and in silence."""

import pytest

import trivium as tv
from trivium.errors import MissingExtra
from trivium.integrations.deepeval import deepeval_metric
from trivium.metrics.registry import REGISTERED


@pytest.fixture(scope="module")
def theirs():
    from tests.integrations import deepeval_metrics

    return deepeval_metrics


@pytest.fixture(autouse=True)
def _forget():
    before = set(REGISTERED)
    yield
    for name in set(REGISTERED) - before:
        del REGISTERED[name]


def test_a_metric_of_theirs_scores_like_them(theirs):
    deepeval_metric("deepeval.exact", theirs.ExactMatchMetric)
    good = tv.score("deepeval.exact", output="yes", references=["yes"])
    assert (good.value, good.status, good.reason) == (
        1.0, "ok", "The actual and expected outputs are exact matches.",
    )  # fmt: skip
    assert good.detail == {"passed": True}
    assert tv.score("deepeval.exact", output="no", references=["yes"]).value == 0.0


def test_several_references_are_best_or_mean(theirs):
    deepeval_metric("deepeval.best", theirs.ExactMatchMetric)
    deepeval_metric("deepeval.mean", theirs.ExactMatchMetric, references="mean")
    fields = {"output": "b", "references": ["a", "b"]}
    assert (tv.score("deepeval.best", **fields).value, tv.score("deepeval.mean", **fields).value) == (
        1.0,
        0.5,
    )
    assert tv.score("deepeval.best", **fields).raw == [0.0, 1.0]
    with pytest.raises(ValueError, match="best or mean"):
        deepeval_metric("deepeval.worst", theirs.ExactMatchMetric, references="worst")


def test_what_the_metric_needs_and_is_not_there_skips_it(theirs):
    deepeval_metric("deepeval.exact", theirs.ExactMatchMetric)
    assert tv.score("deepeval.exact", output="yes").reason == "the case has no reference"
    deepeval_metric("deepeval.tools", lambda: theirs.ToolCorrectnessMetric(model=object()))
    assert tv.score("deepeval.tools", output="yes").status in {"skipped", "error"}


def test_a_metric_without_reference_is_asked_once(theirs):
    deepeval_metric("deepeval.pattern", lambda: theirs.PatternMatchMetric(pattern="[0-9]+"))
    assert tv.score("deepeval.pattern", output="42", references=["a", "b"]).value == 1.0
    assert tv.score("deepeval.pattern", output="x").value == 0.0


def test_an_own_metric_sees_the_case_and_the_attempt(theirs):
    deepeval_metric("deepeval.length", theirs.Length)
    found = tv.score(
        "deepeval.length", output="12345", references=["r"], source="doc", input={"b": 1}, seconds=2.5
    )
    assert (found.value, found.reason) == (0.5, "{\"b\":1}|r|['doc']|2.5")


def test_lower_may_be_better_and_other_scales_are_reported_alone(theirs):
    deepeval_metric("deepeval.low", theirs.Length, lower_is_better=True)
    assert tv.score("deepeval.low", output="123").value == pytest.approx(0.7)
    found = tv.score("deepeval.low", output="x" * 20)
    assert (found.value, found.raw, found.status) == (None, 2.0, "ok")


def test_a_metric_that_fails_costs_its_own_score_only(theirs):
    class Broken(theirs.Length):
        def measure(self, test_case):
            raise ValueError("no model")

    deepeval_metric("deepeval.broken", Broken)
    found = tv.score("deepeval.broken", output="x")
    assert (found.status, found.reason) == ("error", "ValueError: no model")


def test_calls_and_expected_calls_are_theirs_too(theirs):
    seen = []

    class Tools(theirs.Length):
        def measure(self, test_case):
            seen.append((test_case.tools_called, test_case.expected_tools))
            self.score, self.reason = 1.0, None
            return 1.0

    deepeval_metric("deepeval.calls", Tools)
    trace = tv.Trace(spans=(tv.Span(id="1", kind="tool", name="add", input={"x": 1}, output="2"),))
    expect = tv.Expect(tools=(tv.ExpectedTool(name="add", arguments={"x": 1}),))
    tv.score("deepeval.calls", output="x", trace=trace, expect=expect)
    ((called,), (expected,)) = seen[0]
    assert (called.name, called.input_parameters, called.output) == ("add", {"x": 1}, "2")
    assert (expected.name, expected.input_parameters) == ("add", {"x": 1})


def test_a_suite_names_it_like_any_other(theirs, tmp_path):
    deepeval_metric("deepeval.exact", theirs.ExactMatchMetric)
    suite = tv.Suite(
        name="s", cases=[{"id": str(n), "input": "?", "references": [str(n % 2)]} for n in range(4)]
    ).with_settings(metrics=["deepeval.exact"], success={"metric": "deepeval.exact", "at_least": 1.0})
    run = tv.evaluate(suite, agent=lambda _: "1", store=f"sqlite:///{tmp_path / 's.db'}")
    assert run.summary().metrics["deepeval.exact"].mean == 0.5


def test_without_the_package_one_line_says_what_to_install(theirs, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "deepeval.errors", None)
    with pytest.raises(MissingExtra, match=r'pip install "trivium\[deepeval\]"'):
        deepeval_metric("deepeval.none", theirs.ExactMatchMetric)


def test_nothing_is_reported_unless_asked_for():
    from deepeval.telemetry.client import telemetry_opt_out

    assert telemetry_opt_out()
