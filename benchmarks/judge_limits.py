"""How close the limiter of judges comes to what a provider allows, over a grid of providers in virtual time.

    python -m benchmarks.judge_limits            # the grid, a group a line
    python -m benchmarks.judge_limits --worst 20 # and its worst twenty

A simulation of the limiter alone (no sockets, no event loop), the same for the same seed. The ideal is what
the provider needs for as many answers: its rate, or what may be in flight, whichever is less; of refusals at
random it is known how many requests they take. To it comes the latency of the last answer.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from statistics import median
from typing import Any, NamedTuple

from tests.metrics.judge.models.rate.provider_in_virtual_time import Weather, spend_a_day

JUDGEMENTS = 500
MOST_A_SECOND = 500
"""More than judges can be asked on one core: no provider is held to be faster."""

LATENCIES = (0.02, 0.2, 2.0)
RATES = (2.0, 10.0, 25.0, 100.0)
KINDS: dict[str, dict[str, Any]] = {
    "bucket of 1": {"burst": 1},
    "bucket of 5": {"burst": 5},
    "bucket of 25": {"burst": 25},
    "sliding window": {"window": 1},
    "fixed window": {"window": 1, "fixed": True},
}
FAULTS = (0.1, 0.3, 0.5)


class Trial(NamedTuple):
    """One day of the grid."""

    group: str
    told: str
    ideal: float
    needed: float
    weather: Weather
    options: dict[str, Any]


def grid() -> Iterator[Trial]:
    for (kind, limit), rate, latency, most in product(KINDS.items(), RATES, LATENCIES, (8, 50, 100)):
        for name, more, late in (
            ("", {}, 0.0005),
            (", told", {"told": True}, 0.0005),
            (", slow refusals", {"refusal": 0.1}, 0.0005),
            (", timers 2 ms late", {}, 0.002),
        ):
            weather = Weather(rate=rate, latency=latency, **limit, **more)
            yield _trial(f"{kind}{name}", weather, most=most, late=late)
    for refused, latency, most in product((0.0, *FAULTS), LATENCIES, (8, 50, 100)):
        for name, refusal in (("", 0.0), (", slow", 0.1)):
            weather = Weather(latency=latency, refused=refused, refusal=refusal)
            yield _trial(f"{refused:.0%} refused at random{name}", weather, most=most)
    for refused, rate in product(FAULTS, RATES[1:]):
        yield _trial(f"a limit and {refused:.0%} at random", Weather(rate=rate, refused=refused), most=50)
    for before, after in ((25, 100), (100, 25), (10, 50), (50, 10)):
        yield _turn("limit changes", Weather(rate=before), Weather(rate=after))
    for latency in (0.02, 0.2):
        yield _turn("latency trebles", Weather(latency=latency), Weather(latency=3 * latency))


def _seconds(weather: Weather, judgements: float, most: int) -> float:
    of_rate = judgements / (1 - weather.refused) / weather.rate if weather.rate else 0.0
    return max(of_rate, judgements * weather.latency / most, judgements / MOST_A_SECOND)


def _trial(group: str, weather: Weather, *, most: int, late: float = 0.0005) -> Trial:
    limit = f"{weather.rate:g} a second, " if weather.rate else ""
    told = f"{limit}{weather.latency:g} s, {most} in flight"
    ideal = _seconds(weather, JUDGEMENTS, most) + weather.latency
    needed = JUDGEMENTS / (1 - weather.refused)
    return Trial(group, told, ideal, needed, weather, {"most": most, "late": late})


def _turn(group: str, before: Weather, after: Weather) -> Trial:
    half = JUDGEMENTS // 2
    ideal = _seconds(before, half, 50) + _seconds(after, half, 50) + after.latency
    told = f"{before.rate or before.latency:g} to {after.rate or after.latency:g}"
    weather = before._replace(change_at=half, then=after)
    return Trial(group, told, ideal, JUDGEMENTS, weather, {"most": 50})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--worst", type=int, default=0, help="single days that were furthest from the ideal")
    given = parser.parse_args()
    groups: dict[str, list[tuple[float, float]]] = defaultdict(list)
    days = []
    for trial in grid():
        for seed in range(given.seeds):
            day = spend_a_day(trial.weather, judgements=JUDGEMENTS, seed=seed, timeout=60, **trial.options)
            wall, requests = day.seconds / trial.ideal, day.requests / trial.needed
            groups[trial.group].append((wall, requests))
            days.append((wall, requests, f"{trial.group}: {trial.told}, seed {seed}"))
    print(f"{'':36}{'days':>6}{'wall / ideal':>22}{'requests / needed':>26}")
    print(f"{'':36}{'':>6}{'median':>8}{'9 in 10':>8}{'worst':>8}{'median':>10}{'9 in 10':>8}{'worst':>8}")
    for name, found in [*groups.items(), ("all", [day[:2] for day in days])]:
        cells = [_spread([each[which] for each in found]) for which in (0, 1)]
        print(f"{name:36}{len(found):6}{cells[0]}  {cells[1]}")
    for wall, requests, told in sorted(days, reverse=True)[: given.worst]:
        print(f"{wall:8.2f} × ideal, {requests:5.2f} × requests  {told}")


def _spread(values: list[float]) -> str:
    ordered = sorted(values)
    return f"{median(values):8.2f}{ordered[int(0.9 * (len(ordered) - 1))]:8.2f}{ordered[-1]:8.2f}"


if __name__ == "__main__":
    main()
