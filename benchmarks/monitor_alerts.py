"""How soon alerts of production traffic come, and how often they are false, by simulation.

    python -m benchmarks.monitor_alerts [lives per row, default 60]
    python -m benchmarks.monitor_alerts watcher [lives, default 100]

The second form lets the whole watcher live on stores of its own: see ``benchmarks/watched_lives.py``. The
first one looks at its parts.

**Alerts.** Four weeks of healthy traffic give the reference, eight more give false alarms, then the pass
rate drops by 5, 10 or 20 points and the delay until the alarm is counted (four weeks at most). 200 samples
are scored a day, alone or in sessions of 4 with an intra-session correlation of 0.3 (beta-binomial). A window
is a day. The ways to notice:

* e-detector: :class:`ChangeDetector` with the lower confidence bound of the first four weeks as reference, a
  tolerance of 0.01, and a mean time between false alarms of 90 days; one bet a session; reset at an alarm;
* sure status: :class:`LevelSequence`, sure that the level is more than 3 points below the healthy one;
* threshold: the window's pass rate lies more than 3 points below the healthy one;
* CUSUM: of single outcomes against a drop of 10 points, with the true healthy rate known, and its limit tuned
  by simulation to 90 days between false alarms of independent samples;
* EWMA: of the windows' rates (smoothing 0.2), with its limit tuned likewise.

**Sure.** Lives of 2,000 values whose mean is exactly at the threshold, the hardest case. A life is wrong if
at any look from the 50th value on the method says that the mean is not what it is: mean ± 1.96 standard
errors at every look; a confidence sequence with plug-in variance (asymptotic, Waudby-Smith et al. 2021); ours
(two-sided), and our one-sided "sure below", both from the first value on. With "errors always" half of the
failures are errors, which are all sampled, the rest with probability 0.01.

**Windows.** How often nominal 95 % intervals of a window's weighted pass rate contain the truth, in the worst
of the cells (healthy rates of 1 to 99 %; equal probabilities, errors always, a tag always).
"""

import sys
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from benchmarks.sizes import sized
from benchmarks.watched_lives import watcher
from trivium.trust.change_detection import ChangeDetector
from trivium.trust.distributions import normal_critical_value, t_critical_value
from trivium.trust.level_sequence import LevelSequence
from trivium.trust.weighted_means import reference_level, weighted_mean

Floats = npt.NDArray[np.float64]

A_DAY = 200
LEARNING, HEALTHY, AFTER = sized((28, 56, 28), (3, 2, 2))
"""Days of traffic that give the reference, that give false alarms, and in which a drop must be noticed."""
BETWEEN = 90
"""Days between false alarms that are asked for."""
RATES = (0.99, 0.95, 0.9)
DROPS = (0.05, 0.1, 0.2)
SESSION, CORRELATION = 4, 0.3
TOLERANCE, MARGIN, SMOOTHING = 0.01, 0.03, 0.2


