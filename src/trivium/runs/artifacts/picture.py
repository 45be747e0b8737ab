"""What a picture of a risk-coverage curve needs beside the curve itself."""

from typing import Any

import numpy as np

from trivium.runs.artifacts.variant import ends
from trivium.trust.estimates import estimate
from trivium.trust.selective.curve import Curve, hull, optimal_curve, risk_coverage
from trivium.trust.selective.items import Items
from trivium.trust.selective.resampled import Plan, bootstrap_figures

STEPS = 20
"""Stretches of coverage that a band is computed for, equally long up to the largest that is reached."""

MOST_POINTS = 200
"""Points that a line is drawn with."""


def picture(items: Items, *, plan: Plan) -> dict[str, Any]:
    """The band of the selective risk, the best ranking and the lower hull; empty lists without predictions.

    Args:
        items: The items.
        plan: How to resample.
    """
    kept = items.predicted
    curve = risk_coverage(items.loss[kept], items.confidence[kept], n_items=items.n)
    if not curve.coverage.size:
        nothing: dict[str, list[float]] = {"coverage": [], "selective_risk": []}
        return {"band": {"coverage": [], "low": [], "high": []}, "optimal": nothing, "lower_hull": nothing}
    best = optimal_curve(items.loss[kept], n_items=items.n)
    some = np.unique(np.linspace(0, best.coverage.size - 1, MOST_POINTS).astype(np.int64))
    below = hull(curve.coverage.tolist(), curve.selective_risk.tolist())
    return {
        "band": _band(items, curve, plan),
        "optimal": {
            "coverage": best.coverage[some].tolist(),
            "selective_risk": best.selective_risk[some].tolist(),
        },
        "lower_hull": dict(zip(("coverage", "selective_risk"), below, strict=True)),
    }


def _band(items: Items, curve: Curve, plan: Plan) -> dict[str, list[float]]:
    """Interval of the mean height of the drawn curve over each stretch, told for its middle.

    The curve is drawn straight between working points, as the area goes; so its height comes from areas.
    """
    shares = [curve.cmax * step / STEPS for step in range(1, STEPS + 1)]
    names = [f"aurc_at_{share!r}" for share in shares]
    found = bootstrap_figures(items, [*names, "cmax"], plan)
    reached = found["cmax"].replicates
    before, start = np.zeros_like(reached), 0.0
    band: dict[str, list[float]] = {"coverage": [], "low": [], "high": []}
    for share, name in zip(shares, names, strict=True):
        area = found[name].replicates
        heights = np.where(reached >= share, (area - before) / (share - start), np.nan)
        interval = ends(
            estimate(
                0.0,  # only the replicates matter here
                heights,
                groups=items.groups.count,
                n=items.n,
                level=plan.level,
                method="percentile" if plan.method == "bca" else plan.method,
            )
        )
        if interval is not None:
            band["coverage"].append((share + start) / 2)
            band["low"].append(interval[0])
            band["high"].append(interval[1])
        before, start = area, share
    return band
