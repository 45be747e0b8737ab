"""Metrics of tool calls: closed forms, and every empty case."""

import msgspec
import networkx as nx
import pytest
from hypothesis import given

from tests.metrics.graph import peer
from tests.strategies import expects, traces
from tests.traces.samples import calls, tool
from trivium.agents.attempt import Attempt
from trivium.metrics.graph.tool_calls import ToolSelection
from trivium.metrics.graph.trajectories import Complexity, tool_graph
from trivium.metrics.metric import MetricInput
from trivium.metrics.registry import build_metrics
from trivium.metrics.scoring import score, score_attempts
from trivium.suites.case import Case, Expect, ExpectedTool
from trivium.suites.settings import MessageSettings, Settings, ToolSettings
from trivium.traces.trace import Trace

TOOL_METRICS = ("path_convergence", "tool_selection", "tool_recall", "tool_success", "tool_efficiency")


def expect(*names: str, **fields) -> Expect:
    return Expect(tools=tuple(ExpectedTool(name=name) for name in names), **fields)


def value(metric, trace, expect=Expect(), **settings):  # noqa: B008
    return score(metric, trace=trace, expect=expect, **settings).value


@pytest.mark.parametrize(
    ("made", "expected", "convergence", "selection", "recall"),
    [
        ("ab", "ab", 1, 1, 1),
        ("abb", "ab", 2 / 3, 2 / 3, 1),
        ("abcd", "ab", 1 / 2, 1 / 2, 1),
        ("a", "ab", 1 / 2, 1, 1 / 2),  # stopping early is not rewarded
        ("cd", "ab", 0, 0, 0),
        ("aab", "abb", 2 / 3, 2 / 3, 2 / 3),
        ("", "ab", 0, 0, 0),
        ("", "", 1, 1, 1),
        ("a", "", 0, 0, 1),
    ],
)
def test_calls_against_those_expected(made, expected, convergence, selection, recall):
    trace, wanted = calls(*made), expect(*expected)
    assert value("path_convergence", trace, wanted) == pytest.approx(convergence)
    assert value("tool_selection", trace, wanted) == pytest.approx(selection)
    assert value("tool_recall", trace, wanted) == pytest.approx(recall)
    assert value("tool_efficiency", trace, wanted) == pytest.approx((convergence + selection) / 2)


@pytest.mark.parametrize(
    ("made", "convergence"),
    [("a", 1), ("abc", 1), ("abab", 1 / 2), ("aaaa", 1 / 4), ("abcacd", 3 / 6), ("abcb", 2 / 4)],
)
def test_without_expectations_the_shortest_way_is_the_measure(made, convergence):
    trace = calls(*made)
    assert value("path_convergence", trace) == pytest.approx(convergence)
    graph = peer.named(tool_graph(trace))
    shortest = nx.shortest_path_length(graph, "START", "END") - 1
    assert convergence == pytest.approx(shortest / len(made))


def test_by_agent_each_has_a_shortest_way_of_its_own():
    spans = [
        tool(str(i), name, agent=who)
        for i, (name, who) in enumerate([("a", "x"), ("p", "y"), ("a", "x"), ("b", "x")])
    ]
    trace = Trace(spans=tuple(spans))
    assert value("path_convergence", trace, tools=ToolSettings(by="agent")) == pytest.approx((2 + 1) / 4)


@pytest.mark.parametrize("metric", [*TOOL_METRICS, "complexity", "action_match"])
def test_nothing_known_is_skipped_and_never_zero(metric):
    for fields in ({"trace": Trace()}, {}):
        found = score(metric, **fields)
        assert (found.status, found.value) == ("skipped", None)
        assert found.reason


def test_efficiency_takes_what_is_not_skipped():
    found = score("tool_efficiency", trace=calls("a", "a"))
    assert found.value == 0.5
    assert found.detail == {"path_convergence": 0.5}


