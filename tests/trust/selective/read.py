"""Items out of the lines of the oracles and of the PHQ-8 run artifact, read with nothing but ``json``."""

import json
from collections.abc import Callable, Collection
from functools import cache
from typing import Any

import numpy as np

from tests.goldens import data
from trivium.trust.selective.curve import Curve, hull
from trivium.trust.selective.items import Items, losses

SIGNALS: dict[str, Callable[[dict[str, Any]], float]] = {
    "llm": lambda signals: signals["llm_evidence_count"],
    "token_msp": lambda signals: signals["token_msp"],
    "verbalized": lambda s: (
        0.5 if s["verbalized_confidence"] is None else (s["verbalized_confidence"] - 1) / 4
    ),
}


def number(value: Any) -> float:
    """A number of an oracle; null is NaN and "NaN", "Infinity" are what they say."""
    return np.nan if value is None else float(value)


def items_of(rows: list[list[Any]], loss: str) -> Items:
    """Items from rows [group, item, pred, truth, confidence] on the scale 0:3."""

    def name(row: int) -> str:
        return f"group {rows[row][0]}, item {rows[row][1]}"

    predicted = [row[2] is not None for row in rows]
    lost = losses(
        [number(row[2]) for row in rows],
        [row[3] for row in rows],
        kind=loss,
        scale=(0, 3),
        predicted=predicted,
        name=name,
    )
    sure = [number(row[4]) for row in rows]
    return Items.of([row[0] for row in rows], lost, sure, predicted=predicted, name=name, variant="golden")


@cache
def _run() -> Any:
    return json.loads(data("phq8_run.json").read_text(encoding="utf-8"))


def run_rows(mode: str, confidence: str, among: Collection[int] | None = None) -> list[list[Any]]:
    """Rows of one mode of the run artifact, of participants whose run succeeded."""
    results = next(e["results"] for e in _run()["experiments"] if e["provenance"]["mode"] == mode)["results"]
    return [
        [result["participant_id"], item, result["predicted_items"][item], truth, SIGNALS[confidence](signals)]
        for result in results
        if result["success"] and (among is None or result["participant_id"] in among)
        for item, truth in result["ground_truth_items"].items()
        for signals in [result["item_signals"][item]]
    ]


def lower_hull_aurc(curve: Curve) -> float | None:
    """The area under the lower convex hull of the working points, level before the first of them."""
    if not curve.coverage.size:
        return None
    x, y = hull(curve.coverage.tolist(), curve.selective_risk.tolist())
    return x[0] * y[0] + float(np.trapezoid(y, x))