def traffic(rng: np.random.Generator, rate: float, days: int, *, sessions: bool) -> Floats:
    """Outcomes, shape (days, sessions a day, samples a session)."""
    if not sessions:
        return (rng.random((days, A_DAY, 1)) < rate).astype(np.float64)
    room = (1 - CORRELATION) / CORRELATION
    rates = rng.beta(rate * room, (1 - rate) * room, (days, A_DAY // SESSION, 1))
    return (rng.random((days, A_DAY // SESSION, SESSION)) < rates).astype(np.float64)


class EDetector:
    """The e-detector, in days."""

    def __init__(self, rate: float, learning: Floats) -> None:
        groups = np.repeat(np.arange(learning[..., 0].size), learning.shape[2])
        reference = reference_level(learning.ravel(), np.ones(learning.size), groups=groups)
        assert reference is not None
        self.detector = ChangeDetector(reference, TOLERANCE, BETWEEN)

    def day(self, outcomes: Floats) -> float | None:
        """Share of the day after which there is an alarm; None without one."""
        for place, value in enumerate(outcomes.mean(axis=1).tolist()):
            if self.detector.update(value, elapsed=1 / len(outcomes)):
                self.detector.reset()
                return (place + 1) / len(outcomes)
        return None


class SureStatus:
    """The level that is surely below the threshold; sure once, it begins anew."""

    def __init__(self, rate: float, learning: Floats) -> None:
        self.threshold = rate - MARGIN
        self.begin()
        for outcomes in learning:
            self.day(outcomes)

    def begin(self) -> None:
        self.sequence = LevelSequence(grid=20, thresholds=[self.threshold])

    def day(self, outcomes: Floats) -> float | None:
        for place, value in enumerate(outcomes.mean(axis=1).tolist()):
            self.sequence.update(value)
            if self.sequence.sure_below(self.threshold):
                self.begin()
                return (place + 1) / len(outcomes)
        return None


class Threshold:
    """Each window by itself."""

    def __init__(self, rate: float, learning: Floats) -> None:
        self.threshold = rate - MARGIN

    def day(self, outcomes: Floats) -> float | None:
        return 1.0 if outcomes.mean() < self.threshold else None


class Cusum:
    """Page's CUSUM of single outcomes against a drop of 10 points."""

    limits: ClassVar[dict[float, float]] = {}

    def __init__(self, rate: float, learning: Floats) -> None:
        self.passed, self.failed = self.steps(rate)
        if rate not in self.limits:
            self.limits[rate] = tuned(lambda limit: self.run_length(rate, limit), BETWEEN * A_DAY, 20.0)
        self.limit, self.sum = self.limits[rate], 0.0

    @staticmethod
    def steps(rate: float) -> tuple[float, float]:
        low = rate - 0.1
        return float(np.log(low / rate)), float(np.log((1 - low) / (1 - rate)))

    def run_length(self, rate: float, limit: float) -> float:
        """Mean number of independent outcomes until a false alarm; simulated, all lives at once."""
        rng, sums = np.random.default_rng(1), np.zeros(sized(1000, 20))
        passed, failed = self.steps(rate)
        alarms, steps = 0, sized(BETWEEN * A_DAY // 3, 200)
        for _ in range(steps):
            sums = np.maximum(sums, 0) + np.where(rng.random(sums.size) < rate, passed, failed)
            alarms += int((sums >= limit).sum())
            sums[sums >= limit] = 0
        return steps * sums.size / max(alarms, 1)

    def day(self, outcomes: Floats) -> float | None:
        for place, value in enumerate(outcomes.ravel().tolist()):
            self.sum = max(self.sum, 0.0) + (self.passed if value else self.failed)
            if self.sum >= self.limit:
                self.sum = 0.0
                return (place + 1) / outcomes.size
        return None


class Ewma:
    """Exponentially weighted moving average of the windows' rates."""

    limits: ClassVar[dict[float, float]] = {}

    def __init__(self, rate: float, learning: Floats) -> None:
        if rate not in self.limits:
            self.limits[rate] = tuned(lambda limit: self.run_length(rate, limit), BETWEEN, rate / 2)
        self.rate, self.limit, self.level = rate, self.limits[rate], rate

    def run_length(self, rate: float, limit: float) -> float:
        rng, levels = np.random.default_rng(2), np.full(sized(2000, 20), rate)
        alarms, steps = 0, sized(1000, 50)
        for _ in range(steps):
            levels += SMOOTHING * (rng.binomial(A_DAY, rate, levels.size) / A_DAY - levels)
            low = levels < rate - limit
            alarms += int(low.sum())
            levels[low] = rate
        return steps * levels.size / max(alarms, 1)

    def day(self, outcomes: Floats) -> float | None:
        self.level += SMOOTHING * (float(outcomes.mean()) - self.level)
        if self.level < self.rate - self.limit:
            self.level = self.rate
            return 1.0
        return None


WAYS: dict[str, Callable[[float, Floats], EDetector | SureStatus | Threshold | Cusum | Ewma]] = {
    "e-detector": EDetector,
    "sure status": SureStatus,
    "threshold": Threshold,
    "CUSUM": Cusum,
    "EWMA": Ewma,
}


def tuned(run_length: Callable[[float], float], wanted: float, highest: float) -> float:
    """The limit with a given mean time between false alarms, by bisection."""
    low, high = 0.0, highest
    for _ in range(sized(14, 3)):
        middle = (low + high) / 2
        low, high = (middle, high) if run_length(middle) < wanted else (low, middle)
    return high


def alerts(lives: int) -> None:
    """False alarms and delays of each way to notice."""
    header = "".join(f"{f'{drop * 100:.0f} points':>11}" for drop in DROPS)
    print(f"{'':44}false alarms per   delay in days (missed, in %)")
    print(f"{'healthy rate':14}{'samples':16}{'way':14}1,000 windows   {header}")
    for rate in RATES:
        for sessions in (False, True):
            for name, way in WAYS.items():
                false, delays = of_one_way(way, rate, lives, sessions=sessions)
                found = "".join(f"{delay(delays[drop]):>11}" for drop in DROPS)
                kind = "in sessions" if sessions else "independent"
                print(f"{rate:<14}{kind:16}{name:14}{1000 * false:13.1f}   {found}", flush=True)


def of_one_way(
    way: Callable[[float, Floats], EDetector | SureStatus | Threshold | Cusum | Ewma],
    rate: float,
    lives: int,
    *,
    sessions: bool,
) -> tuple[float, dict[float, list[float]]]:
    """False alarms a window, and the delays (infinite if missed) by drop."""
    false, delays = 0, {drop: [] for drop in DROPS}
    for life in range(lives):
        rng = np.random.default_rng([life, int(sessions), int(rate * 100)])
        learning = traffic(rng, rate, LEARNING, sessions=sessions)
        healthy = traffic(rng, rate, HEALTHY, sessions=sessions)
        watcher = way(rate, learning)
        false += sum(watcher.day(outcomes) is not None for outcomes in healthy)
        for drop in DROPS:
            after = traffic(rng, rate - drop, AFTER, sessions=sessions)
            delays[drop].append(noticed(deepcopy(watcher), after))
    return false / (lives * HEALTHY), delays


def noticed(watcher: EDetector | SureStatus | Threshold | Cusum | Ewma, after: Floats) -> float:
    for day, outcomes in enumerate(after):
        if (part := watcher.day(outcomes)) is not None:
            return day + part
    return float("inf")


def delay(days: Sequence[float]) -> str:
    """The median delay, and the share that was missed."""
    missed, median = np.mean(np.isinf(days)), float(np.median(days))
    text = f"> {AFTER}" if np.isinf(median) else f"{median:.1f}"
    return f"{text} ({100 * missed:.0f})" if missed else text


def sure(lives: int) -> None:
    """In what share of lives each method is ever wrong."""
    looks = sized(2000, 60)
    print(f"{'':28}{'± 1.96 SE':>12}{'plug-in':>12}{'ours':>12}{'sure below':>12}")
    for failures in (0.01, 0.05, 0.3):
        for errors in (False, True):
            rng = np.random.default_rng([3, int(failures * 100), int(errors)])
            wrong = np.zeros(4)
            for _ in range(lives):
                x, w = sampled(rng, 1 - failures, looks, errors=errors)
                wrong += wrong_ways(x, w, 1 - failures)
            name = f"{failures:.0%} fail{', errors always' if errors else ''}"
            print(f"{name:28}" + "".join(f"{100 * share:10.1f} %" for share in wrong / lives), flush=True)


def sampled(rng: np.random.Generator, rate: float, n: int, *, errors: bool) -> tuple[Floats, Floats]:
    """Outcomes and weights of samples; half of the failures are errors, which are always sampled."""
    if not errors:
        return (rng.random(n) < rate).astype(np.float64), np.ones(n)
    share_of_errors = (1 - rate) / 2
    taken = share_of_errors / (share_of_errors + 0.01 * (1 - share_of_errors))
    error = rng.random(n) < taken
    passed = rng.random(n) < rate / (1 - share_of_errors)
    return np.where(error, 0.0, passed), np.where(error, 0.01, 1.0)


def wrong_ways(x: Floats, w: Floats, mean: float) -> Floats:
    """Whether each method is ever wrong in this life, shape (4,)."""
    total = np.cumsum(w)
    level = np.cumsum(w * x) / total
    squares = np.cumsum(w**2 * x) * (1 - level) ** 2 + np.cumsum(w**2 * (1 - x)) * level**2
    error = np.sqrt(squares) / total
    n = np.arange(1, x.size + 1)
    rho2 = (2 * np.log(1 / 0.05) + np.log(1 + 2 * np.log(1 / 0.05))) / 100  # narrowest at 100 values
    reach = np.sqrt((n * rho2 + 1) / (n * rho2) * 2 * np.log(np.sqrt(n * rho2 + 1) / 0.05))
    distance = np.abs(level - mean)
    grid = 100  # the mean is one of its points; the excluded points are ends
    ends, sequence = LevelSequence(grid=grid), LevelSequence(grid=grid, thresholds=[mean])
    for value, weight in zip(x.tolist(), w.tolist(), strict=True):
        ends.update(value, weight)
        sequence.update(value, weight)
    point = round(mean * grid) / grid
    return np.array(
        [
            (distance > 1.96 * error)[49:].any(),
            (distance > reach * error)[49:].any(),
            ends.lower >= point or ends.upper <= point,
            sequence.sure_below(mean),
        ],
        dtype=np.float64,
    )


STRATA: dict[str, list[tuple[float, float, float | None]]] = {
    "equal": [(1.0, 0.01, None)],
    "2 % errors always": [(0.02, 1.0, 0.0), (0.98, 0.01, None)],
    "10 % errors always": [(0.1, 1.0, 0.0), (0.9, 0.01, None)],
    "a tag of 10 % always": [(0.1, 1.0, None), (0.9, 0.01, None)],
    "a passing tag always": [(0.1, 1.0, 1.0), (0.9, 0.01, None)],
}
"""Share of the traffic, sampling probability, and pass rate (None: the healthy one) of each kind."""


def windows(samples: int) -> None:
    """Coverage of the intervals of a window, in the worst cell by number of values."""
    print(f"{'values':8}{'mean ± t SE':>14}{'Wilson, Kish':>16}{'exact, Kish':>16}{'ours':>10}{'width':>10}")
    for n in sized((30, 100, 300), (30,)):
        worst, width = np.ones(4), []
        for strata in STRATA.values():
            for rate in (0.01, 0.05, 0.7, 0.95, 0.99):
                rng = np.random.default_rng([n, int(rate * 100)])
                inside = np.zeros(4)
                for _ in range(samples):
                    hits, found = window(rng, strata, rate, n)
                    inside += hits
                    width.append(found)
                worst = np.minimum(worst, inside / samples)
        cells = "".join(
            f"{100 * share:{size}.1f}" for share, size in zip(worst, (14, 16, 16, 10), strict=True)
        )
        print(f"{n:<8}{cells}{np.mean(width):10.2f}", flush=True)


def wilson(rate: float, n: float) -> tuple[float, float]:
    """Wilson's interval of 95 % for a rate of n outcomes."""
    z = normal_critical_value(0.95)
    centre, reach = rate + z**2 / (2 * n), z * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n * n))
    return max(0.0, (centre - reach) / (1 + z**2 / n)), min(1.0, (centre + reach) / (1 + z**2 / n))


def window(
    rng: np.random.Generator, strata: list[tuple[float, float, float | None]], rate: float, n: int
) -> tuple[Floats, float]:
    """Whether each interval of one window contains the truth, shape (4,), and the width of ours."""
    share, probability, own = (
        np.array(part) for part in zip(*[(s, p, rate if r is None else r) for s, p, r in strata], strict=True)
    )
    at = rng.choice(len(strata), p=share * probability / (share @ probability), size=n)
    x, p, truth = (rng.random(n) < own[at]).astype(np.float64), probability[at], float(share @ own)
    ours = weighted_mean(x, p, smallest=0.01)
    assert ours is not None
    reach = t_critical_value(0.95, max(1, int(ours.effective_n) - 1)) * ours.std_error
    kish = min(1.0, ours.mean), ours.effective_n
    exact = weighted_exact(*kish)
    ends = (
        (ours.mean - reach, ours.mean + reach),
        wilson(*kish),
        exact,
        (ours.low, ours.high),
    )
    slack = 1e-9
    return np.array([low - slack <= truth <= high + slack for low, high in ends], dtype=float), (
        ours.high - ours.low
    )


def weighted_exact(mean: float, size: float) -> tuple[float, float]:
    """Clopper and Pearson's interval on Kish's effective size."""
    from scipy.stats import beta

    hits, misses = mean * size, (1 - mean) * size
    low = 0.0 if hits < 1e-9 else float(beta.ppf(0.025, hits, misses + 1))
    high = 1.0 if misses < 1e-9 else float(beta.ppf(0.975, hits + 1, misses))
    return low, high


def main() -> None:
    if sys.argv[1:2] == ["watcher"]:
        watcher(int(sys.argv[2]) if len(sys.argv) > 2 else sized(100, 1))
        return
    lives = int(sys.argv[1]) if len(sys.argv) > 1 else sized(60, 2)
    began = time.perf_counter()
    print(f"alerts: {lives} lives a row\n")
    alerts(lives)
    print(f"\nsure: share of {10 * lives} lives in which a method is ever wrong\n")
    sure(10 * lives)
    print(f"\nwindows: share of {sized(1000, 5)} samples whose interval contains the truth, in %\n")
    windows(sized(1000, 5))
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