def test_efficiency_of_a_part_in_error_is_an_error():
    (metric,) = [m for m in build_metrics(["tool_efficiency"], Settings()) if m.name == "tool_efficiency"]
    broken = ToolSelection().error("ValueError: broken")
    fine = ToolSelection().ok(1.0)
    subject = MetricInput(
        Case(id="1", input=""), Attempt(case="1"), {"tool_selection": broken, "path_convergence": fine}
    )
    assert metric.score(subject).status == "error"


def test_selection_by_context():
    optimal = Expect(optimal_tools={"fetch": "get", "compute": "calc"})
    spans = (
        tool("1", "get", attributes={"context": "fetch"}),
        tool("2", "get", attributes={"context": "compute"}),
        tool("3", "get", attributes={"context": "unheard of"}),
        tool("4", "get"),
    )
    found = score("tool_selection", trace=Trace(spans=spans), expect=optimal)
    assert found.value == 1 / 4
    assert found.detail["without_context"] == 1
    assert value("tool_selection", Trace(spans=spans[:1]), optimal) == 1.0
    assert value("tool_selection", Trace(), optimal) == 0.0


def test_selection_without_any_context_goes_by_the_expected_calls():
    optimal = {"fetch": "get"}
    assert value("tool_selection", calls("get", "x"), expect("get", optimal_tools=optimal)) == 0.5
    assert (
        score("tool_selection", trace=calls("get"), expect=Expect(optimal_tools=optimal)).status == "skipped"
    )


def test_selection_details_give_precision_recall_and_f1():
    detail = score("tool_selection", trace=calls("a", "b", "c"), expect=expect("a", "d")).detail
    assert (detail["precision"], detail["recall"]) == (1 / 3, 1 / 2)
    assert detail["f1"] == pytest.approx(2 / 5)
    assert detail["extra"] == {"b": 1, "c": 1}
    none_made = score("tool_selection", trace=Trace(), expect=expect("a")).detail
    assert (none_made["precision"], none_made["recall"], none_made["f1"]) == (1.0, 0.0, 0.0)


def test_arguments_are_compared_as_values():
    wanted = Expect(
        tools=(
            ExpectedTool(name="get", arguments={"id": 1, "deep": {"x": [1.0, "1e3"]}}),
            ExpectedTool(name="get"),
            ExpectedTool(name="ping", arguments={}),
        )
    )
    spans = (
        tool("1", "get", input={"id": 2}),
        tool("2", "get", input='{"deep": {"x": [1, "1e3"]}, "id": 1.0}'),
        tool("3", "ping"),
        tool("4", "get", input={"id": 3}),
        tool("5", "get", input="[not json"),
    )
    by_arguments = ToolSettings(match="arguments")
    assert value("tool_selection", Trace(spans=spans), wanted, tools=by_arguments) == 3 / 5
    assert value("tool_recall", Trace(spans=spans), wanted, tools=by_arguments) == 1.0
    assert value("tool_recall", Trace(spans=spans[2:3]), wanted, tools=by_arguments) == 1 / 3
    assert value("tool_recall", Trace(spans=spans[:1]), expect("get"), tools=by_arguments) == 1.0


def test_order_counts_when_asked_for():
    ordered = ToolSettings(match="ordered")
    trace, wanted = calls("b", "a", "c"), expect("a", "b", "c")
    assert value("tool_selection", trace, wanted) == 1.0
    assert value("tool_selection", trace, wanted, tools=ordered) == pytest.approx(2 / 3)
    assert value("tool_recall", trace, wanted, tools=ordered) == pytest.approx(2 / 3)


def test_ignored_tools_leave_every_tool_figure():
    ignoring = ToolSettings(ignore=("think",))
    noisy, plain = calls("think", "a", "think", "b"), calls("a", "b")
    wanted = expect("a", "b", "think")
    for metric in (*TOOL_METRICS, "complexity", "action_match"):
        found = score(metric, trace=noisy, expect=wanted, tools=ignoring)
        alone = score(metric, trace=plain, expect=expect("a", "b"))
        assert (found.value, found.raw) == (alone.value, alone.raw), metric


