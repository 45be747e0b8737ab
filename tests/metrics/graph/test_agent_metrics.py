"""Metrics of agents and their messages: closed forms, and every empty case."""

from contextlib import ExitStack
from itertools import pairwise
from statistics import mean, stdev

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trivium as tv
from tests.goldens import golden
from tests.metrics.graph import peer
from tests.strategies import traces
from tests.traces.samples import agent, tool
from trivium.metrics.graph.agents import balance, interaction_graph
from trivium.metrics.scoring import score
from trivium.suites.case import Expect
from trivium.suites.settings import MessageSettings, ToolSettings
from trivium.traces.normalize import normalise
from trivium.traces.trace import Message, Span, Trace


def talk(*settings, spans=()):
    """A trace of messages, each "sender>receiver" or "sender>receiver:type"."""
    messages = []
    for text in settings:
        pair, _, kind = text.partition(":")
        sender, receiver = pair.split(">")
        messages.append(Message(sender=sender, receiver=receiver, type=kind or "task_request"))
    return Trace(spans=tuple(spans), messages=tuple(messages))


def test_overhead_is_the_share_of_messages_that_only_coordinate():
    trace = talk("m>r", "r>m:result_delivery", "m>r:handoff", "m>r:status_update", "m>r:gossip")
    found = score("communication_overhead", trace=trace)
    assert found.raw == 2 / 5
    assert found.value == pytest.approx(3 / 5)
    assert found.detail["coordination_to_productive"] == 1.0
    assert found.detail["types"]["gossip"] == 1


def test_three_messages_that_coordinate_to_two_that_produce_are_one_and_a_half():
    found = score("communication_overhead", trace=talk("m>r", "r>m", *["m>r:handoff"] * 3))
    assert found.detail["coordination_to_productive"] == 1.5


def test_the_suite_says_which_types_coordinate():
    settings = MessageSettings(coordination=("gossip",), productive=())
    found = score("communication_overhead", trace=talk("m>r", "m>r:gossip"), messages=settings)
    assert found.raw == 1 / 2
    assert found.detail["coordination_to_productive"] is None


@pytest.mark.parametrize("metric", ["communication_overhead", "coordination_quality"])
def test_without_messages_between_agents_there_is_nothing_to_score(metric):
    with_user = Trace(
        spans=(agent("1", "a"),),
        messages=(Message(sender="user", receiver="a"),),
        metadata={"people": ["user"]},
    )
    two_silent = Trace(spans=(agent("1", "a"), agent("2", "b")))
    for trace in (Trace(), with_user, two_silent):
        assert score(metric, trace=trace).status == "skipped"


def test_one_agent_alone_coordinates_nothing():
    assert score("coordination_quality", trace=talk("a>a")).status == "skipped"


@given(traces())
def test_centrality_is_the_highest_mean_of_the_three(trace):
    found = score("centrality", trace=trace)
    graph = peer.named(interaction_graph(trace))
    if not graph:
        assert found.status == "skipped"
        return
    three = [nx.betweenness_centrality(graph), nx.closeness_centrality(graph), nx.degree_centrality(graph)]
    means = {name: sum(measure[name] for measure in three) / 3 for name in graph}
    assert found.raw == pytest.approx(max(means.values()), abs=1e-9)
    assert found.value == pytest.approx(min(1.0, max(means.values())), abs=1e-9)
    assert means[found.detail["agent"]] == pytest.approx(found.raw)
    for name, row in found.detail["agents"].items():
        assert row["mean"] == pytest.approx(means[name], abs=1e-9)
    assert "estimated" not in found.detail


def test_centrality_of_a_star_exceeds_one_and_is_clamped():
    both_ways = [text for spoke in "bcdefgh" for text in (f"a>{spoke}", f"{spoke}>a")]
    found = score("centrality", trace=talk(*both_ways))
    assert found.raw == pytest.approx(4 / 3)
    assert found.value == 1.0


def test_centrality_of_many_agents_is_estimated_and_says_so():
    found = score("centrality", trace=talk(*(f"{index}>{index + 1}" for index in range(2_000))))
    assert found.status == "ok"
    assert (found.detail["estimated"], found.detail["sources"]) == (True, 100)
    assert 0 < found.detail["standard_error"] <= found.detail["largest_standard_error"]


def test_more_paths_than_a_float_can_count_is_an_error():
    layers = [[f"{layer} {place}" for place in range(3)] for layer in range(666)]
    settings = [f"{a}>{b}" for above, below in pairwise(layers) for a in above for b in below]
    found = score("centrality", trace=talk(*settings))
    assert found.status == "error"
    assert "more shortest paths" in found.reason


