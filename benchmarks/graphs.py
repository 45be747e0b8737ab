"""Graph measures compared with NetworkX in the same run, and traces per second of the trace metrics.

    python -m benchmarks.graphs

Both sides build their graph from the same list of edges and compute every measure that the metrics use. The
process analysis (docs/process.md) is timed on 1,000 traces of 50 spans and on one trace of 50,000, in
CPU seconds.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import islice
from operator import attrgetter
from random import Random
from typing import Any

import msgspec
import networkx as nx
import numpy as np

from benchmarks.sizes import sized
from trivium.agents.attempt import Attempt
from trivium.metrics.graph import measures
from trivium.metrics.graph.measures import IndexGraph
from trivium.metrics.registry import build_metrics
from trivium.metrics.scoring import score_attempts
from trivium.suites.case import Case, Expect, ExpectedTool
from trivium.suites.settings import Settings
from trivium.traces.normalize import normalise
from trivium.traces.process.process import Process
from trivium.traces.trace import Message, Span, Trace

ROUNDS = sized({10: 301, 50: 51, 1_000: 3}, {10: 1})
TARGETS = {10: 10, 50: 10, 1_000: 20}
BLOCK = 10
OUT_DEGREE = 3
TRACES = sized(2_000, 10)
TRACE_METRICS = (
    "path_convergence",
    "tool_selection",
    "tool_recall",
    "tool_success",
    "tool_efficiency",
    "action_match",
    "complexity",
    "communication_overhead",
    "centrality",
    "coordination_quality",
    "task_balance",
)

Edges = list[tuple[int, int]]


def random_edges(n: int) -> Edges:
    """Distinct directed edges between n nodes, self loops included."""
    rng = np.random.default_rng(n)
    pairs = rng.integers(0, n, size=(OUT_DEGREE * n, 2)).tolist()
    return list(dict.fromkeys((source, target) for source, target in pairs))


def peer_graph(n: int, edges: Edges) -> Any:
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(edges)
    return graph


def peer_average_path(graph: Any) -> float | None:
    lengths = [d for _, found in nx.all_pairs_shortest_path_length(graph) for d in found.values() if d]
    return sum(lengths) / len(lengths) if lengths else None


def peer_diameter(graph: Any) -> int:
    undirected = graph.to_undirected()
    largest = max(nx.connected_components(undirected), key=len)
    return nx.diameter(undirected.subgraph(largest).copy())


def peer_branching(graph: Any) -> float:
    degrees = [degree for _, degree in graph.out_degree() if degree]
    return sum(degrees) / len(degrees)


def cycle_limit(n: int, edges: Edges) -> int:
    """The number of cycles that Trivium counts, so that both sides do the same work."""
    found = IndexGraph(n, edges).simple_cycles
    return found.counted_up_to or found.count


def sides(n: int, edges: Edges) -> dict[str, tuple[Callable[[IndexGraph], Any], Callable[[Any], Any]]]:
    """The functions for each measure: Trivium's and NetworkX's."""
    limit = cycle_limit(n, edges)
    return {
        "betweenness": (
            attrgetter("betweenness.values"),
            lambda graph: list(nx.betweenness_centrality(graph).values()),
        ),
        "closeness": (attrgetter("closeness"), lambda graph: list(nx.closeness_centrality(graph).values())),
        "degree": (attrgetter("degree"), lambda graph: list(nx.degree_centrality(graph).values())),
        "average path": (attrgetter("average_shortest_path"), peer_average_path),
        "branching": (attrgetter("branching_factor"), peer_branching),
        "diameter": (lambda indexed: indexed.diameter[0], peer_diameter),
        "clustering": (attrgetter("clustering"), lambda graph: nx.average_clustering(graph.to_undirected())),
        "efficiency": (
            attrgetter("global_efficiency"),
            lambda graph: nx.global_efficiency(graph.to_undirected()),
        ),
        "cycles": (
            attrgetter("simple_cycles.count"),
            lambda graph: sum(1 for _ in islice(nx.simple_cycles(graph), limit)),
        ),
    }


def median_us(works: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
    """Median µs of each function; they alternate in blocks, so that other load affects all of them."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(0, rounds, BLOCK):
        for work, times in zip(works, taken, strict=True):
            for _ in range(min(BLOCK, rounds)):
                started = time.perf_counter()
                work()
                times.append(time.perf_counter() - started)
    return [statistics.median(times) * 1e6 for times in taken]


def compare(n: int) -> None:
    """One table: every measure alone, with building the graph, and all of them on one graph."""
    edges = random_edges(n)
    table = sides(n, edges)
    for name, (ours, peers) in table.items():
        found, wanted = ours(IndexGraph(n, edges)), peers(peer_graph(n, edges))
        assert np.allclose(found, wanted, rtol=0, atol=1e-9), name
    print(f"\n{n:,} nodes, {len(edges):,} edges{'ours µs':>22}{'NetworkX µs':>14}{'ratio':>9}")
    rows = {
        name: (lambda f=ours: f(IndexGraph(n, edges)), lambda f=peers: f(peer_graph(n, edges)))
        for name, (ours, peers) in table.items()
    }

    def all_ours() -> None:
        indexed = IndexGraph(n, edges)
        for ours, _ in table.values():
            ours(indexed)

    def all_peers() -> None:
        graph = peer_graph(n, edges)
        for _, peers in table.values():
            peers(graph)

    for name, (ours, peers) in {**rows, "all on one graph": (all_ours, all_peers)}.items():
        mine, theirs = median_us([ours, peers], ROUNDS[n])
        target = f"  (target: {TARGETS[n]}×)" if name == "all on one graph" else ""
        print(f"  {name:<26}{mine:>18,.1f}{theirs:>14,.1f}{theirs / mine:>8.1f}×{target}")


