"""Whether a trace went through, and why not."""

import pytest

from tests.traces.samples import agent, tool
from trivium.metrics.registry import BUILT_IN, REGISTERED, asked_metrics, metrics_without_expectation
from trivium.metrics.scoring import score
from trivium.suites.settings import JudgeSettings, Settings
from trivium.traces.trace import Trace, TraceProblem


def completed(*spans):
    return score("completed", trace=Trace(spans=spans))


def test_an_agent_that_ended_has_completed_even_if_a_tool_failed():
    assert completed(agent("a", "x"), tool("t", "look", "a", ok=False)).value == 1


def test_an_agent_that_failed_has_not_and_the_error_is_the_reason():
    failed = agent("a", "x", ok=False, attributes={"error": "no\nmoney"})
    found = completed(agent("b", "y"), failed)
    assert (found.value, found.reason) == (0, "agent x failed: no money")


def test_an_error_below_the_agent_is_the_reason_if_its_own_is_not_recorded():
    below = tool("t", "look", "a", ok=False, attributes={"error": {"message": "gone"}})
    assert completed(agent("a", "x", ok=False), below).reason == "agent x failed in tool look: gone"


def test_a_long_error_is_cut():
    found = completed(agent("a", "x", ok=False, attributes={"error": "e" * 1000}))
    assert found.reason == f"agent x failed: {'e' * 300}…"


def test_without_agents_the_outermost_spans_decide():
    assert completed(tool("t", "look", ok=False)).value == 0
    assert completed(tool("o", "orphan", ok=False), agent("a", "x")).value == 1


@pytest.mark.parametrize("spans", [(), (agent("a", "x", ok=None),)])
def test_an_unfinished_or_empty_trace_is_skipped(spans):
    assert completed(*spans).status == "skipped"


def test_it_is_off_unless_named():
    assert "completed" not in asked_metrics(Settings())


NOT_OF_A_TRACE = ("path_agreement", "planning_rationality")


def test_metrics_without_expectation_are_those_that_score_a_bare_trace(monkeypatch):
    """Each that declares no field of a case has a value or a reason about the trace, never about the case."""
    for name in REGISTERED.keys() - BUILT_IN.keys():  # metrics that other tests made
        monkeypatch.delitem(REGISTERED, name)
    settings = Settings()
    trace = Trace(spans=(agent("a", "x", start=0.0, end=1.0), tool("t", "look", "a", start=0.2, end=0.4)))
    # A package that is installed for the tests declares metrics with a dot in their names.
    named = [name for name in metrics_without_expectation(settings) if "." not in name]
    for name in named:
        assert "the case" not in (score(name, trace=trace).reason or ""), name
    for name in {name for name in asked_metrics(settings) if "." not in name} - {*named, *NOT_OF_A_TRACE}:
        assert score(name, trace=trace, output="out").status == "skipped", name


def test_dimensions_of_a_rubric_count_if_a_trace_has_what_they_need():
    judge = JudgeSettings(models=("test",), rubric=("agent", "review"))
    named = metrics_without_expectation(Settings(judge=judge))
    assert {"completeness", "agent.tool_efficiency"} <= set(named)
    assert not {"factual_accuracy", "technical_accuracy"} & set(named)


def test_a_trace_without_its_root_is_skipped_unless_what_is_left_failed():
    lost = (TraceProblem(kind="orphan", span="a", what="its parent is not in the trace"),)
    found = score("completed", trace=Trace(spans=(agent("a", "x"),), problems=lost))
    assert (found.status, found.reason) == (
        "skipped",
        "the outermost span is missing: how it ended is not known",
    )
    failed = Trace(spans=(agent("a", "x", ok=False),), problems=lost)
    assert score("completed", trace=failed).value == 0
    rooted = Trace(spans=(agent("a", "x", ok=False), agent("r", "root")), problems=lost)
    assert score("completed", trace=rooted).value == 1
