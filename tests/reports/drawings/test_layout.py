import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from trivium.reports.drawings.layout import GAP_ACROSS, PASSAGE, _place_row, layered

HEIGHT = 38.0


@st.composite
def walks(draw):
    """Nodes in order of first appearance and the edges of a walk over them."""
    tools = draw(st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=25))
    walk = ["START", *tools, "END"]
    nodes = dict.fromkeys(node for node in walk if node != "END") | {"END": None}
    edges = {edge for edge in itertools.pairwise(walk) if edge[0] != edge[1]}
    widths = {node: draw(st.floats(40, 200)) for node in nodes}
    return widths, sorted(edges)


@given(walks())
def test_no_node_covers_another(walk):
    widths, edges = walk
    layout = layered(widths, edges, node_height=HEIGHT)
    for one, other in itertools.combinations(widths, 2):
        (x1, y1), (x2, y2) = layout.centres[one], layout.centres[other]
        apart = abs(x1 - x2) >= (widths[one] + widths[other]) / 2 + GAP_ACROSS - 1e-6
        assert apart or abs(y1 - y2) >= HEIGHT


@given(walks())
def test_everything_lies_inside_the_drawing(walk):
    widths, edges = walk
    layout = layered(widths, edges, node_height=HEIGHT)
    for node, (x, y) in layout.centres.items():
        assert widths[node] / 2 <= x <= layout.width - widths[node] / 2
        assert HEIGHT / 2 <= y <= layout.height - HEIGHT / 2
    for route in layout.routes.values():
        assert all(0 <= x <= layout.width and 0 <= y <= layout.height for x, y in route)


@given(walks())
def test_every_edge_runs_from_the_rim_of_its_source_to_the_rim_of_its_target(walk):
    widths, edges = walk
    layout = layered(widths, edges, node_height=HEIGHT)
    assert set(layout.routes) == set(edges)
    for (source, target), route in layout.routes.items():
        for node, (x, y) in ((source, route[0]), (target, route[-1])):
            centre_x, centre_y = layout.centres[node]
            assert abs(y - centre_y) == pytest.approx(HEIGHT / 2)
            assert abs(x - centre_x) <= widths[node] / 2


@given(walks())
def test_the_start_is_on_top_and_the_end_at_the_bottom(walk):
    widths, edges = walk
    layout = layered(widths, edges, node_height=HEIGHT, last="END")
    heights = {node: y for node, (_, y) in layout.centres.items()}
    assert all(
        heights["START"] < y < heights["END"] for node, y in heights.items() if node not in {"START", "END"}
    )


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")), max_size=20))
def test_no_edge_runs_between_nodes_at_one_height(pairs):
    edges = sorted({pair for pair in pairs if pair[0] != pair[1]})
    centres = layered(dict.fromkeys("abcdefgh", 50.0), edges, node_height=HEIGHT).centres
    assert all(centres[source][1] != centres[target][1] for source, target in edges)


def test_layers_of_a_graph_without_cycles_are_its_longest_paths():
    graph = nx.gn_graph(12, seed=3).reverse()
    order = [str(node) for node in nx.topological_sort(graph)]
    edges = [(str(a), str(b)) for a, b in graph.edges]
    layout = layered(dict.fromkeys([*order, "END"], 50.0), edges, node_height=HEIGHT)
    for depth, generation in enumerate(nx.topological_generations(graph)):
        rows = {round(layout.centres[str(node)][1] / (HEIGHT + 46)) for node in generation}
        assert rows == {depth}


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-500, 500), st.floats(0.5, 10)), min_size=1, max_size=12))
def test_a_row_is_fitted_as_isotonic_regression_does(wanted):
    row = [("u", "v", place) for place in range(len(wanted))]
    fitted = list(_place_row(row, wanted, {}).values())
    offsets = np.arange(len(wanted)) * (PASSAGE + GAP_ACROSS)
    at, weights = np.array(wanted).T
    expected = IsotonicRegression().fit_transform(np.arange(len(wanted)), at - offsets, sample_weight=weights)
    assert fitted == pytest.approx(list(expected + offsets), abs=1e-6)


def test_a_chain_is_drawn_upright():
    nodes = dict.fromkeys("abcdef", 80.0)
    layout = layered(nodes, list(itertools.pairwise("abcdef")), node_height=HEIGHT)
    assert len({round(x, 6) for x, _ in layout.centres.values()}) == 1
