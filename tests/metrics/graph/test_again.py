"""Metrics of what was done again: closed forms, empty cases, and bounds."""

import pytest
from hypothesis import given

from tests.strategies import traces
from tests.traces.samples import tool
from trivium.metrics.registry import default_metrics
from trivium.metrics.scoring import score
from trivium.suites.settings import Settings, ToolSettings
from trivium.traces.trace import NO_ARGUMENTS, NO_CALLS, NOT_RECORDED, Trace, TraceProblem

NAMES = ("loop_free", "retry_rate")


def made(*calls):
    spans = [tool(str(i), name, agent="x", ok=ok, input={"q": q}) for i, (name, q, ok) in enumerate(calls)]
    return Trace(spans=tuple(spans))


def test_loop_free_is_the_share_of_calls_that_are_no_further_round():
    looping = made(("plan", 0, True), *[("search", 1, True), ("read", 1, True)] * 3)
    found = score("loop_free", trace=looping)
    assert (found.value, found.raw) == pytest.approx((3 / 7, 4 / 7))
    assert found.detail == {
        "calls": 7,
        "looped": 4,
        "loops": 1,
        "longest": [{"agent": "x", "tools": ["search", "read"], "rounds": 3}],
    }
    other = made(*[("search", number, True) for number in range(7)])
    assert score("loop_free", trace=other).value == 1


def test_retry_rate_is_the_share_of_calls_that_repeat_a_failure():
    trace = made(("a", 1, False), ("b", 1, True), ("a", 1, False), ("a", 1, True), ("a", 1, True))
    found = score("retry_rate", trace=trace)
    assert (found.value, found.raw) == pytest.approx((3 / 5, 2 / 5))
    assert found.detail == {"calls": 5, "retries": {"a": 2}, "recovered": 1, "repeats": {"a": 1}}


@pytest.mark.parametrize("name", NAMES)
def test_without_calls_there_is_nothing_to_measure(name):
    assert score(name, trace=Trace()).status == "skipped"
    only = made(("poll", 1, False), ("poll", 1, False), ("poll", 1, False))
    assert score(name, trace=only).value < 1
    assert score(name, trace=only, tools=ToolSettings(ignore=("poll",))).status == "skipped"


@pytest.mark.parametrize("name", NAMES)
@given(trace=traces())
def test_scores_stay_in_range_and_complete_their_raw_value(name, trace):
    found = score(name, trace=trace)
    assert found.status == "skipped" or (0 <= found.value <= 1 and found.value == 1 - found.raw)


@pytest.mark.parametrize("name", [*NAMES, "tool_recall", "action_match"])
def test_what_the_trace_does_not_record_is_not_compared(name):
    calls = made(("a", None, False), ("a", None, True)).spans
    arguments = Trace(spans=calls, problems=(TraceProblem(kind=NOT_RECORDED, what=NO_ARGUMENTS),))
    expect = {"tools": [{"name": "a", "arguments": {"q": 1}}]}
    by_arguments = ToolSettings(match="arguments")
    found = score(name, trace=arguments, expect=expect, tools=by_arguments)
    assert (found.status, found.value) == ("skipped", None)
    assert found.reason == NO_ARGUMENTS
    assert score("tool_success", trace=arguments).value == 0.5
    assert score("tool_recall", trace=arguments, expect=expect).value == 1
    nothing = Trace(spans=(), problems=(TraceProblem(kind=NOT_RECORDED, what=NO_CALLS),))
    assert score(name, trace=nothing, expect={"tools": []}).status == "skipped"


def test_neither_is_measured_unless_a_suite_names_it():
    assert not {*NAMES} & {*default_metrics(Settings())}
    assert default_metrics(Settings(metrics=NAMES)) == NAMES
