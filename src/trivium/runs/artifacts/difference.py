"""What an artifact says of the difference of two predictors (spec: metrics, B.2, B.4)."""

from typing import Any

from trivium.runs.artifacts.variant import ends
from trivium.trust.differences import minimum_detectable_effect, signs
from trivium.trust.selective.items import Items
from trivium.trust.selective.resampled import Delta, Plan, bootstrap_deltas

INNER = {
    "aurc_full": "aurc",
    "augrc_full": "augrc",
    "cmax": "cmax",
    "aurc_common": "aurc_common",
    "augrc_common": "augrc_common",
}
"""Figures of a comparison, by their names in the artifact."""


def describe_difference(left: Items, right: Items, *, plan: Plan) -> dict[str, Any]:
    """Right minus left, on the groups that both have and the same resamples of them."""
    deltas = bootstrap_deltas(left, right, list(INNER.values()), plan)
    described: dict[str, Any] = {name: _figure(deltas[inner], plan) for name, inner in INNER.items()}
    reached = min(float(side.predicted.mean()) if side.n else 0.0 for side in (left, right))
    described["common_coverage"] = reached
    described["in_words"] = in_words(described)
    return described


def in_words(described: dict[str, Any]) -> str | None:
    """What the areas say, and whether they still say it at equal coverage; None where nothing is known."""
    coverage = f"{100 * described['common_coverage']:.1f} %"
    said: dict[str, list[str]] = {}
    for name in ("aurc", "augrc"):
        full, common = (_verdict(described[f"{name}_{reach}"]["ci95"]) for reach in ("full", "common"))
        if full is None or common is None:
            continue
        words = f"{full}, in all and up to the common coverage {coverage}"
        if full != common:
            words = (
                f"{full} over all it predicts, but {common} up to the common coverage {coverage}: they "
                "differ in how often they abstain, and abstaining alone lowers the area. Judge by the "
                "common coverage"
            )
        said.setdefault(words, []).append(name.upper())
    return (
        ". ".join(f"{' and '.join(names)} of the second input: {words}" for words, names in said.items())
        or None
    )


def _verdict(ci95: list[float] | None) -> str | None:
    """Lower is better, since the areas are risks."""
    if ci95 is None:
        return None
    if ci95[0] > 0:
        return "worse"
    return "better" if ci95[1] < 0 else "not shown to differ"


def _figure(found: Delta, plan: Plan) -> dict[str, Any]:
    error, sides = found.estimate.std_error, signs(found.estimate.replicates)
    return {
        "delta": found.estimate.point,
        "ci95": ends(found.estimate),
        "left": found.left,
        "right": found.right,
        "std_error": error,
        "drop_rate": found.estimate.drop_rate,
        "share_positive": None if sides is None else float(sides.share_positive),
        "p": None if sides is None else float(sides.p),
        "mde": None if error is None else minimum_detectable_effect(error, level=plan.level),
        "why_none": found.estimate.why_none,
    }