def test_success_counts_failures_and_names_the_unfinished():
    spans = (tool("1", "a", ok=False), tool("2", "a"), tool("3", "b", ok=None), tool("4", "c"))
    found = score("tool_success", trace=Trace(spans=spans))
    assert found.value == 3 / 4
    assert found.detail["failed"] == {"a": 1}
    assert found.detail["unfinished"] == 1


def test_retries_count_as_calls_but_not_as_logical_ones():
    spans = (
        tool("1", "a", agent="x", ok=False),
        tool("2", "a", agent="y"),  # somebody else's call is no retry
        tool("3", "a", agent="x", ok=False),
        tool("4", "a", agent="x"),
        tool("5", "a", agent="x"),  # what succeeded is not tried again
        tool("6", "b", agent="x", ok=False),
        tool("7", "a", agent="x"),
    )
    detail = score("tool_success", trace=Trace(spans=spans)).detail
    assert (detail["calls"], detail["logical_calls"]) == (7, 5)


def test_complexity_is_reported_and_not_scored():
    made = "abcabd"
    found = score("complexity", trace=calls(*made))
    graph = peer.named(tool_graph(calls(*made)))
    out = [d for _, d in graph.out_degree() if d]
    assert (found.status, found.value) == ("ok", None)
    assert found.raw == pytest.approx(peer.average_shortest_path(graph) * sum(out) / len(out), abs=1e-12)
    assert found.detail["diameter"] == nx.diameter(graph.to_undirected())
    assert found.detail["clustering"] == pytest.approx(nx.average_clustering(graph.to_undirected()))
    assert found.detail["connected"] is True
    assert found.detail["cycles"] == 1
    assert set(found.detail["shortest_cycle"]) == {"a", "b", "c"}
    assert "cycles_counted_up_to" not in found.detail
    assert "estimated" not in found.detail


def test_complexity_says_where_it_stopped_counting_or_began_to_estimate():
    every_pair = [name for i in range(20) for j in range(20) if i != j for name in (str(i), str(j))]
    assert score("complexity", trace=calls(*every_pair)).detail["cycles_counted_up_to"] == 100
    large = score("complexity", trace=calls(*map(str, range(5_001)))).detail
    assert (large["estimated"], large["sources"]) == (True, 100)


def test_a_trace_is_matched_anew_against_another_case():
    trace = calls("a")
    assert value("tool_recall", trace, expect("a")) == 1.0
    assert value("tool_recall", trace, expect("b")) == 0.0


def test_metrics_are_made_as_the_suite_wants_them():
    tools, said = ToolSettings(ignore=("x",)), MessageSettings(coordination=("sync",))
    made = build_metrics(["complexity", "communication_overhead"], Settings(tools=tools, messages=said))
    assert isinstance(made[0], Complexity)
    assert made[0].tools == tools
    assert made[1].messages == said


TRACE_METRICS = (
    *TOOL_METRICS,
    *("action_match", "complexity", "communication_overhead", "centrality", "coordination_quality"),
    "task_balance",
)


@given(traces(), expects)
def test_scores_stay_in_bounds_and_can_be_written(trace, expected):
    case = Case(id="1", input=None, expect=expected)
    for match in ("names", "arguments", "ordered"):
        metrics = build_metrics(TRACE_METRICS, Settings(tools=ToolSettings(match=match, by="agent")))
        (scores,) = score_attempts(metrics, [(case, Attempt(case="1", trace=trace))])
        for found in scores.values():
            assert found.status in ("ok", "skipped"), found
            assert found.value is None or 0 <= found.value <= 1
            assert (found.status == "skipped") == bool(found.reason)
            msgspec.json.encode(found)
