"""How often nominal 95 % intervals contain the truth, by simulation: Trivium's and the usual ones.

    python benchmarks/coverage.py [data sets per row, default 1000 [prefix of a figure's name …]]

Groups have 1 to 8 values each, "uneven" ones 1 to 60 (log-normal, 12 on average). Rates are
beta-binomial with the given intra-group correlation; means are of scores in [0, 1] (a beta distribution with
the same correlation, rounded to twentieths, so with ties); composites are half a rate, half a score. Deltas
are paired differences of outcomes: "lost 1 in 20" means that one case in twenty is lost and none won,
"1 in 10 either way" that one in ten is lost and one won, both clustered with the same correlation;
"1 in 2 drawn anew" that half of the outcomes are drawn again, with a rate 0.05 higher. The truth is known
except for AURC and similar areas, for which a very large sample is used. The Monte Carlo error is printed
(with 1,000 groups only a quarter of the data sets are drawn, which doubles it). An interval is valid if its
column says 95. "width" is the width of Trivium's interval relative to mean ± 1.96 errors.

A second table ("edge …") has worlds in which few samples hold the rare values that move the mean: how often
the low end lies above the truth and the high end below it, in percent, nominally 2.5 each. For differences
the truth is also the margin, so the first number is how often a loss passes that must not. "gate …" has the
exact chance that a gate on a pass rate fails, or passes, at a true rate that is its limit, at the worst
number of cases from 3 to 300.

Trivium's intervals are compared with simple ones (mean ± 1.96 cluster-robust errors, the percentile bootstrap
over groups, Jeffreys) and, if installed, with those of statsmodels and Inspect AI: a regression on a constant
with cluster-robust covariance and Student's t, Wilson's interval without groups, Inspect AI's
``stderr(cluster=…)`` ± 1.96 and its ``ci(cluster=…)``.
"""

import sys
import time
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from benchmarks.sizes import sized
from trivium.trust.cluster_bootstrap import BootstrapOptions
from trivium.trust.intervals import mean_interval, rate_interval
from trivium.trust.selective.inference import bootstrap_selective_metrics, selective_metrics
from trivium.trust.selective.items import Items

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Ends = tuple[float, float]
Way = Callable[[Floats, Ints, str], Ends | None]

GROUPS = sized((5, 10, 20, 50, 200, 1_000), (5, 20))
MANY = 1_000
CORRELATIONS = (0.0, 0.1, 0.5)
RATES = (0.02, 0.5, 0.9, 0.98)
MEANS = (0.7, 0.9, 0.97)
LARGEST_GROUP = 8
LARGEST_UNEVEN = 60
AURC_GROUPS = (5, 10, 20, 50, 200)
RESAMPLES = sized(1_000, 50)
LARGE = 60_000
"""Groups of the sample that gives the true value of AURC and similar areas."""
Z = float(ndtri(0.975))


def group_rates(rng: np.random.Generator, mean: float, correlation: float, groups: int) -> Floats:
    """One rate a group, with the intra-group correlation that two outcomes of a group then have."""
    if not correlation:
        return np.full(groups, mean)
    room = (1 - correlation) / correlation
    return rng.beta(mean * room, (1 - mean) * room, size=groups)


def outcomes(rng: np.random.Generator, codes: Ints, mean: float, correlation: float) -> Floats:
    rates = group_rates(rng, mean, correlation, int(codes.max()) + 1)
    return (rng.uniform(size=codes.size) < rates[codes]).astype(np.float64)


def scores(rng: np.random.Generator, codes: Ints, mean: float, correlation: float) -> Floats:
    # A group's own mean, and values around it whose mean is just that.
    rates = group_rates(rng, mean, correlation, int(codes.max()) + 1)[codes]
    clipped = np.clip(rates, 1e-9, 1 - 1e-9)
    return rng.binomial(20, rng.beta(4 * clipped, 4 * (1 - clipped))) / 20


def normal(values: Floats, codes: Ints, _kind: str) -> Ends:
    """Mean ± 1.96 cluster-robust standard errors."""
    mean, groups = values.mean(), int(codes.max()) + 1
    strays = np.bincount(codes, weights=values - mean, minlength=groups)
    error = np.sqrt(groups / (groups - 1) * (strays @ strays)) / values.size
    return mean - Z * error, mean + Z * error


