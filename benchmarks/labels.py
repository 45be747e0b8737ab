"""How many labels it takes to know the truth to ±0.05, by how they are asked for.

    python -m benchmarks.labels [worlds per row, default 100]

A judge has given a verdict on each item; people label one item after the other, until the 95 % interval of
the true share of all items reaches no further than 0.05 to either side (looked at after every five labels,
from 30). "labels" is the mean over worlds of what uniform classical labels need; the others are in per cent
of that, with the share of worlds in which the interval at that moment holds the truth in brackets.

    classical      uniform labels, the judge ignored
    PPI++          uniform labels and the judge's scores
    ours           labels asked for actively (``next_draw``) and the judge's scores (``active_mean``)
    disagreement   the items of which the judge is least sure, evaluated as if they were a random sample

"ρ²" is the squared correlation between the judge's score and the truth. In the simulated worlds half of 2,000
items are right, and four in five of the judge's errors call a wrong item right. Where its uncertainty
"tells", errors are up to 50 times as frequent at its end as at its beginning; else it says nothing, or the
opposite.

The real verdicts (``../shared/data/paper_verdicts.jsonl``, where it is there) are of 37 pairs of language
model and prompt on 226 papers. Two questions are asked of them, with 1 - confidence as the uncertainty: how
many papers deserve "accept" (the judge's score is its verdict), and how often the judge is right (its score
is its confidence). The items of a world are 2,000 of these verdicts, drawn with replacement.

Then, how far off risk–coverage and calibration are from the same labels, by how they are weighted. And
what is certified ("at most 10 % wrong, with probability 0.9") from 200 labels asked for actively. A
certificate needs equal probabilities: taken from all labels it would be broken too often or hardly ever made.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.sizes import sized
from trivium.trust.active_inference import ActiveMean, active_mean, labelled_items
from trivium.trust.active_sampling import Draw, Sampling, next_draw
from trivium.trust.calibration.quality import probability_quality
from trivium.trust.certification import certify
from trivium.trust.cluster_bootstrap import BootstrapOptions
from trivium.trust.selective.inference import bootstrap_selective_metrics
from trivium.trust.selective.items import Items

Floats = npt.NDArray[np.float64]
World = tuple[Floats, Floats, Floats]
"""Uncertainty, judge's score and truth of each item."""

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "paper_verdicts.jsonl"
REACH = 0.05
FIRST, EVERY = 30, 5
LENIENT = 0.8
"""Share of the judge's errors that call wrong items right."""

ITEMS = sized(2_000, 60)
WAYS = ("classical", "PPI++", "ours", "disagreement")


def simulated(rng: np.random.Generator, rho2: float, tells: str) -> World:
    """A lenient judge of this quality, whose uncertainty says where it errs, nothing, or the opposite."""
    u = rng.random(ITEMS)
    y = (rng.random(ITEMS) < 0.5).astype(np.float64)
    steep = {"tells": np.log(50), "opposite": -np.log(50), "nothing": 0.0}[tells]
    chances = np.exp(steep * u) * np.where(y == 1, 1 - LENIENT, LENIENT)
    lot = rng.random(ITEMS)

    def verdicts(errors: float) -> Floats:
        return np.where(lot < np.minimum(0.75, errors * chances / chances.mean()), 1 - y, y)

    low, high = 0.0, 1.0
    for _ in range(30):  # the error rate with this ρ²
        middle = (low + high) / 2
        correlation = float(np.corrcoef(verdicts(middle), y)[0, 1])
        low, high = (middle, high) if max(0.0, correlation) ** 2 > rho2 else (low, middle)
    return u, verdicts(low), y


def real_worlds() -> dict[str, Callable[[np.random.Generator], World]]:
    """A maker of worlds for both questions about the real verdicts; none without the data."""
    if not DATA.exists():
        return {}
    lines = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if line["confidence"] is not None]
    said, true = (
        np.array([line[key] == "ACCEPT" for line in lines], dtype=np.float64)
        for key in ("prediction", "ground_truth")
    )
    confidence = np.array([line["confidence"] for line in lines], dtype=np.float64)
    reviewed = np.array(["with_reviews" in line["prompt"] for line in lines])

    def maker(score: Floats, truth: Floats, among: npt.NDArray[np.bool_]) -> Callable[..., World]:
        places = np.flatnonzero(among)

        def make(rng: np.random.Generator) -> World:
            drawn = places[rng.integers(0, places.size, ITEMS)]
            return 1 - confidence[drawn], score[drawn], truth[drawn]

        return make

    correct = (said == true).astype(np.float64)
    everything = np.ones(said.size, dtype=bool)
    return {
        "real: papers to accept": maker(said, true, everything),
        "  judges shown the reviews": maker(said, true, reviewed),
        "real: judge is right": maker(confidence, correct, everything),
        "  judges shown the reviews ": maker(confidence, correct, reviewed),
    }


