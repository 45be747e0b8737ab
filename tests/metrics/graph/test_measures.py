"""Measures: equal to NetworkX, on the goldens and on graphs of every shape."""

from statistics import mean

import networkx as nx
import pytest
from hypothesis import given

from tests.goldens import golden
from tests.metrics.graph import peer
from tests.strategies import graphs
from trivium.metrics.graph.measures import (
    EXACT_BETWEENNESS,
    EXACT_DISTANCES,
    SHARED_UP_TO,
    SOURCES,
    IndexGraph,
    estimated_betweenness,
)

MEASURES = (
    "average_shortest_path",
    "betweenness",
    "branching_factor",
    "closeness",
    "clustering",
    "degree",
    "diameter",
    "global_efficiency",
    "simple_cycles",
)


def near(value, tolerance=1e-12):
    return None if value is None else pytest.approx(value, abs=tolerance, rel=0)


def test_every_golden_graph_measures_as_networkx_measured_it():
    for line in golden("graphs.jsonl"):
        indexed = IndexGraph.of(line["nodes"], [tuple(edge) for edge in line["edges"]])
        assert (indexed.n, len(indexed.edges)) == (line["n_nodes"], line["n_edges"])
        assert indexed.betweenness.values == near(line["betweenness"])
        assert indexed.closeness == near(line["closeness"])
        assert indexed.degree == near(line["degree"])
        assert indexed.average_shortest_path == near(line["avg_shortest_path"])
        assert indexed.branching_factor == near(line["branching_factor"])
        assert indexed.clustering == near(line["clustering"])
        assert bool(indexed.simple_cycles.count) == line["has_cycle"]
        longest, connected = indexed.diameter
        assert connected == bool(line["undirected_connected"])
        largest = max((size for size, _ in line["component_size_diameter"]), default=None)
        assert longest == max(
            (d for size, d in line["component_size_diameter"] if size == largest), default=None
        )


def test_every_golden_walk_has_the_shortest_path_that_was_computed():
    for line in golden("graphs.jsonl"):
        place = {node: index for index, node in enumerate(line["nodes"])}
        indexed = IndexGraph.of(line["nodes"], [tuple(edge) for edge in line["edges"]])
        for path in line["paths"]:
            walk = path.get("walk") or [path["source"], path["target"]]
            source, target = place[walk[0]], place[walk[-1]]
            assert indexed.hops(source, target) == path["shortest"]


@given(graphs(), graphs())
def test_graphs_that_traces_share_measure_as_graphs_of_their_own(first, second):
    for n, edges in (first, second, first):
        shared, own = IndexGraph.shared(n, tuple(edges)), IndexGraph(n, edges)
        assert [getattr(shared, each) for each in MEASURES] == [getattr(own, each) for each in MEASURES]


@pytest.mark.parametrize(("n", "kept"), [(SHARED_UP_TO, True), (SHARED_UP_TO + 1, False)])
def test_only_small_graphs_are_kept_for_other_traces(n, kept):
    edges = tuple(ring(n))
    assert (IndexGraph.shared(n, edges) is IndexGraph.shared(n, edges)) is kept


@given(graphs())
def test_measures_equal_networkx(drawn):
    n, edges = drawn
    indexed, graph = IndexGraph(n, edges), peer.digraph(n, edges)
    assert indexed.betweenness.values == near(list(nx.betweenness_centrality(graph).values()))
    assert indexed.closeness == near(list(nx.closeness_centrality(graph).values()))
    assert indexed.degree == near(list(nx.degree_centrality(graph).values()))
    assert indexed.average_shortest_path == near(peer.average_shortest_path(graph))
    assert indexed.clustering == near(nx.average_clustering(graph.to_undirected()))
    assert indexed.global_efficiency == near(nx.global_efficiency(graph.to_undirected()))
    assert indexed.diameter == peer.diameter(graph)
    out = [d for _, d in graph.out_degree() if d]
    assert indexed.branching_factor == (mean(out) if out else None)