@cache
def resamples(groups: int) -> Floats:
    """How often each group was drawn in each resample."""
    rng = np.random.default_rng(groups)
    return rng.multinomial(groups, np.full(groups, 1 / groups), size=RESAMPLES).astype(np.float64)


def percentile(values: Floats, codes: Ints, _kind: str) -> Ends:
    """Plain percentile bootstrap over groups."""
    sums, sizes = np.bincount(codes, weights=values), np.bincount(codes)
    weights = resamples(sizes.size)
    low, high = np.quantile((weights @ sums) / (weights @ sizes), [0.025, 0.975])
    return float(low), float(high)


def ours(values: Floats, codes: Ints, kind: str) -> Ends:
    """The interval of summaries and comparisons."""
    if kind == "rate":
        found = rate_interval(values, codes)
    elif kind == "delta":
        found = mean_interval(values, codes, low=-1.0)
    else:
        found = mean_interval(values, codes)
    return found.low, found.high


def jeffreys(rate: float, n: float) -> Ends:
    """Equal tails of Beta(hits + 1/2, misses + 1/2); 0 or 1 beyond equal outcomes (Brown et al. 2001)."""
    from scipy.stats import beta

    low, high = beta.interval(0.95, rate * n + 0.5, (1 - rate) * n + 0.5)
    return 0.0 if rate == 0 else low, 1.0 if rate == 1 else high


def jeffreys_clustered(values: Floats, codes: Ints, kind: str) -> Ends | None:
    """Jeffreys on the same effective number as ours."""
    if kind != "rate":
        return None
    rate = float(values.mean())
    if rate in {0.0, 1.0}:
        return jeffreys(rate, int(codes.max()) + 1)
    low, high = normal(values, codes, kind)
    error, independent = (high - low) / (2 * Z), rate * (1 - rate) / (values.size - 1)
    return jeffreys(rate, values.size / max(1.0, error**2 / independent))


def regressed(values: Floats, codes: Ints, _kind: str) -> Ends:
    """statsmodels: least squares on a constant, errors robust to groups, Student's t."""
    from statsmodels.api import OLS

    if np.ptp(values) == 0:
        return values[0], values[0]  # what it says too, after a warning for each division by 0
    fitted = OLS(values, np.ones(values.size)).fit(cov_type="cluster", cov_kwds={"groups": codes}, use_t=True)
    low, high = fitted.conf_int()[0]
    return low, high


def counted(values: Floats, _codes: Ints, kind: str) -> Ends | None:
    """statsmodels: Wilson's interval of a proportion, which knows no groups."""
    from statsmodels.stats.proportion import proportion_confint

    if kind != "rate":
        return None
    low, high = proportion_confint(values.sum(), values.size, method="wilson")
    return low, high


def sampled(values: Floats, codes: Ints) -> list[Any]:
    """Values as Inspect AI has them, each with its group."""
    from inspect_ai.scorer import SampleScore, Score

    return [
        SampleScore(score=Score(value=value), sample_metadata={"group": group})
        for value, group in zip(values.tolist(), codes.tolist(), strict=True)
    ]


def inspected(values: Floats, codes: Ints, _kind: str) -> Ends:
    """Inspect AI: mean ± 1.96 of its clustered standard errors."""
    from inspect_ai.scorer import stderr

    mean, error = float(values.mean()), stderr(cluster="group")(sampled(values, codes))
    return mean - Z * error, mean + Z * error


def inspected_ci(values: Floats, codes: Ints, _kind: str) -> Ends:
    """Inspect AI: its interval with Student's t, clustered."""
    from inspect_ai.scorer import ci

    found = ci(cluster="group")(sampled(values, codes))
    return found["lower"], found["upper"]


PEERS: dict[str, dict[str, Way]] = {
    "statsmodels": {"sm cluster t": regressed, "sm Wilson": counted},
    "inspect_ai": {"Inspect ±1.96": inspected, "Inspect ci": inspected_ci},
}