def labels_needed(world: World, way: str, seed: int) -> tuple[int, bool, float]:
    """Labels until the interval is short enough, whether it covers, and ρ²."""
    u, f, y = world
    truth = float(y.mean())
    rho2 = float(np.corrcoef(f, y)[0, 1] ** 2)
    n = y.size
    if way == "classical":
        f = np.zeros(n)
    asked_by = u if way == "ours" else np.zeros(n)
    sampling, answers = Sampling(seed=seed, population=n), {}
    hardest = np.lexsort((np.random.default_rng(seed).random(n), -u))
    found: ActiveMean | None = None
    for label in range(1, n + 1):
        draw: Draw | None = Draw(item=int(hardest[label - 1]), probability=1 / (n - label + 1), how="active")
        if way != "disagreement":
            draw = next_draw(sampling, asked_by, f, answers)
        assert draw is not None
        sampling = sampling.after(draw)
        answers[draw.item] = float(y[draw.item])
        if label < FIRST or label % EVERY:
            continue
        found = active_mean(sampling, f, answers, range(n))
        interval = found.interval_items
        if interval is not None and interval.high - interval.low <= 2 * REACH:
            return label, interval.low - 1e-9 <= truth <= interval.high + 1e-9, rho2
    return n, True, rho2


def needed_table(worlds: int) -> list[str]:
    """Labels needed and coverage of each way, a line for each kind of world."""
    kinds: dict[str, Callable[[np.random.Generator], World]] = {}
    for rho2, all_tell in (
        (0.0, ["nothing"]),
        (0.3, ["nothing", "tells", "opposite"]),
        (0.6, ["nothing", "tells"]),
        (0.8, ["nothing", "tells"]),
    ):
        for tells in all_tell:
            kinds[f"ρ² {rho2:.1f}, uncertainty {tells}"] = (
                lambda rng, rho2=rho2, tells=tells: simulated(rng, rho2, tells)  # type: ignore[misc]
            )
    kinds |= real_worlds()
    if sized(False, True):
        kinds = dict(list(kinds.items())[2:5:2])
    lines = [
        f"{'':32} {'ρ²':>5} {'labels':>7}  " + "".join(f"{way:>20}" for way in WAYS[1:]) + f"{'covered':>10}"
    ]
    for name, make in kinds.items():
        results = np.array(
            [
                [labels_needed(make(np.random.default_rng([seed, 1])), way, seed) for way in WAYS]
                for seed in range(worlds)
            ],
            dtype=np.float64,
        )
        labels, covered, rho2 = results.mean(axis=0).T
        shown = "".join(
            f"{f'{100 * count / labels[0]:.0f} % ({100 * share:.0f} %)':>20}"
            for count, share in zip(labels[1:], covered[1:], strict=True)
        )
        lines.append(f"{name:32} {rho2[0]:5.2f} {labels[0]:7.0f}  {shown}{f'({100 * covered[0]:.0f} %)':>10}")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def certificates_table(worlds: int) -> list[str]:
    """How often something is certified, and the promise broken, by how labels are asked for and used."""
    lines = [f"{'certified from':42} {'labels':>7} {'certified':>10} {'broken':>8}"]
    for rate in (0.04, 0.11):
        rows: dict[str, list[tuple[int, bool, bool]]] = {}
        for seed in range(worlds):
            rng = np.random.default_rng([seed, 2])
            # The uncertainty by which labels are asked tells where errors are, the confidence does not.
            confidence, u = rng.random(ITEMS), rng.random(ITEMS)
            wrong = (rng.random(ITEMS) < rate * np.exp(4 * u) / np.exp(4 * u).mean()).astype(np.float64)
            for way, share in (("active", 0.2), ("uniform", 1.0)):
                sampling, answers = Sampling(seed=seed, population=ITEMS), {}
                for _ in range(sized(200, 40)):
                    draw = next_draw(sampling, u, np.zeros(ITEMS), answers, uniform_share=share)
                    if draw is None:
                        break
                    sampling = sampling.after(draw)
                    answers[draw.item] = float(wrong[draw.item])
                uses = {"all": [draw.item for draw in sampling.draws], "walked": sampling.walked()}
                for use, items in uses.items():
                    made = certify(wrong[items], confidence[items], range(len(items)), epsilon=0.1, delta=0.1)
                    accepted = confidence >= (np.inf if made.threshold is None else made.threshold)
                    broken = bool(accepted.any() and wrong[accepted].mean() > 0.1)
                    row = rows.setdefault(f"{100 * rate:.0f} % wrong, {way} labels, {use}", [])
                    row.append((len(items), made.threshold is not None, broken))
        for name, outcomes in rows.items():
            labels, certified, broken_share = np.mean(np.array(outcomes, dtype=np.float64), axis=0)
            lines.append(f"{name:42} {labels:7.0f} {100 * certified:8.0f} % {100 * broken_share:6.0f} %")
    return lines


