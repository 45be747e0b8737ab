"""The figures of selective prediction by name, under any weights (spec: metrics, S.1 to S.8)."""

import re
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.errors import TrustError, suggest
from trivium.trust.resampling import CHUNK, Counts, chunk_size
from trivium.trust.selective.ideals import lower_hull_areas, optimal_areas
from trivium.trust.selective.items import Items
from trivium.trust.selective.ranking import Ranking
from trivium.trust.selective.sweep import sweep

Floats = npt.NDArray[np.float64]

PLAIN = (
    "cmax",
    "aurc",
    "augrc",
    "aurc_per_cmax",
    "augrc_per_cmax",
    "aurc_optimal",
    "augrc_optimal",
    "eaurc",
    "eaugrc",
    "aurc_achievable",
)
"""Figures without an argument; ``aurc_at_0.5``, ``augrc_at_0.5``, ``mae_at_0.3`` name a coverage too."""

COMMON = ("aurc_common", "augrc_common")
"""Areas up to the coverage that both sides of a comparison reach."""

_COUNTS_AT_ONCE = 8 * CHUNK
_AT = re.compile(r"(aurc|augrc|mae)_at_([0-9.eE+-]{1,40})")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Names of figures, read.

    Attributes:
        names: As given.
        keys: The same with every coverage written in one way.
        areas: Coverages up to which areas are wished.
        risks: Coverages at which the risk is wished.
    """

    names: tuple[str, ...]
    keys: tuple[str, ...]
    areas: tuple[float, ...]
    risks: tuple[float, ...]

    @classmethod
    def of(cls, names: Sequence[str], *, common: float | None = None) -> "Wanted":
        """Read names of figures.

        Args:
            names: Of the figures.
            common: The coverage that ``aurc_common`` and ``augrc_common`` stand for.

        Raises:
            TrustError: If there is no such figure, with the nearest one.
        """
        known = PLAIN if common is None else PLAIN + COMMON
        shares: dict[str, list[float]] = {"aurc": [], "augrc": [], "mae": []}
        keys = []
        for name in names:
            spelt = name.replace("_common", f"_at_{common!r}") if name in COMMON and common else name
            found = _AT.fullmatch(spelt)
            if found:
                shares[found[1]].append(_share(name, found[2]))
                keys.append(f"{found[1]}_at_{shares[found[1]][-1]!r}")
            elif name in known:
                keys.append(name)
            else:
                forms = "aurc_at_C, augrc_at_C, mae_at_C"
                raise TrustError(
                    f"no figure is called {name!r}.{suggest(name, known)} known: {', '.join(known)}, {forms}"
                )
        return cls(
            names=tuple(names),
            keys=tuple(keys),
            areas=tuple(dict.fromkeys(shares["aurc"] + shares["augrc"])),
            risks=tuple(dict.fromkeys(shares["mae"])),
        )


class Weighing:
    """Figures of items under any weights of their groups.

    Args:
        items: The items.
        wanted: The figures.

    Attributes:
        at_once: Weightings that are best asked for at a time.
    """

    def __init__(self, items: Items, wanted: Wanted) -> None:
        kept, groups = items.predicted, items.groups.count
        codes, loss, confidence = items.groups.codes[kept], items.loss[kept], items.confidence[kept]
        self.wanted = wanted
        self.sizes = np.bincount(items.groups.codes, minlength=groups).astype(np.float64)
        needs_best = any(name.endswith("_optimal") or name.startswith("e") for name in wanted.names)
        self.at_once = chunk_size(groups, counts_at_once=_COUNTS_AT_ONCE)
        if needs_best or np.unique(confidence).size < confidence.size:
            self.at_once = chunk_size(groups)  # shared working points need the counts as floats
        if "aurc_achievable" in wanted.names:
            self.at_once = min(self.at_once, chunk_size(codes.size + 1))  # the hull needs every point at once
        at_once = self.at_once
        self.curve = Ranking.of(codes, loss, -confidence, groups=groups, at_once=at_once)
        self.best = Ranking.of(codes, loss, loss, groups=groups, at_once=at_once) if needs_best else None

    def figures(self, weights: Counts, *, empty_is_zero: bool = False) -> Floats:
        """The figures under each weighting, shape (figures, b); NaN where undefined.

        Args:
            weights: How often each group counts, shape (groups, b).
            empty_is_zero: Whether the areas are 0 where nothing is predicted; else they are undefined.
        """
        n_items = np.einsum("g,gb->b", self.sizes, weights)
        areas, risks = self.wanted.areas, self.wanted.risks
        swept = sweep(self.curve, weights, n_items=n_items, area_to=areas, risk_at=risks)
        found = {"cmax": swept.cmax, "aurc": swept.aurc, "augrc": swept.augrc}
        for share, aurc, augrc in zip(areas, swept.aurc_to, swept.augrc_to, strict=True):
            found[f"aurc_at_{share!r}"], found[f"augrc_at_{share!r}"] = aurc, augrc
        if self.best is not None:
            found["aurc_optimal"], found["augrc_optimal"] = optimal_areas(self.best, weights, n_items=n_items)
            found["eaurc"] = found["aurc"] - found["aurc_optimal"]
            found["eaugrc"] = found["augrc"] - found["augrc_optimal"]
        if "aurc_achievable" in self.wanted.names:
            found["aurc_achievable"] = lower_hull_areas(self.curve, weights, n_items=n_items)
        if empty_is_zero:
            found = {name: np.where(swept.cmax == 0, 0.0, values) for name, values in found.items()}
        with np.errstate(invalid="ignore", divide="ignore"):
            found["aurc_per_cmax"] = found["aurc"] / swept.cmax
            found["augrc_per_cmax"] = found["augrc"] / swept.cmax
        found |= {f"mae_at_{s!r}": risk for s, risk in zip(risks, swept.risk_at, strict=True)}
        return np.stack([found[key] for key in self.wanted.keys])


def _share(name: str, text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = np.nan
    if not 0 < share <= 1:
        what = "target_coverage" if name.startswith("mae") else "max_coverage"
        raise TrustError(f"{name}: {what} must be in (0, 1]; found {text}")
    return share