@cache
def ways() -> dict[str, Way]:
    """The installed interval methods, by the name of their column."""
    plain = {"ours": ours, "normal": normal, "percentile": percentile, "jeffreys": jeffreys_clustered}
    found = [columns for package, columns in PEERS.items() if find_spec(package)]
    return plain | {name: way for columns in found for name, way in columns.items()}


Draw = Callable[[np.random.Generator, Ints, float], tuple[Floats, float, str]]


def of_rate(rate: float) -> Draw:
    return lambda rng, codes, correlation: (outcomes(rng, codes, rate, correlation), rate, "rate")


def of_mean(mean: float) -> Draw:
    return lambda rng, codes, correlation: (scores(rng, codes, mean, correlation), mean, "mean")


def of_composite(rng: np.random.Generator, codes: Ints, correlation: float) -> tuple[Floats, float, str]:
    both = outcomes(rng, codes, 0.8, correlation), scores(rng, codes, 0.7, correlation)
    return 0.5 * both[0] + 0.5 * both[1], 0.75, "mean"


def of_delta(rate: float, share_changed: float) -> Draw:
    """Right minus left of paired outcomes: most are kept, some are drawn anew with another rate."""

    def draw(rng: np.random.Generator, codes: Ints, correlation: float) -> tuple[Floats, float, str]:
        left, fresh = outcomes(rng, codes, rate, correlation), outcomes(rng, codes, rate + 0.05, correlation)
        changed = rng.uniform(size=codes.size) < share_changed
        return np.where(changed, fresh - left, 0.0), 0.05 * share_changed, "delta"

    return draw


def of_changes(lost: float, won: float) -> Draw:
    """Differences of outcomes of which a share is lost and a share won, in bunches (Dirichlet)."""

    def draw(rng: np.random.Generator, codes: Ints, correlation: float) -> tuple[Floats, float, str]:
        shares, count = np.array([lost, won, 1 - lost - won]), int(codes.max()) + 1
        if correlation:
            weights = rng.gamma(np.maximum(shares, 1e-12) * (1 - correlation) / correlation, size=(count, 3))
            of_group = weights / weights.sum(axis=1, keepdims=True)
        else:
            of_group = np.tile(shares, (count, 1))
        place = rng.uniform(size=codes.size)
        losses, wins = of_group[codes, 0], of_group[codes, 0] + of_group[codes, 1]
        values = np.where(place < losses, -1.0, np.where(place < wins, 1.0, 0.0))
        return values, won - lost, "delta"

    return draw


def sizes(rng: np.random.Generator, groups: int, *, uneven: bool) -> Ints:
    if not uneven:
        return rng.integers(1, LARGEST_GROUP + 1, size=groups)
    return np.minimum(np.ceil(rng.lognormal(2.0, 1.0, size=groups)), LARGEST_UNEVEN).astype(np.int64)


def coverage(
    draw: Draw, groups: int, correlation: float, rounds: int, *, uneven: bool
) -> tuple[dict[str, float], float]:
    """Share of data sets whose interval holds the truth, in percent, and the width of ours relative to ±1.96.

    NaN where a way has no interval.
    """
    rng, hits, widths = np.random.default_rng(groups), dict.fromkeys(ways(), 0.0), np.zeros(2)
    for _ in range(rounds):
        codes = np.repeat(np.arange(groups), sizes(rng, groups, uneven=uneven))
        values, truth, kind = draw(rng, codes, correlation)
        for name, way in ways().items():
            ends = way(values, codes, kind)
            hits[name] += np.nan if ends is None else ends[0] - 1e-12 <= truth <= ends[1] + 1e-12
            if name in {"ours", "normal"}:
                widths[int(name == "normal")] += ends[1] - ends[0]
    return {name: 100 * hit / rounds for name, hit in hits.items()}, float(widths[0] / widths[1])