@given(traces())
def test_coordination_without_a_workflow_is_global_efficiency_times_what_is_no_overhead(trace):
    found = score("coordination_quality", trace=trace)
    graph = peer.named(interaction_graph(trace))
    overhead = score("communication_overhead", trace=trace)
    if found.status == "ok":
        efficiency = nx.global_efficiency(graph.to_undirected())
        assert found.value == pytest.approx((1 - overhead.raw) * efficiency, abs=1e-9)
        assert found.method == "global_efficiency"


@pytest.mark.parametrize(
    ("settings", "workflow", "f1"),
    [
        (["m>r", "r>a", "a>s"], "mras", 1.0),
        (["m>r", "m>a", "m>s"], "mras", 2 * 1 / 6),
        (["m>r"], "mras", 2 * 1 / 4),
        (["r>m"], "mr", 0.0),
        (["m>r", "m>r", "m>r"], "mr", 1.0),
        (["m>r", "r>m:result_delivery"], "mr", 1.0),
        (["m>r:handoff", "r>a:delegation", "a>s:data_transfer"], "mras", 1.0),
        (["m>r", "r>a:status_update"], "mra", 2 * 1 / 3),
        (["m>r:result_delivery"], "mr", 0.0),
        (["m>m", "m>r"], "m", 0.0),
    ],
)
def test_coordination_with_a_workflow_is_how_well_the_pairs_follow_it(settings, workflow, f1):
    found = score("coordination_quality", trace=talk(*settings), expect=Expect(workflow=tuple(workflow)))
    assert found.detail["efficiency"] == pytest.approx(f1)
    assert found.value == pytest.approx(f1 * (1 - found.detail["communication_overhead"]))
    assert found.method == "workflow"


def test_a_run_that_follows_the_workflow_has_1_though_each_agent_answers():
    """As decorators record it: every agent below another was asked, and answers."""
    with tv.trace.recorded() as recorded, ExitStack() as stack:
        for name in ("manager", "researcher", "analyst", "synthesizer"):
            stack.enter_context(tv.trace.agent(name))
    workflow = ("manager", "researcher", "analyst", "synthesizer")
    found = score("coordination_quality", trace=recorded.trace, expect=Expect(workflow=workflow))
    assert len(recorded.trace.messages) == 6
    assert found.value == 1.0
    assert found.detail["extra_pairs"] == []


def test_extra_pairs_are_listed_in_the_order_of_their_first_hand_off():
    trace = talk("a>b:status_update", "c>d", "a>b", "c>d")
    found = score("coordination_quality", trace=trace, expect=Expect(workflow=("a",)))
    assert found.detail["extra_pairs"] == [("c", "d"), ("a", "b")]


def test_coordination_says_when_it_estimates():
    found = score("coordination_quality", trace=talk(*(f"{index}>{index + 1}" for index in range(5_000))))
    assert (found.detail["estimated"], found.detail["sources"]) == (True, 100)


def test_balance_equals_the_goldens():
    for line in golden("graphs.jsonl"):
        counts = list(line["task_counts"].values())
        wanted = 1.0 if line["task_balance"] is None else line["task_balance"]
        assert balance(counts) == pytest.approx(wanted, abs=1e-12)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=8).filter(any))
def test_balance_is_one_less_the_variation_of_the_sample(counts):
    assert balance(counts) == pytest.approx(max(0.0, 1 - stdev(counts) / mean(counts)), abs=1e-12)


def test_balance_counts_calls_and_requests_of_every_agent():
    spans = (
        agent("1", "a"),
        agent("2", "b"),
        tool("3", "t", agent="a"),
        Span(id="4", kind="llm", name="m", agent="a"),
        tool("5", "t", agent="b"),
        tool("6", "t", agent="b"),
        tool("7", "t"),
    )
    found = score("task_balance", trace=Trace(spans=spans))
    assert found.value == 1.0
    assert found.detail == {"tasks": {"a": 2, "b": 2}, "unassigned": 1}
    assert score("task_balance", trace=Trace(spans=spans), tools=ToolSettings(ignore=("t",))).value < 1.0


@pytest.mark.parametrize(
    "spans", [(), (agent("1", "a"), tool("2", "t", "1")), (agent("1", "a"), agent("2", "b"))]
)
def test_too_few_agents_or_tasks_are_balanced(spans):
    assert score("task_balance", trace=normalise(spans)).value == 1.0


def test_an_agent_that_was_asked_and_did_nothing_is_counted():
    trace = talk("a>b", spans=(tool("1", "t", agent="a"),))
    assert score("task_balance", trace=trace).value == 0.0
