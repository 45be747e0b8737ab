"""Tests process-graph comparisons against counts made by hand, SciPy and NetworkX."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given
from scipy import stats

import trivium as tv
from tests.runs.comparing.graph_samples import before_and_after, handoffs, run_of, spans
from tests.strategies import traces
from trivium.metrics.graph.agents import interaction_graph
from trivium.metrics.graph.trajectories import tool_graph
from trivium.runs.comparing.graph_diff import edges_of, paces_of
from trivium.store.records import AttemptOutline


def edges(graphs):
    return {(one.kind, one.source, one.target): one for one in graphs.edges}


def test_edges_appear_vanish_and_change_their_number(store, tmp_path):
    graphs = tv.compare(*before_and_after(store, tmp_path), graphs=True).graphs
    assert (graphs.attempts, graphs.cases, graphs.groups, graphs.without_trace) == (20, 20, 20, 0)
    found = {key: (one.became, one.sure, one.base, one.head) for key, one in edges(graphs).items()}
    assert found == {
        ("message", "a", "b"): ("same", False, 1, 1),
        ("message", "b", "a"): ("appeared", True, 0, 1),
        ("call", "boss", "search"): ("more", True, 1, 2),
        ("call", "boss", "read"): ("vanished", True, 1, 0),
        ("order", "START", "search"): ("same", False, 1, 1),
        ("order", "search", "read"): ("vanished", True, 1, 0),
        ("order", "read", "END"): ("vanished", True, 1, 0),
        ("order", "search", "search"): ("appeared", True, 0, 1),
        ("order", "search", "END"): ("appeared", True, 0, 1),
    }
    assert [one.sure for one in graphs.edges] == [True] * 7 + [False] * 2
    paces = {one.name: (one.became, one.sure, one.base, one.head) for one in graphs.paces}
    assert paces == {"search": ("slower", True, 1, 1.5), "boss": ("slower", True, 3, 4.5)}
    assert all(one.factor == pytest.approx(1.5) for one in graphs.paces)


def test_intervals_and_p_values_are_those_of_scipy(store, tmp_path):
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 4, (2, 30)), rng.integers(0, 2, (2, 30))
    took = rng.uniform(0.5, 2.0, (2, 30))
    runs = [
        run_of(
            store,
            tmp_path,
            [{"spans": spans(["a"] * a + ["b"] * b, took=t)} for a, b, t in zip(*own, strict=True)],
        )
        for own in zip(*counts, took, strict=True)
    ]
    graphs = tv.compare(*runs, graphs=True, level=0.9).graphs
    for name, (base, head) in zip("ab", counts, strict=True):
        one = edges(graphs)["call", "boss", name]
        expected = stats.ttest_rel(head, base).confidence_interval(0.9)
        assert (one.base, one.head) == pytest.approx((base.mean(), head.mean()))
        assert one.ci95 == pytest.approx((expected.low, expected.high))
        more, fewer = int((head > base).sum()), int((head < base).sum())
        assert (one.groups_more, one.groups_fewer) == (more, fewer)
        assert one.p == pytest.approx(stats.binomtest(more, more + fewer).pvalue)
        assert (one.share_base, one.share_head) == ((base > 0).mean(), (head > 0).mean())
    tested = [one for one in graphs.edges if one.p_holm is not None]
    rising, most = sorted(tested, key=lambda one: one.p), 0.0
    for place, one in enumerate(rising):
        most = max(most, min(1.0, one.p * (len(rising) - place)))
        assert one.p_holm == pytest.approx(most)
    turns = next(one for one in graphs.paces if one.kind == "agent")
    total = [t * (a + b + 1) for t, a, b in zip(took, *counts, strict=True)]
    ratios = np.log(total[1] / total[0])
    expected = stats.ttest_1samp(ratios, 0).confidence_interval(0.9)
    assert turns.factor == pytest.approx(np.exp(ratios.mean()))
    assert turns.ci95 == pytest.approx((np.exp(expected.low), np.exp(expected.high)))
    assert (turns.base, turns.head) == pytest.approx((np.median(total[0]), np.median(total[1])))


def test_repeats_are_averaged_by_case_and_groups_count_once(store, tmp_path):
    def trace(count):
        return {"spans": spans(["a"] * count)}

    groups = ["g1", "g1", "g2", "g3"]
    base = run_of(store, tmp_path, [trace(1)] * 8, repeats=2, groups=groups)
    head = run_of(store, tmp_path, [trace(n) for n in (1, 3, 1, 1, 2, 2, 0, 0)], repeats=2, groups=groups)
    graphs = tv.compare(base, head, graphs=True).graphs
    one = edges(graphs)["call", "boss", "a"]
    assert (graphs.attempts, graphs.cases, graphs.groups) == (8, 4, 3)
    assert (one.base, one.head, one.share_head) == (1, 1.25, 0.75)
    assert (one.groups_more, one.groups_fewer) == (2, 1)
    assert (one.p, one.p_holm, one.sure) == (1.0, None, False)
    (tool,) = (pace for pace in graphs.paces if pace.kind == "tool")
    assert (tool.became, tool.cases, tool.p) == ("same", 3, None)


def test_only_attempts_with_a_trace_on_both_sides_take_part(store, tmp_path):
    trace = {"spans": spans(["a"])}
    base = run_of(store, tmp_path, [trace, trace, None, None, trace])
    head = run_of(store, tmp_path, [trace, None, trace, None, {"spans": spans(["b"])}])
    graphs = tv.compare(base, head, graphs=True).graphs
    assert (graphs.attempts, graphs.without_trace) == (2, 3)
    assert (edges(graphs)["call", "boss", "a"].base, edges(graphs)["call", "boss", "a"].head) == (1, 0.5)
    none = run_of(store, tmp_path, [None] * 5)
    empty = tv.compare(base, none, graphs=True).graphs
    assert (empty.attempts, empty.edges, empty.paces) == (0, (), ())


def test_runs_are_compared_without_their_graphs_unless_asked(store, tmp_path):
    assert tv.compare(*before_and_after(store, tmp_path)).graphs is None


@given(traces())
def test_edges_are_those_of_the_two_graphs(trace):
    found = edges_of(trace)
    order = {pair: edge.count for pair, edge in tool_graph(trace).edges.items()}
    said_to = {pair: edge.count for pair, edge in interaction_graph(trace).edges.items()}
    assert {edge[1:]: n for edge, n in found.items() if edge[0] == "order"} == order
    assert {edge[1:]: n for edge, n in found.items() if edge[0] == "message"} == said_to
    assert sum(n for edge, n in found.items() if edge[0] == "call") == len(trace.tool_calls)


@given(traces())
def test_an_outline_holds_as_much_as_the_whole_attempt(trace):
    body = msgspec.json.encode(tv.Attempt(case="1", output="x", trace=trace))
    steps = msgspec.json.decode(body, type=AttemptOutline).steps
    assert edges_of(steps) == edges_of(trace)
    assert paces_of(steps) == paces_of(trace)


def test_people_and_hand_offs_dressed_as_calls_are_left_out():
    body = {
        "case": "1",
        "trace": {
            "spans": [{"id": "1", "kind": "tool", "name": "to_b", "attributes": {"handoff": True}}],
            "messages": [*handoffs("ab"), {"sender": "user", "receiver": "a", "content": {"any": [1]}}],
            "metadata": {"people": ["user"], "more": 1},
        },
    }
    steps = msgspec.json.decode(json.dumps(body), type=AttemptOutline).steps
    assert edges_of(steps) == {("message", "a", "b"): 1}
    assert msgspec.json.decode(b'{"case": "1"}', type=AttemptOutline).steps is None
