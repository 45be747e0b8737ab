"""How often a certificate is broken if the confidence was fitted on the labels that certify it.

    python benchmarks/certificates.py [worlds per row, default 300]

In each world some verdicts are labelled and a confidence is fitted on them. ``certify`` looks for a threshold
with at most 10 % wrong above it; this promise may be broken in at most 10 of 100 worlds. It is broken if the
error rate of further verdicts above the threshold is larger, which is known exactly or computed from 20,000
of them.

"noise": ten features without information, so the error rate is the same above every threshold. "signal": two
of the ten features are informative. A logistic calibrator on all ten gives the confidence in three ways:

    own labels     the calibrator fitted on all labels, applied to the same labels
    out of fold    as in Trivium: the model that gives a label's confidence is fitted without its group
    other labels   a calibrator fitted on as many other labels

"AURC" is the mean area under the risk-coverage curve of the labels with these confidences; "true" is that of
the calibrator fitted on all labels, on 20,000 further verdicts.

The signal with the best AUROC on the labels is chosen from five: certified as if it had been named
beforehand, and with delta divided by five. The Monte Carlo error is ±3.4 points with 300 worlds.

First, worlds in which few groups hold most verdicts: one in a hundred holds 30, 90 % of them wrong, or two
in a hundred hold 30, half of them wrong; the others hold one, which is right. The largest group is taken from
the labels, from all items of a run with ten times as many groups, or it is stated. The promise is about the
world, for "run" about the verdicts of the run. Errors are two standard errors.

Then, how often something is certified with the number of labels that ``labels_needed`` named for a pilot of
60 in which nothing was: the pilot and further groups drawn from it, with their confidences ("as they are"),
or with confidences that say nothing ("shuffled"), as may be true where the pilot's order was luck.
"""

import sys
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from trivium.trust.calibration.fitting import fit_calibrator
from trivium.trust.calibration.quality import auroc
from trivium.trust.certification import certify, labels_needed
from trivium.trust.selective.curve import aurc, risk_coverage

Floats = npt.NDArray[np.float64]

EPSILON = DELTA = 0.1
FEATURES, SIGNALS = 10, 5
FURTHER = 20_000
NAMES = [f"feature_{number}" for number in range(FEATURES)]


class World:
    """Verdicts whose error depends on none or on the first two of their features."""

    def __init__(self, seed: int, error: float, weight: float) -> None:
        self._rng, self._error, self._weight = np.random.default_rng(seed), error, weight

    def draw(self, n: int) -> tuple[Floats, Floats]:
        """Features, shape (n, 10), and whether each verdict is wrong."""
        x = self._rng.normal(size=(n, FEATURES))
        odds = np.log(self._error / (1 - self._error)) - self._weight * (x[:, 0] + 0.5 * x[:, 1])
        return x, (self._rng.random(n) < 1 / (1 + np.exp(-odds))).astype(np.float64)

    def broken(self, confidence: Callable[[Floats], Floats], threshold: float) -> bool:
        """Whether further verdicts above a threshold are wrong more often than was promised."""
        if not self._weight:
            return self._error > EPSILON
        x, wrong = self.draw(FURTHER)
        accepted = confidence(x) >= threshold
        return bool(accepted.any() and wrong[accepted].mean() > EPSILON)


LARGEST = 30
"""Verdicts of a large group."""

Grouped = tuple[Floats, Floats, npt.NDArray[np.int64]]

Outcome = tuple[bool, bool, float]
"""Whether something is certified, whether that is broken, and the area under the curve."""


def area(wrong: Floats, confidence: Floats) -> float:
    """AURC of verdicts ranked by a confidence."""
    return aurc(risk_coverage(wrong, confidence, n_items=wrong.size)) or 0.0


def calibrated(world: World, n: int) -> dict[str, Outcome]:
    """The outcome for each way to get the confidence of a calibrator."""
    (x, wrong), (other, other_wrong) = world.draw(n), world.draw(n)
    fitted = fit_calibrator("logistic", x, 1 - wrong, features=NAMES, groups=range(n))
    further = fit_calibrator("logistic", other, 1 - other_wrong, features=NAMES, groups=range(n))
    ways = {
        "own labels": (fitted.apply(x), fitted.apply),
        "out of fold": (fitted.apply_out_of_fold(x, range(n))[0], fitted.apply),
        "other labels": (further.apply(x), further.apply),
    }
    found = {}
    for way, (sure, confidence) in ways.items():
        made = certify(wrong, sure, range(n), epsilon=EPSILON, delta=DELTA)
        threshold = made.threshold
        broken = threshold is not None and world.broken(confidence, threshold)
        found[way] = threshold is not None, broken, area(wrong, sure)
    x, wrong = world.draw(FURTHER)
    return found | {"true": (False, False, area(wrong, fitted.apply(x)))}


def best_of_five(world: World, n: int) -> dict[str, Outcome]:
    """The same for the signal with the best AUROC on the labels."""
    x, wrong = world.draw(n)
    figures = [auroc(x[:, place], 1 - wrong) or 0.0 for place in range(SIGNALS)]
    best = int(np.argmax(figures))
    found = {}
    for way, delta in (("as if named", DELTA), ("delta / 5", DELTA / SIGNALS)):
        threshold = certify(wrong, x[:, best], range(n), epsilon=EPSILON, delta=delta).threshold
        broken = threshold is not None and world.broken(lambda more: more[:, best], threshold)
        found[way] = threshold is not None, broken, area(wrong, x[:, best])
    return found


