"""Section of the run in the report: metrics, distributions, gates, costs, provenance."""

from collections.abc import Mapping
from typing import Any

import msgspec
from markupsafe import Markup

from trivium.metrics.evaluation import RECOMMENDATION_WEIGHTS
from trivium.metrics.metric import Score, is_judge_fallback
from trivium.reports import charts, wording
from trivium.reports.document.html import html
from trivium.reports.escape import one_line
from trivium.reports.html.fragments import bar, folded, short, stacked_svg
from trivium.reports.summary import metrics_table, people_table
from trivium.reports.wording import dollars, spent_rows, spent_sentence, whole
from trivium.runs.summary import CompositeFigure, Figure, JudgeCosts, Summary

BINS = 20
RESERVATIONS_SHOWN = 6
"""Reservations that are not folded: the most serious ones."""


class Distribution(msgspec.Struct, kw_only=True):
    """Histogram of a score over 20 equal bins of [0, 1]; the last bin includes 1."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * BINS)

    def add(self, value: float) -> None:
        """Count one value in [0, 1]."""
        self.counts[min(BINS - 1, max(0, int(value * BINS)))] += 1

    @property
    def total(self) -> int:
        """Number of values counted."""
        return sum(self.counts)

    @property
    def worth_drawing(self) -> bool:
        """Whether a histogram shows more than the mean: there are several values, and not all are 0 or 1."""
        return self.total > 1 and any(self.counts[1:-1])


class Distributions:
    """The distribution of every metric and of the composite."""

    def __init__(self) -> None:
        self.by_name: dict[str, Distribution] = {}

    def add(self, scores: dict[str, Score], composite: float | None) -> None:
        """Count the values of one attempt."""
        for name, score in scores.items():
            if score.value is not None and not is_judge_fallback(score):
                self.by_name.setdefault(name, Distribution()).add(score.value)
        if composite is not None:
            self.by_name.setdefault("composite", Distribution()).add(composite)


SPENT_COLUMNS = {
    "requests": "Requests",
    "answered": "Answered",
    "from_cache": "From the cache",
    "input_tokens": "Input tokens",
    "output_tokens": "Output tokens",
}


def overview_context(
    summary: Summary,
    distributions: Mapping[str, Distribution],
    provenance: Mapping[str, Any],
) -> dict[str, Any]:
    """Values for the page's template, except the attempts."""
    shown = wording.measured_metrics(summary)
    return {
        "summary": summary,
        "headline": wording.headline(summary),
        "passed_of": wording.passed_of(summary),
        "pass_range": bar(summary.pass_rate.value, summary.pass_rate.ci95),
        "composite": None if summary.composite is None else _composite(summary.composite),
        "dimensions": wording.further_dimensions(summary),
        "scores": html([metrics_table(summary, shown, details=True)]) if shown else "",
        "unmeasured": wording.counted_without(summary),
        "unmeasured_names": [one_line(name) for name in wording.without_anything(summary)],
        "agent": None if summary.agent is None else wording.agent_sentences(summary.agent),
        "made_by": wording.provenance_line(summary),
        "people": html([people_table(summary.human_ceiling)]) if summary.human_ceiling else "",
        "beside_people_note": wording.BESIDE_PEOPLE,
        "note": wording.interval_note(summary),
        "distributions": _histograms(summary, distributions),
        "parts": _parts(summary),
        "recommendations": _recommendations(summary),
        "reservations": list(summary.warnings[:RESERVATIONS_SHOWN]),
        "more_reservations": [*summary.warnings[RESERVATIONS_SHOWN:], *summary.notes],
        "gates": [(gate, wording.gate_sentence(gate)) for gate in summary.gates],
        "accepted_of": wording.accepted_of(summary),
        "acceptance": [wording.acceptance_sentence(*each) for each in summary.acceptance.items()],
        "spent": None if summary.spent is None else _spent(summary.spent),
        "provenance": _flat(provenance),
    }


def _composite(figure: CompositeFigure) -> dict[str, Any]:
    return {
        "figure": figure,
        "range": bar(figure.mean, figure.ci95),
        "sentence": wording.composite_sentence(figure),
        "not_ok": wording.not_ok(figure.status),
    }


def _spent(spent: JudgeCosts) -> dict[str, Any]:
    rows = [
        {
            "kind": kind,
            "name": name,
            "cost": dollars(costs.cost_usd),
            "counts": [whole(getattr(costs, column)) for column in SPENT_COLUMNS],
        }
        for kind, name, costs in spent_rows(spent)
    ]
    return {"sentence": spent_sentence(spent), "rows": rows, "columns": SPENT_COLUMNS.values()}


def _histograms(summary: Summary, distributions: Mapping[str, Distribution]) -> list[dict[str, Any]]:
    figures: dict[str, Figure | CompositeFigure] = dict(summary.metrics)
    if summary.composite is not None:
        figures["composite"] = summary.composite
    drawn = []
    for name, figure in figures.items():
        values = distributions.get(name)
        if values is None or not values.worth_drawing:
            continue
        svg = charts.histogram(values.counts, mean=figure.mean, interval=figure.ci95)
        drawn.append(
            {"name": name, "svg": Markup(svg), "total": values.total, "counts": values.counts}  # noqa: S704
        )
    return drawn


def _parts(summary: Summary) -> list[dict[str, Any]]:
    """The parts of the composite that have a score; a part that is also a metric has its interval."""
    if summary.composite is None:
        return []
    rows = []
    for name, mean in summary.composite.parts.items():
        if mean is not None:
            figure = summary.metrics.get(name)
            interval = None if figure is None else figure.ci95
            part = {"name": one_line(name), "mean": mean, "interval": interval}
            rows.append(part | {"range": bar(mean, interval)})
    return rows


def _recommendations(summary: Summary) -> dict[str, Any] | None:
    """The recommendations as one bar, with their numbers; None if no attempt has one."""
    counts = {} if summary.composite is None else summary.composite.recommendations
    counts = {name: count for name, count in counts.items() if count}
    if not counts:
        return None
    places = {name: place for place, name in enumerate(RECOMMENDATION_WEIGHTS)}  # the best first
    rows = sorted(counts.items(), key=lambda row: places.get(row[0], len(places)))
    keys = [(f"level-{places.get(name, len(places))}", wording.words(one_line(name)), n) for name, n in rows]
    bar = Markup(stacked_svg([(key, count) for key, _, count in keys]))  # noqa: S704 - our own names
    return {"bar": bar, "rows": keys}


def _flat(provenance: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Nested mappings as dotted names; long lists and texts as folded values."""
    rows: list[tuple[str, Any]] = []
    waiting: list[tuple[str, Any]] = list(provenance.items())[::-1]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Mapping) and value and name.count(".") < 2:
            waiting += [(f"{name}.{key}", inner) for key, inner in list(value.items())[::-1]]
        elif isinstance(value, (str, int, float, bool)) or value is None:
            rows.append((name, wording.NOTHING if value is None else short(value)))
        else:
            rows.append((name, folded(value)))
    return rows