def aurc_items(rng: np.random.Generator, groups: int, correlation: float, *, uneven: bool) -> Items:
    """Verdicts of a judge that is wrong more often in some groups, and only somewhat knows it.

    The correlation is that of how hard items of one group are.
    """
    codes = np.repeat(np.arange(groups), sizes(rng, groups, uneven=uneven))
    own, shared = np.sqrt(2 * (1 - correlation)), np.sqrt(2 * correlation)
    hardness = shared * rng.normal(size=groups)[codes] + own * rng.normal(size=codes.size)
    wrong = (hardness + rng.normal(size=codes.size) > 1).astype(np.float64)
    sure = np.round(-hardness + 1.5 * rng.normal(size=codes.size), 1)
    return Items.of([str(code) for code in codes], wrong, sure, predicted=rng.uniform(size=codes.size) < 0.8)


def aurc_coverage(
    groups: int, rounds: int, truths: dict[str, float], correlation: float, *, uneven: bool
) -> dict[str, float]:
    rng = np.random.default_rng(groups)
    methods = ("expanded percentile", "percentile", "bca")
    hits = dict.fromkeys([f"{name} {method}" for name in truths for method in methods], 0)
    for _ in range(rounds):
        items = aurc_items(rng, groups, correlation, uneven=uneven)
        for method in methods:
            plan = BootstrapOptions(resamples=RESAMPLES, seed=int(rng.integers(2**31)), method=method)
            for name, estimate in bootstrap_selective_metrics(items, list(truths), plan).items():
                ends = estimate.interval
                hits[f"{name} {method}"] += ends is not None and ends.low <= truths[name] <= ends.high
    return {name: 100 * hit / rounds for name, hit in hits.items()}