def rare_large_groups(rng: np.random.Generator, groups: int, rare: float, error: float) -> Grouped:
    """Whether each verdict is wrong, its confidence, which says nothing, and its group."""
    sizes = np.where(rng.random(groups) < rare, LARGEST, 1)
    codes = np.repeat(np.arange(groups), sizes)
    return (
        ((rng.random(codes.size) < error) & (sizes[codes] > 1)).astype(float),
        rng.random(codes.size),
        codes,
    )


def group_table(worlds: int) -> list[str]:
    """How often a certificate over groups is broken, by what the largest group is taken from, in per cent."""
    lines = [
        f"{'large groups':26} {'labelled':>8} " + "".join(f"{way:>14}" for way in ("labels", "run", "stated"))
    ]
    for rare, error in ((0.01, 0.9), (0.02, 0.5)):
        for groups in (40, 80, 160):
            broken = np.zeros(3)
            for seed in range(worlds):
                rng = np.random.default_rng([seed, groups])
                wrong, sure, codes = rare_large_groups(rng, 10 * groups, rare, error)
                labelled = codes < groups
                rows = wrong[labelled], sure[labelled], codes[labelled]
                largest = int(np.bincount(codes).max())
                for place, size in enumerate((None, largest, LARGEST)):
                    found = certify(*rows, epsilon=EPSILON, delta=DELTA, group_size=size)
                    if found.threshold is not None:
                        broken[place] += place != 1 or wrong[sure >= found.threshold].mean() > EPSILON
            shares = 100 * broken / worlds
            errors = 2 * np.sqrt(shares * (100 - shares) / worlds)
            shown = "".join(f"{f'{s:.1f} ± {e:.1f}':>14}" for s, e in zip(shares, errors, strict=True))
            lines.append(f"{f'{100 * rare:g} %, {100 * error:g} % wrong':26} {groups:8} {shown}")
    return lines


PILOTS = {
    "5 % wrong, all equally sure": (0.05, "equal", 1),
    "5 % wrong, confidence says nothing": (0.05, "random", 1),
    "8 % wrong, confidence tells": (0.08, "tells", 1),
    "5 % wrong, in groups of 3": (0.05, "random", 3),
}


def pilot(rng: np.random.Generator, error: float, kind: str, size: int) -> Grouped:
    """60 labelled verdicts; those of a group are alike."""
    codes = np.repeat(np.arange(60 // size), size)
    sure = np.full(60, 0.5) if kind == "equal" else rng.random(60)
    chance = rng.beta(4 * error, 4 * (1 - error), 60)[codes] if size > 1 else np.full(60, error)
    if kind == "tells":
        chance = 3 * error * (1 - sure) ** 2
    return (rng.random(60) < chance).astype(float), sure, codes


def needed_table(worlds: int) -> list[str]:
    """How often as many labels as are named certify something, in per cent."""
    lines = [f"{'pilot of 60':36} {'labels':>8} {'as they are':>14} {'shuffled':>14}"]
    for name, plan in PILOTS.items():
        named, reached = [], []
        for seed in range(worlds // 5):
            rng = np.random.default_rng([seed, 4])
            wrong, sure, codes = pilot(rng, *plan)
            made = certify(wrong, sure, codes)
            needed = labels_needed(wrong, sure, codes, made)
            if needed is None:
                continue
            named.append(needed)
            for _ in range(5):
                drawn = rng.integers(0, codes.max() + 1, (needed - 60) // plan[2])
                rows = np.append(np.arange(60), (drawn[:, None] * plan[2] + np.arange(plan[2])).ravel())
                groups = np.arange(rows.size) // plan[2]
                ways = sure[rows], rng.permutation(sure[rows])
                reached.append([certify(wrong[rows], each, groups).threshold is not None for each in ways])
        if named:
            shares = 100 * np.mean(reached, axis=0)
            lines.append(f"{name:36} {np.median(named):8.0f} {shares[0]:14.1f} {shares[1]:14.1f}")
    return lines


def table(worlds: int) -> list[str]:
    """The rows that are printed: certified and broken in per cent of the worlds."""
    lines = [f"{'world':22} {'confidence':14} {'certified':>9} {'broken':>7} {'AURC':>6}"]
    plans = [
        ("noise", 100, 0.15, 0.0),
        ("noise", 200, 0.13, 0.0),
        ("noise", 100, 0.11, 0.0),
        ("signal", 300, 0.1, 1.5),
    ]
    for kind, n, error, weight in plans:
        for study in (calibrated, best_of_five):
            rows: dict[str, list[Outcome]] = {}
            for seed in range(worlds):
                for way, outcome in study(World(seed, error, weight), n).items():
                    rows.setdefault(way, []).append(outcome)
            for way, outcomes in rows.items():
                certified, broken, mean = np.mean(np.array(outcomes), axis=0)
                shares = f"{100 * certified:8.1f}% {100 * broken:6.1f}%" if way != "true" else f"{'':17}"
                lines.append(f"{f'{kind}, n={n}, {error:g}':22} {way:14} {shares} {mean:6.3f}")
    return lines


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    print("\n".join([*group_table(count), "", *needed_table(count), "", *table(count)]))