@given(graphs(most_nodes=6))
def test_cycles_equal_networkx_and_the_shortest_is_one_of_them(drawn):
    n, edges = drawn
    found = IndexGraph(n, edges).simple_cycles
    cycles = list(nx.simple_cycles(peer.digraph(n, edges)))
    if found.counted_up_to is None:
        assert found.count == len(cycles)
    else:
        assert found.count == found.counted_up_to < len(cycles)
    assert len(found.shortest) == min(map(len, cycles), default=0)
    for source, target in zip(found.shortest, found.shortest[1:] + found.shortest[:1], strict=True):
        assert (source, target) in edges


@given(graphs())
def test_hops_equal_networkx(drawn):
    n, edges = drawn
    lengths = nx.single_source_shortest_path_length(peer.digraph(n, edges), 0)
    assert [IndexGraph(n, edges).hops(0, node) for node in range(n)] == [
        lengths.get(node) for node in range(n)
    ]


def test_no_nodes_measure_nothing():
    empty = IndexGraph(0, [])
    assert empty.average_shortest_path is None
    assert empty.branching_factor is None
    assert empty.clustering is None
    assert empty.diameter == (None, False)
    assert empty.global_efficiency == 0.0


def test_counting_cycles_stops_and_says_where():
    everyone = [(source, target) for source in range(20) for target in range(20) if source != target]
    found = IndexGraph(20, everyone).simple_cycles
    assert found.count == found.counted_up_to == 100
    assert len(found.shortest) == 2
    with_loop = IndexGraph(20, [*everyone, (7, 7)]).simple_cycles
    assert with_loop.shortest == (7,)


def ring(n):
    """Each node leads to the next three."""
    return [(node, (node + step) % n) for node in range(n) for step in (1, 2, 3)]


def test_above_2_000_nodes_betweenness_is_estimated_within_its_standard_error():
    n = EXACT_BETWEENNESS + 1
    found = IndexGraph(n, ring(n)).betweenness
    assert found.sources == SOURCES
    # Every node of a ring is alike: the exact figure is the mean detour over one source's paths.
    lengths = nx.single_source_shortest_path_length(peer.digraph(n, ring(n)), 0)
    exact = sum(d - 1 for d in lengths.values() if d) / ((n - 1) * (n - 2))
    beyond = [abs(v - exact) > 4 * e for v, e in zip(found.values, found.standard_errors, strict=True)]
    assert sum(beyond) < 0.01 * n
    assert mean(found.values) == pytest.approx(exact, rel=0.05)
    assert IndexGraph(n, ring(n)).betweenness == found


def test_estimated_betweenness_equals_networkx_when_every_source_is_asked():
    n, edges = 30, [*ring(30), (0, 15), (3, 21)]
    found = estimated_betweenness(IndexGraph(n, edges), range(n))
    assert found.values == near(list(nx.betweenness_centrality(peer.digraph(n, edges)).values()))
    assert found.standard_errors == near([0.0] * n)


def test_beyond_5_000_nodes_distances_are_estimated_from_sampled_sources():
    n = EXACT_DISTANCES + 1
    indexed = IndexGraph(n, ring(n))
    exact = nx.single_source_shortest_path_length(peer.digraph(n, ring(n)), 0)
    total = sum(exact.values())
    # In a ring every node sees the same distances, so any sample of sources gives the average exactly.
    assert len(indexed.sources) == SOURCES
    assert indexed.average_shortest_path == near(total / (n - 1))
    assert mean(indexed.closeness) == pytest.approx((n - 1) / total, rel=0.05)
    undirected = nx.single_source_shortest_path_length(peer.digraph(n, ring(n)).to_undirected(), 0)
    inverse = sum(1 / d for d in undirected.values() if d) / (n - 1)
    assert indexed.global_efficiency == pytest.approx(inverse)
    assert indexed.diameter == (max(undirected.values()), True)
    assert indexed.simple_cycles.counted_up_to is not None
