"""Gathering: the edges and times of two runs by case, in columns, over the attempts that both have."""

from array import array

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.runs.comparing.graphs.edges import Edge, Step, edges_of, paces_of
from trivium.runs.run import Run

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Key = tuple[str, int]


class _Side:
    """One run: rows are its attempts with a trace; of each edge and step only the rows that have it."""

    def __init__(self, run: Run) -> None:
        self.rows: dict[Key, int] = {}
        self.bare: set[Key] = set()
        self.edges: dict[Edge, tuple[array[int], array[int]]] = {}
        self.paces: dict[Step, tuple[array[int], array[float]]] = {}
        for outline in run.store.attempt_outlines(run.record):
            key = (outline.case, outline.repeat)
            trace = outline.steps
            if trace is None:
                self.bare.add(key)
                continue
            row = self.rows[key] = len(self.rows)
            for edge, count in edges_of(trace).items():
                if edge not in self.edges:
                    self.edges[edge] = (array("q"), array("q"))
                self.edges[edge][0].append(row)
                self.edges[edge][1].append(count)
            for step, seconds in paces_of(trace).items():
                if step not in self.paces:
                    self.paces[step] = (array("q"), array("d"))
                self.paces[step][0].append(row)
                self.paces[step][1].append(seconds)


class EdgeColumns(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """An edge by case: mean number of times an attempt, shape (cases,), and attempts that have it."""

    base: Floats
    head: Floats
    with_base: int
    with_head: int


class PairedGraphs:
    """What both runs did in the attempts that both have, by case.

    Attributes:
        attempts: Pairs with a trace on both sides.
        without_trace: Pairs of which one side has none.
        groups: Code 0 … G - 1 of the cluster of each case, shape (cases,).

    Args:
        base: One run.
        head: The other.
        clusters: Cluster of every case of head.
    """

    def __init__(self, base: Run, head: Run, *, clusters: dict[str, str]) -> None:
        self._base, self._head = _Side(base), _Side(head)
        keys = [key for key in self._head.rows if key in self._base.rows]
        self.attempts = len(keys)
        ours, theirs = self._base, self._head
        self.without_trace = len(
            (ours.bare & (theirs.bare | theirs.rows.keys())) | (theirs.bare & ours.rows.keys())
        )
        places = {case: place for place, case in enumerate(dict.fromkeys(case for case, _ in keys))}
        self._sizes = np.zeros(len(places))
        self._case_of = {side: np.full(len(side.rows), -1, np.int64) for side in (ours, theirs)}
        for key in keys:
            place = places[key[0]]
            self._sizes[place] += 1
            for side, cases in self._case_of.items():
                cases[side.rows[key]] = place
        codes = {name: code for code, name in enumerate(dict.fromkeys(clusters[case] for case in places))}
        self.groups: Ints = np.fromiter((codes[clusters[case]] for case in places), np.int64, len(places))

    @property
    def edges(self) -> dict[Edge, None]:
        """Every edge of either run."""
        return dict.fromkeys([*self._head.edges, *self._base.edges])

    @property
    def steps(self) -> dict[Step, None]:
        """Every tool and agent that has times in both runs."""
        return {step: None for step in self._head.paces if step in self._base.paces}

    def edge(self, edge: Edge) -> EdgeColumns:
        """An edge by case."""
        base, with_base = self._counts(self._base, edge)
        head, with_head = self._counts(self._head, edge)
        return EdgeColumns(base=base, head=head, with_base=with_base, with_head=with_head)

    def _counts(self, side: _Side, edge: Edge) -> tuple[Floats, int]:
        rows, counts = side.edges.get(edge, (array("q"), array("q")))
        cases = self._case_of[side][np.frombuffer(rows, np.int64) if rows else np.zeros(0, np.int64)]
        paired = cases >= 0
        weights = np.array(counts, np.float64)[paired]
        sums = np.bincount(cases[paired], weights=weights, minlength=len(self._sizes))
        return sums / self._sizes, int(np.count_nonzero(paired))

    def pace(self, step: Step) -> tuple[Floats, Floats]:
        """Median time by case in base and in head, NaN where a case has none, shape (cases,)."""
        return self._times(self._base, step), self._times(self._head, step)

    def _times(self, side: _Side, step: Step) -> Floats:
        rows, seconds = side.paces[step]
        cases = self._case_of[side][np.frombuffer(rows, np.int64)]
        found = np.full(len(self._sizes), np.nan)
        order = np.lexsort((np.array(seconds), cases))
        order = order[cases[order] >= 0]
        met, starts, sizes = np.unique(cases[order], return_index=True, return_counts=True)
        risen = np.array(seconds)[order]
        # Sorted within each case: its median lies in the middle.
        found[met] = (risen[starts + (sizes - 1) // 2] + risen[starts + sizes // 2]) / 2
        return found
