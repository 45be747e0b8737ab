"""Figures of a case: what can only be said of all its attempts together (spec: metrics, T3.14)."""

from collections.abc import Iterator
from itertools import groupby

from trivium.metrics.graph.path_agreement import path_agreement
from trivium.metrics.score import Score
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.settings import Settings


def case_figures(store: Store, run: RunRecord, settings: Settings) -> Iterator[tuple[int, dict[str, Score]]]:
    """(position, figures by name) of every case with at least two attempts that have a trace."""
    ignored = frozenset(settings.tools.ignore)
    for position, stored in groupby(store.attempts(run), key=lambda one: one.position):
        traces = [one.attempt.trace for one in stored if not one.attempt.failed]
        sequences = [
            [call.name for call in trace.tool_calls if call.name not in ignored]
            for trace in traces
            if trace is not None
        ]
        if len(sequences) > 1:
            yield position, {"path_agreement": path_agreement(sequences)}
