"""Items of the PHQ-8 run artifact among the real data, as arrays; read here with nothing but ``json``."""

import json
from functools import cache
from typing import Any

from tests.goldens import data

ITEMS = ("NoInterest", "Depressed", "Sleep", "Tired", "Appetite", "Failure", "Concentrating", "Moving")


@cache
def predicted(mode: str) -> tuple[list[dict[str, Any]], list[int], list[int], list[int]]:
    """Signals, predictions, truths and participants of the items that have a prediction."""
    run = json.loads(data("phq8_run.json").read_text(encoding="utf-8"))
    results = next(e["results"] for e in run["experiments"] if e["provenance"]["mode"] == mode)["results"]
    rows, pred, truth, groups = [], [], [], []
    for result in results:
        for item in ITEMS if result["success"] else ():
            if result["predicted_items"][item] is not None:
                rows.append(result["item_signals"][item])
                pred.append(result["predicted_items"][item])
                truth.append(result["ground_truth_items"][item])
                groups.append(result["participant_id"])
    return rows, pred, truth, groups
