"""Measures of graphs, equal to NetworkX to 1e-9 and an order of magnitude faster (spec: metrics, T3).

The definitions are NetworkX's; rustworkx and NumPy do the work. Beyond ``EXACT_DISTANCES`` nodes what
needs all distances is estimated from sampled sources, and ``Shape.sources`` says which.
"""

from trivium.metrics.graph.measures.betweenness import EXACT_BETWEENNESS, Betweenness, betweenness
from trivium.metrics.graph.measures.cycles import Cycles, simple_cycles
from trivium.metrics.graph.measures.degrees import branching_factor, clustering, degree
from trivium.metrics.graph.measures.paths import (
    average_shortest_path,
    closeness,
    diameter,
    global_efficiency,
)
from trivium.metrics.graph.measures.shape import EXACT_DISTANCES, SOURCES, Shape

__all__ = [
    "EXACT_BETWEENNESS",
    "EXACT_DISTANCES",
    "SOURCES",
    "Betweenness",
    "Cycles",
    "Shape",
    "average_shortest_path",
    "betweenness",
    "branching_factor",
    "closeness",
    "clustering",
    "degree",
    "diameter",
    "global_efficiency",
    "simple_cycles",
]