def curves_table(worlds: int) -> list[str]:
    """Root mean squared errors of risk–coverage and calibration, by how labels are asked for and used."""
    rows: dict[str, list[list[float]]] = {}
    for seed in range(worlds):
        rng = np.random.default_rng([seed, 3])
        confidence = 0.5 + 0.5 * rng.beta(3, 1, ITEMS)
        wrong = (rng.random(ITEMS) < (1 - confidence) ** 1.5).astype(np.float64)
        truth = _curve_figures(wrong, confidence, np.ones(ITEMS))
        for way, share in (("active", 0.2), ("uniform", 1.0)):
            sampling, answers = Sampling(seed=seed, population=ITEMS), {}
            for _ in range(sized(200, 40)):
                draw = next_draw(sampling, 1 - confidence, np.zeros(ITEMS), answers, uniform_share=share)
                if draw is None:
                    break
                sampling = sampling.after(draw)
                answers[draw.item] = float(wrong[draw.item])
            all_items, walked = labelled_items(sampling, answers), np.array(sampling.walked())
            uses = {
                "all, weighted": (all_items.items, all_items.weights),
                "all, unweighted": (all_items.items, np.ones(all_items.items.size)),
                "walked": (walked, np.ones(walked.size)),
            }
            for use, (items, weights) in uses.items():
                found = _curve_figures(wrong[items], confidence[items], weights)
                apart = [items.size, *np.subtract(found[:4], truth[:4]), found[4] <= truth[1] <= found[5]]
                rows.setdefault(f"{way} labels, {use}", []).append(apart)
    lines = [
        f"{'from':32} {'labels':>7} {'AURC':>7} {'AUGRC':>7} {'ECE':>7} {'Brier':>7} {'covers AUGRC':>13}"
    ]
    for name, each in rows.items():
        figures = np.array(each)
        errors = " ".join(f"{error:7.4f}" for error in np.sqrt(np.square(figures[:, 1:5]).mean(axis=0)))
        lines.append(f"{name:32} {figures[:, 0].mean():7.0f} {errors} {100 * figures[:, 5].mean():11.0f} %")
    return lines


def _curve_figures(wrong: Floats, confidence: Floats, weights: Floats) -> list[float]:
    """AURC, AUGRC, ECE and Brier score, and the ends of the interval of AUGRC."""
    items = Items.of(range(wrong.size), wrong, confidence, weights=weights)
    areas = bootstrap_selective_metrics(
        items, ["aurc", "augrc"], BootstrapOptions(resamples=sized(1_000, 50))
    )
    quality = probability_quality(confidence, 1 - wrong, weights=weights)
    ends = areas["augrc"].interval
    return [
        areas["aurc"].point or 0.0,
        areas["augrc"].point or 0.0,
        quality["ece"] or 0.0,
        quality["brier_score"] or 0.0,
        ends.low if ends else np.nan,
        ends.high if ends else np.nan,
    ]


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else sized(100, 2)
    print("\n".join([*needed_table(count), "", *certificates_table(count), "", *curves_table(count)]))