def twenty_spans(number: int) -> Trace:
    """A manager that delegates to four agents, each with a model request and two or three calls."""
    spans = [Span(id="m", kind="agent", name="manager", start=0.0, end=100.0)]
    for agent in range(4):
        at = 20.0 * agent
        spans += [
            Span(id=f"d{agent}", kind="tool", name=f"delegate_{agent}", parent="m", start=at, end=at + 19),
            Span(
                id=f"a{agent}", kind="agent", name=f"agent {agent}", parent=f"d{agent}", start=at, end=at + 18
            ),
        ]
        for step, kind in enumerate(("llm", "tool", "tool")):
            name = f"tool {(number + agent + step) % 5}"
            start = at + 2 + step
            spans.append(
                Span(
                    id=f"s{agent}{step}",
                    kind=kind,
                    name=name,
                    parent=f"a{agent}",
                    start=start,
                    end=start + 0.5,
                )
            )
    return normalise(spans[:20])


def whole_tier() -> None:
    """Traces a second through all trace metrics, and through repair."""
    started = time.perf_counter()
    traces = [twenty_spans(number) for number in range(TRACES)]
    made = time.perf_counter() - started
    expected = tuple(ExpectedTool(name=name) for name in ("delegate_0", "tool 1", "tool 2"))
    case = Case(id="1", input="", expect=Expect(tools=expected))
    scorers = build_metrics(TRACE_METRICS, Settings())
    score_attempts(scorers, [(case, Attempt(case="1", trace=twenty_spans(0)))])
    print()
    for shared_up_to, what in ((0, "its graphs are new"), (measures.SHARED_UP_TO, "another had its graphs")):
        measures.SHARED_UP_TO = shared_up_to
        taken = []
        for start in range(0, TRACES, 100):
            batch = [
                (case, Attempt(case="1", trace=msgspec.structs.replace(trace)))
                for trace in traces[start : start + 100]
            ]
            started = time.perf_counter()
            score_attempts(scorers, batch)
            taken.append((time.perf_counter() - started) / len(batch))
        middle = statistics.median(taken)
        metrics = f"{len(TRACE_METRICS)} metrics on a trace of 20 spans"
        print(f"{metrics}, if {what}: {middle * 1e6:,.0f} µs, {1 / middle:,.0f} a second")
    again = [trace.spans for trace in traces]
    repair = median_us([lambda: [normalise(spans) for spans in again]], 5)[0] / TRACES
    print(f"making and repairing it: {made / TRACES * 1e6:,.1f} µs; finding it sound: {repair:,.1f} µs")


def process_trace(spans: int) -> Trace:
    """Agents under one another, each with calls that overlap, repeat and loop, and hand-offs."""
    rng = Random(spans)
    made = [Span(id="0", kind="agent", name="manager", start=0.0, end=2.0 * spans)]
    messages = []
    agent = 0
    for number in range(1, spans):
        start = 2.0 * number + rng.random()
        fields: Any = {"parent": str(agent), "start": start, "end": start + 5 * rng.random()}
        if number % 10 == 1:
            agent = number
            names = ("manager", f"agent {number % 4}")
            messages.append(Message(sender=names[0], receiver=names[1], type="handoff", time=start))
            messages.append(Message(sender=names[1], receiver=names[0], type="handoff", time=start + 1))
            fields |= {"parent": "0", "end": start + 25.0}
            made.append(Span(id=str(number), kind="agent", name=names[1], **fields))
        elif number % 10 in (2, 5):
            made.append(Span(id=str(number), kind="llm", name="model", **fields))
        else:
            asks = {"q": 1 if number % 100 < 50 else rng.randrange(1_000)}
            ok = rng.random() > 0.1
            made.append(
                Span(id=str(number), kind="tool", name=f"tool {number % 5}", input=asks, ok=ok, **fields)
            )
    return normalise(made, messages)


PROCESS_STEPS: dict[str, Callable[[Process], Any]] = {
    "critical path": lambda process: process.path,
    "time by agent, tool, kind": lambda process: (process.by_agent, process.by_tool, process.by_kind),
    "parallel sections": lambda process: process.concurrency.sections,
    "retries and repeats": lambda process: process.repeats.repeated,
    "loops": lambda process: process.repeats.looped,
    "hand-offs and their loops": lambda process: (process.hand_offs, process.circuits),
    "unfinished": lambda process: process.unfinished,
}


def processes() -> None:
    """What traces tell of how they went: each step by itself, what it needs included, and all of it."""

    def everything(process: Process) -> None:
        for step in PROCESS_STEPS.values():
            step(process)

    many = [process_trace(50) for _ in range(sized(1_000, 5))]
    one = [process_trace(sized(50_000, 100))]
    print(f"\nhow traces went{'1,000 × 50 spans, ms':>40}{'1 × 50,000 spans, ms':>24}")
    for name, step in {**PROCESS_STEPS, "all of it": everything}.items():
        taken = []
        for traces in (many, one):
            times = []
            for _ in range(3):
                started = time.process_time()
                for trace in traces:
                    step(Process(trace))
                times.append(time.process_time() - started)
            taken.append(statistics.median(times) * 1e3)
        print(f"  {name:<30}{taken[0]:>23,.0f}{taken[1]:>24,.0f}")


def main() -> None:
    """Print the tables."""
    for n in ROUNDS:
        compare(n)
    whole_tier()
    processes()


if __name__ == "__main__":
    main()
