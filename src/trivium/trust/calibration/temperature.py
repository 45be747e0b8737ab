"""Temperature scaling: one number that makes probabilities bolder or humbler (spec: metrics, S.10)."""

from math import isfinite

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from trivium.errors import TrustError
from trivium.trust.calibration.quality import SMALLEST, checked

Floats = npt.NDArray[np.float64]

COLDEST, HOTTEST = 0.05, 10.0


class Temperature(msgspec.Struct, frozen=True, kw_only=True):
    """sigmoid(logit(p) / T), with p kept 1e-6 away from 0 and 1.

    It keeps the order of the probabilities, so no figure that depends on the order alone (AURC, AUGRC,
    AUROC) can change by it, but for ties where p was nearer than 1e-6 to 0 or 1.

    Attributes:
        temperature: Above 1 makes probabilities humbler, below 1 bolder.
    """

    temperature: float

    def __post_init__(self) -> None:
        if not (isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"temperature must be a number above 0; found {self.temperature}")

    def apply(self, p: npt.ArrayLike) -> Floats:
        """Calibrated probabilities, shape (n,), of probabilities (n,)."""
        inside = np.clip(np.asarray(p, dtype=np.float64), SMALLEST, 1 - SMALLEST)
        return np.asarray(expit(logit(inside) / self.temperature), dtype=np.float64)

    def warnings(self) -> list[str]:
        """What a user must know about this temperature."""
        if self.temperature not in {COLDEST, HOTTEST}:
            return []
        hot = self.temperature == HOTTEST
        says = "says next to nothing about being right" if hot else "parts right from wrong all but perfectly"
        return [f"the temperature ended at its bound, {self.temperature:g}: confidence {says}"]


def fit_temperature(p: npt.ArrayLike, y: npt.ArrayLike) -> Temperature:
    """The temperature in [0.05, 10] with the smallest negative log-likelihood.

    The likelihood is convex in 1 / T, so its slope has at most one root. Where it is flat (every p is 0.5)
    the temperature cannot be told and stays 1.

    Args:
        p: Probabilities, shape (n,), in [0, 1].
        y: Whether each prediction was right, 0 or 1, shape (n,).

    Raises:
        TrustError: If the data are not like that, or there are none.
    """
    # Only a fit needs it, and it is slow to import.
    from scipy.optimize import brentq

    probability, right = checked(p, y)
    if not right.size:
        raise TrustError("a temperature needs at least one prediction to fit on; found none")
    z = logit(np.clip(probability, SMALLEST, 1 - SMALLEST))
    if not z.any():
        return Temperature(temperature=1.0)

    def slope(sharpness: float) -> float:
        return float(z @ (expit(sharpness * z) - right))

    if slope(1 / HOTTEST) >= 0:
        return Temperature(temperature=HOTTEST)
    if slope(1 / COLDEST) <= 0:
        return Temperature(temperature=COLDEST)
    return Temperature(temperature=1 / float(brentq(slope, 1 / HOTTEST, 1 / COLDEST, xtol=1e-14)))
