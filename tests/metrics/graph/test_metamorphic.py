"""What is useless in a trace lowers the scores that should fall, and leaves the others alone."""

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.goldens import data
from tests.strategies import few_names
from tests.traces.samples import calls, tool
from trivium.agents.attempt import Attempt
from trivium.formats.agents_eval import read_run
from trivium.formats.tau_bench import read_suite, read_trajectories
from trivium.metrics.registry import build_metrics
from trivium.metrics.scoring import score_attempts
from trivium.suites.case import Case, Expect, ExpectedTool
from trivium.suites.settings import Settings
from trivium.traces.normalize import normalise
from trivium.traces.trace import Message, Trace

METRICS = build_metrics(
    [
        *("path_convergence", "tool_selection", "tool_recall", "tool_success", "tool_efficiency"),
        *("action_match", "communication_overhead", "coordination_quality", "task_balance"),
    ],
    Settings(),
)


def values(trace: Trace, expect: Expect = Expect()) -> dict[str, float | None]:  # noqa: B008
    case = Case(id="1", input=None, expect=expect)
    (scores,) = score_attempts(METRICS, [(case, Attempt(case="1", trace=trace))])
    return {name: found.value for name, found in scores.items()}


def changed(trace: Trace, **fields) -> Trace:
    """A copy with other fields, and nothing remembered."""
    return msgspec.structs.replace(trace, **fields)


def with_useless_call(trace: Trace, name: str = "useless") -> Trace:
    spans = (*trace.spans, tool(f"extra-{len(trace.spans)}", name, agent="agent"))
    return changed(trace, spans=spans)


def test_useless_calls_in_real_trajectories_lower_selection_and_convergence_alone():
    path = data("traces/tau-bench/gpt-4o-airline_tasks_00-32.json")
    cases = {case.id: case for case in read_suite(path).cases}
    for trajectory in read_trajectories(path):
        expect = Expect(tools=cases[trajectory.case].expect.tools)
        before = values(trajectory.trace, expect)
        after = values(with_useless_call(trajectory.trace), expect)
        for metric in ("tool_selection", "path_convergence", "tool_efficiency"):
            if before[metric] and len(trajectory.trace.tool_calls) >= len(expect.tools):
                assert after[metric] < before[metric]
            else:
                assert after[metric] <= before[metric]
        for metric in ("tool_recall", "communication_overhead", "coordination_quality"):
            assert after[metric] == before[metric]
        assert after["action_match"] == 0.0  # a change that nobody asked for


def test_useless_hand_offs_in_real_runs_raise_the_overhead_alone():
    talking = [read_run(run) for run in sorted(data("traces/agents-eval/mas").iterdir())]
    talking = [trace for trace in talking if trace.messages]
    assert talking
    for trace in talking:
        first = trace.messages[0]
        handed = Message(sender=first.sender, receiver=first.receiver, type="handoff", time=first.time)
        before, after = values(trace), values(changed(trace, messages=(*trace.messages, handed)))
        assert after["communication_overhead"] < before["communication_overhead"]
        assert after["coordination_quality"] < before["coordination_quality"]
        same = before.keys() - {"communication_overhead", "coordination_quality"}
        assert {name: after[name] for name in same} == {name: before[name] for name in same}


@given(st.lists(few_names, max_size=8), st.lists(few_names, min_size=1, max_size=5))
def test_a_useless_call_never_helps(made, expected):
    expect = Expect(tools=tuple(ExpectedTool(name=name) for name in expected))
    before, after = values(calls(*made), expect), values(with_useless_call(calls(*made)), expect)
    for metric in ("tool_selection", "path_convergence", "tool_efficiency"):
        assert after[metric] <= before[metric]
    assert after["tool_recall"] == before["tool_recall"]


@given(st.lists(few_names, min_size=1, max_size=8), st.lists(few_names, min_size=1, max_size=5))
def test_a_missing_call_that_is_made_after_all_never_hurts(made, expected):
    expect = Expect(tools=tuple(ExpectedTool(name=name) for name in expected))
    missing = [name for name in set(expected) if expected.count(name) > made.count(name)]
    assume(missing)
    before, after = values(calls(*made), expect), values(calls(*made, missing[0]), expect)
    assert after["tool_recall"] > before["tool_recall"]
    assert after["tool_selection"] >= before["tool_selection"]


def test_a_failed_call_lowers_success_alone():
    fine = calls("a", "b")
    failed = changed(fine, spans=(fine.spans[0], tool("1", "b", ok=False)))
    expect = Expect(tools=(ExpectedTool(name="a", reads=True), ExpectedTool(name="b", reads=True)))
    before, after = values(fine, expect), values(failed, expect)
    assert after.pop("tool_success") < before.pop("tool_success")
    assert after == before


def test_work_done_by_one_alone_is_less_balanced():
    shared = [tool(str(i), "t", agent="ab"[i % 2]) for i in range(6)]
    alone = [*(tool(str(i), "t", agent="a") for i in range(5)), tool("5", "t", agent="b")]
    assert values(normalise(alone))["task_balance"] < values(normalise(shared))["task_balance"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_order_in_the_file_does_not_matter_where_times_tell(order):
    spans = [tool(str(i), name, start=float(i), end=i + 0.5) for i, name in enumerate("abc")]
    trace = normalise([spans[index] for index in order])
    assert [call.name for call in trace.tool_calls] == ["a", "b", "c"]