def table(title: str, draw: Draw, rounds: int) -> None:
    uneven = "uneven" in title
    for correlation in CORRELATIONS:
        for groups in GROUPS:
            tried = rounds if groups < MANY else max(1, rounds // 4)
            found, width = coverage(draw, groups, correlation, tried, uneven=uneven)
            cells = "".join(f"{'–':>15}" if np.isnan(v) else f"{v:15.1f}" for v in found.values())
            print(f"{title:28}{correlation:6.1f}{groups:8,}{cells}{width:8.2f}", flush=True)


FIGURES: dict[str, Draw] = {
    **{f"rate {rate}": of_rate(rate) for rate in RATES},
    **{f"rate {rate}, uneven": of_rate(rate) for rate in RATES},
    **{f"mean {mean}": of_mean(mean) for mean in MEANS},
    "mean 0.7, uneven": of_mean(0.7),
    "mean 0.9, uneven": of_mean(0.9),
    "composite 0.75": of_composite,
    "delta, lost 1 in 20": of_changes(0.05, 0.0),
    "delta, lost 1 in 20, uneven": of_changes(0.05, 0.0),
    "delta, lost 1 in 5": of_changes(0.2, 0.0),
    "delta, lost 1 in 5, uneven": of_changes(0.2, 0.0),
    "delta, 1 in 10 either way": of_changes(0.1, 0.1),
    "delta, 1 in 2 drawn anew": of_delta(0.7, 0.5),
    "delta, 1 in 2 anew, uneven": of_delta(0.7, 0.5),
}


def zipf(rng: np.random.Generator, groups: int, steep: float) -> Ints:
    """Group of each value; sizes of 1 to 60 by Zipf's law."""
    weights = np.arange(1, LARGEST_UNEVEN + 1) ** -steep
    drawn = rng.choice(np.arange(1, LARGEST_UNEVEN + 1), p=weights / weights.sum(), size=groups)
    return np.repeat(np.arange(groups), drawn)


World = Callable[[np.random.Generator, int], tuple[Floats, Ints, float, str]]
"""From a generator and a number of groups: values, their groups, the true mean, and the kind of value."""


def rare_loss(gain: float, loss: float, share: float, spread: float = 0.0) -> World:
    """Single differences: most gain a little, a share loses much."""

    def draw(rng: np.random.Generator, groups: int) -> tuple[Floats, Ints, float, str]:
        values = np.where(rng.uniform(size=groups) < share, -loss, gain)
        values += rng.uniform(-spread, spread, groups)
        return values, np.arange(groups), gain - share * (gain + loss), "delta"

    return draw


def lost_groups(steep: float, share: float, loss: float, *, large_only: bool = False) -> World:
    """Differences by groups of Zipf sizes, of which a share loses: of all, or of those of 20 and more."""

    def draw(rng: np.random.Generator, groups: int) -> tuple[Floats, Ints, float, str]:
        codes = zipf(rng, groups, steep)
        lost = rng.uniform(size=groups) < share
        every = np.arange(1, LARGEST_UNEVEN + 1)
        values = every**-steep * every
        touched = values[19:].sum() / values.sum() if large_only else 1.0
        lost &= (np.bincount(codes) >= 20) | (not large_only)
        return -loss * lost[codes].astype(np.float64), codes, -loss * share * touched, "delta"

    return draw


def ordinal(steep: float | None, correlation: float = 0.5) -> World:
    """Scores of 1 to 5, mostly 5, scaled to [0, 1], alike within groups of Zipf sizes or single."""
    shares, steps = np.array([0.01, 0.02, 0.05, 0.12, 0.8]), np.linspace(0, 1, 5)

    def draw(rng: np.random.Generator, groups: int) -> tuple[Floats, Ints, float, str]:
        codes = np.arange(groups) if steep is None else zipf(rng, groups, steep)
        weights = rng.gamma(shares * (1 - correlation) / correlation, size=(groups, 5)) + 1e-300
        reached = (weights / weights.sum(axis=1, keepdims=True)).cumsum(axis=1)[codes]
        levels = np.minimum((rng.uniform(size=(codes.size, 1)) > reached).sum(axis=1), 4)
        return steps[levels], codes, float(shares @ steps), "mean"

    return draw


def single(a: float, b: float) -> World:
    """Single scores with a beta distribution."""
    return lambda rng, groups: (rng.beta(a, b, groups), np.arange(groups), a / (a + b), "mean")


def giant(rng: np.random.Generator, groups: int) -> tuple[Floats, Ints, float, str]:
    """Outcomes, a third of which are one group."""
    codes = np.append(np.arange(groups), np.zeros(groups // 2, np.int64))
    rates = np.append(rng.beta(2.7, 0.3), np.full(groups - 1, 0.9))
    return (rng.uniform(size=codes.size) < rates[codes]).astype(np.float64), codes, 0.9, "rate"


EDGES: dict[str, tuple[World, tuple[int, ...]]] = {
    "7 % lose .95, else +.05": (rare_loss(0.05, 0.95, 0.07), (30, 60, 100, 300)),
    "the same, ±.03 noise": (rare_loss(0.05, 0.95, 0.07, 0.03), (30, 60, 100, 300)),
    "12 % lose .9, else +.1": (rare_loss(0.1, 0.9, 0.12), (30, 60)),
    "2 % lose 1, else 0": (rare_loss(0.0, 1.0, 0.02), (150, 183, 300)),
    "Zipf 1.5, 2 % of groups lose 1": (lost_groups(1.5, 0.02, 1), (200, 400)),
    "Zipf 1.8, 2 % of groups lose 1": (lost_groups(1.8, 0.02, 1), (200, 400)),
    "Zipf 2, 4 % of groups lose .5": (lost_groups(2.0, 0.04, 0.5), (200, 400)),
    "Zipf 1.8, 20 % of large lose 1": (lost_groups(1.8, 0.2, 1, large_only=True), (200, 400)),
    "ordinal, single": (ordinal(None), (5, 20, 50, 200)),
    "ordinal, Zipf 1.5": (ordinal(1.5), (30, 100)),
    "ordinal, Zipf 1.7": (ordinal(1.7), (30, 100)),
    "ordinal, Zipf 2.2": (ordinal(2.2), (30, 100)),
    "beta(.5, .05), single": (single(0.5, 0.05), (10, 30, 100)),
    "beta(2.7, 1.2), single": (single(2.7, 1.2), (10, 30, 100)),
    "beta(25, 25), single": (single(25, 25), (10, 30, 100)),
    "rate .9, one giant group": (giant, (40, 200)),
}
LIMITS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)


def edge(title: str, draw: World, groups: int, rounds: int) -> None:
    """Print how often each end is on the wrong side of the truth, and the width relative to ±1.96 errors."""
    rng, wrong, widths = np.random.default_rng(groups), np.zeros((3, 2)), np.zeros(2)
    for _ in range(rounds):
        values, codes, truth, kind = draw(rng, groups)
        for row, way in enumerate((ours, normal, percentile)):
            low, high = way(values, codes, kind) or (np.nan, np.nan)
            wrong[row] += low > truth + 1e-12, high < truth - 1e-12
            if row < 2:
                widths[row] += high - low
    cells = "".join(f"{100 * share / rounds:10.1f}" for share in wrong.ravel())
    print(f"edge {title:32}{groups:7,}{cells}{widths[0] / widths[1]:10.2f}", flush=True)


def gates() -> None:
    """Print the exact chances that a gate on a rate errs on either side, at the worst number of cases."""
    from scipy.stats import binom

    worst = dict.fromkeys(LIMITS, (0.0, 0.0))
    for n in sized((*range(3, 60), *range(60, 301, 7)), (5, 17)):
        lows, highs = np.array(
            [ours((np.arange(n) < hits).astype(np.float64), np.arange(n), "rate") for hits in range(n + 1)]
        ).T
        for limit, (fails, passes) in worst.items():
            chances = binom.pmf(np.arange(n + 1), n, limit)
            wrong = chances[highs < limit].sum(), chances[lows >= limit].sum()
            worst[limit] = max(fails, wrong[0]), max(passes, wrong[1])
    for limit, (fails, passes) in worst.items():
        print(f"gate at least {limit:<6} fails wrongly {100 * fails:5.2f} %, passes {100 * passes:5.2f} %")


def edges(rounds: int) -> None:
    """Print the table of rare values, and that of gates."""
    print(f"\n{rounds:,} data sets per row, error near 2.5 %: ±{196 * (0.0244 / rounds) ** 0.5:.1f} points")
    names = "".join(f"{name:>20}" for name in ("ours", "±1.96 errors", "bootstrap"))
    sides = f"{'low':>10}{'high':>10}" * 3
    print(f"{'':44}{names}\n{'':37}{'groups':>7}{sides}{'width':>10}")
    for title, (draw, counts) in EDGES.items():
        for groups in counts:
            edge(title, draw, groups, rounds)
    gates()


def noise(rounds: int) -> str:
    return f"±{100 * Z * np.sqrt(0.95 * 0.05 / rounds):.1f} points"


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    wanted = tuple(sys.argv[2:]) or ("",)
    started = time.perf_counter()
    print(f"{rounds:,} data sets per row, Monte Carlo error {noise(rounds)}")
    for package in PEERS:
        if not find_spec(package):
            print(f"{package} is not installed: its columns are left out")
    head = "".join(f"{name:>15}" for name in ways())
    print(f"{'figure':28}{'corr':>6}{'groups':>8}{head}{'width':>8}")
    for title, draw in FIGURES.items():
        if title.startswith(wanted):
            table(title, draw, rounds)
    if "edge".startswith(wanted):
        edges(rounds)
    if "aurc".startswith(wanted):
        areas(rounds)
    print(f"\n{time.perf_counter() - started:.0f} s")


def areas(rounds: int) -> None:
    """Print the table of AURC and similar areas."""
    fewer = max(1, rounds // 4)
    names = ("aurc", "augrc", "mae_at_0.5")
    print(f"\n{fewer:,} data sets per row, {noise(fewer)}; tied confidence, 1 in 5 abstained")
    print(f"{'figure':14}{'sizes':>8}{'corr':>6}{'groups':>8}{'expanded':>12}{'percentile':>12}{'BCa':>12}")
    for uneven in (False, True):
        for correlation in CORRELATIONS:
            large = aurc_items(np.random.default_rng(0), LARGE, correlation, uneven=uneven)
            truths = {name: float(value or 0) for name, value in selective_metrics(large, names).items()}
            for groups in AURC_GROUPS:
                found = aurc_coverage(groups, fewer, truths, correlation, uneven=uneven)
                for name in names:
                    mine = [value for key, value in found.items() if key.startswith(name + " ")]
                    cells = "".join(f"{value:12.1f}" for value in mine)
                    size = "1 to 60" if uneven else "1 to 8"
                    print(f"{name:14}{size:>8}{correlation:6.1f}{groups:8,}{cells}", flush=True)


if __name__ == "__main__":
    main()
