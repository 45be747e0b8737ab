"""How close the limiter of judges comes to what providers allow, in virtual time.

    python -m benchmarks.judge_limits                 # every scenario, eight seeds each
    python -m benchmarks.judge_limits bucket outage   # scenarios whose name contains one of the words
    python -m benchmarks.judge_limits --seeds 30

Runs the real scheduler, limiter and retries against a simulated provider and a virtual clock; equal seeds
give equal results. The ideal wall time is what the provider needs for the same number of answers if every
request comes neither too early nor too late; the ideal number of requests counts the answered ones and
those that fail at random.
"""

import argparse
from collections.abc import Iterator
from math import ceil
from statistics import median
from typing import NamedTuple

from tests.metrics.judge.client.provider_in_virtual_time import Weather, spend_a_day

MOST_A_SECOND = 500
"""Upper bound on requests per second: one core cannot send more."""


class Scenario(NamedTuple):
    """A provider, the number of judgements, and the limit on requests in flight."""

    name: str
    weather: Weather
    judgements: int = 500
    most: int = 50
    late: float = 0.0005

    def ideal(self, phase: float) -> float:
        """Seconds; ``phase`` is the share of the first window that is over at the start."""
        weather, most = self.weather, self.most
        halves = [(weather, self.judgements)]
        if weather.then is not None:
            halves = [(weather, weather.change_at), (weather.then, self.judgements - weather.change_at)]
        out = weather.outage[1] - weather.outage[0] if weather.outage else 0.0
        return out + sum(_seconds(each, count, most, phase) for each, count in halves)


def _seconds(weather: Weather, judgements: int, most: int, phase: float) -> float:
    at_once = min(most, weather.slots or most)
    good = 1 - weather.refused - weather.failing
    travel = weather.latency + 2 * weather.trip
    busy = travel + weather.refused / good * (weather.refusal + 2 * weather.trip)
    longest = max(ceil(judgements / at_once) * busy, judgements / MOST_A_SECOND)
    if weather.rate is None:
        return longest
    through = judgements / good
    if weather.window is None:
        return max(longest, (through - weather.burst) / weather.rate + travel)
    windows = ceil(through / (weather.rate * weather.window)) - 1
    if weather.fixed and windows:
        windows -= phase
    return max(longest, windows * weather.window + travel)


def scenarios() -> Iterator[Scenario]:
    """Every scenario."""
    yield from _without_a_limit()
    yield from _buckets()
    yield from _windows()
    yield from _turns()


def _without_a_limit() -> Iterator[Scenario]:
    for most in (8, 50, 100):
        yield Scenario(f"no limit, {most} in flight", Weather(), most=most)
    for latency in (0.02, 2.0):
        yield Scenario(f"no limit, {latency:g} s", Weather(latency=latency))
    yield Scenario("no limit, latency 0.2 s, spread", Weather(spread=0.5))
    yield Scenario("errors: 10% 429, 5% 500", Weather(refused=0.1, failing=0.05))
    yield Scenario("errors, far away", Weather(refused=0.1, failing=0.05, trip=0.04))
    yield Scenario("errors, 8 in flight", Weather(refused=0.1, failing=0.05), most=8)
    for refused in (0.3, 0.5, 0.7):
        yield Scenario(f"{refused:.0%} 429", Weather(refused=refused))
        yield Scenario(f"{refused:.0%} 429, slow", Weather(refused=refused, refusal=0.1))
    yield Scenario("30% 429, Retry-After 1", Weather(refused=0.3, refused_retry_after=1))


def _buckets() -> Iterator[Scenario]:
    for rate in (2, 10, 25, 100):
        for burst in (1, 5, 25):
            yield Scenario(f"bucket {rate}/s of {burst}", Weather(rate=rate, burst=burst))
    for burst in (1, 25, 100):
        yield Scenario(f"bucket 25/s of {burst}, 8 in flight", Weather(rate=25, burst=burst), most=8)
    for latency in (0.02, 2.0):
        yield Scenario(f"bucket 25/s, {latency:g} s", Weather(rate=25, latency=latency), most=100)
    yield Scenario("bucket 25/s, slow refusals", Weather(rate=25, refusal=0.1))
    yield Scenario("bucket 25/s, far away", Weather(rate=25, trip=0.04))
    yield Scenario("bucket 25/s of 5, far away", Weather(rate=25, burst=5, trip=0.04))
    yield Scenario("bucket 25/s, slow at first", Weather(rate=25, cold=0.02))
    near = {"out": 0.0006, "trip": 0.0003, "refusal": 0.001}
    turned = Weather(rate=25, change_at=250, then=Weather(rate=50, **near), **near)
    for rate in (5, 25, 60, 100, 200):
        yield Scenario(f"near bucket {rate}/s", Weather(rate=rate, **near), late=0.0001)
    yield Scenario("near bucket 25.5/s", Weather(rate=25.5, **near), late=0.0001)
    yield Scenario("near bucket 24/s", Weather(rate=24, **near), late=0.0001)
    yield Scenario("near bucket 25/s and 5% 429", Weather(rate=25, refused=0.05, **near), late=0.0001)
    yield Scenario("near bucket 25/s of 5", Weather(rate=25, burst=5, **near), late=0.0001)
    yield Scenario("near bucket 25/s, then 50/s", turned, late=0.0001)
    yield Scenario("bucket 25/s, late timers", Weather(rate=25), late=0.002)
    yield Scenario("bucket 25/s, exact Retry-After", Weather(rate=25, retry_after_step=0.001))
    yield Scenario("bucket 25/s, Retry-After in seconds", Weather(rate=25, retry_after_step=1))
    yield Scenario(
        "bucket 25/s of 25, Retry-After in seconds", Weather(rate=25, burst=25, retry_after_step=1)
    )
    for refused in (0.1, 0.3, 0.5):
        yield Scenario(f"bucket 25/s and {refused:.0%} 429", Weather(rate=25, refused=refused))
    yield Scenario("bucket 25/s and errors", Weather(rate=25, refused=0.1, failing=0.05))
    yield Scenario("bucket 25/s of 25 and 10% 429", Weather(rate=25, burst=25, refused=0.1))
    yield Scenario("bucket 100/s and 10% 429", Weather(rate=100, refused=0.1))
    yield Scenario("window 25/s and 10% 429", Weather(rate=25, window=1, refused=0.1))


def _windows() -> Iterator[Scenario]:
    for kind, fixed in (("sliding", False), ("fixed", True)):
        for most in (8, 50):
            yield Scenario(
                f"{kind} 25 in 1 s, {most} in flight", Weather(rate=25, window=1, fixed=fixed), most=most
            )
        yield Scenario(f"{kind} 100 in 1 s", Weather(rate=100, window=1, fixed=fixed))
        yield Scenario(f"{kind} 100 in 10 s", Weather(rate=10, window=10, fixed=fixed))
        yield Scenario(f"{kind} 600 in 60 s", Weather(rate=10, window=60, fixed=fixed), judgements=1000)
        yield Scenario(
            f"{kind} 600 in 60 s, Retry-After",
            Weather(rate=10, window=60, fixed=fixed, retry_after_step=1),
            judgements=1000,
        )
    for slots in (5, 20):
        yield Scenario(f"{slots} at once, else 429", Weather(slots=slots, queues=False))
        yield Scenario(f"{slots} at once, else queued", Weather(slots=slots))
    yield Scenario(
        "20 at once, else 429, and errors", Weather(slots=20, queues=False, refused=0.1, failing=0.05)
    )


def _turns() -> Iterator[Scenario]:
    for before, after in ((25, 100), (100, 25), (10, 50), (50, 10)):
        turned = Weather(rate=before, change_at=500, then=Weather(rate=after))
        yield Scenario(f"{before}/s, then {after}/s", turned, judgements=1000)
    yield Scenario("no limit, then 25/s", Weather(change_at=500, then=Weather(rate=25)), judgements=1000)
    yield Scenario("25/s, then no limit", Weather(rate=25, change_at=500, then=Weather()), judgements=1000)
    slow = Weather(latency=1, change_at=1000, then=Weather())
    yield Scenario("0.2 s, then 1 s", Weather(change_at=1000, then=Weather(latency=1)), judgements=2000)
    yield Scenario("1 s, then 0.2 s", slow, judgements=2000)
    for kind in ("provider_error", "rate_limited", "connection"):
        for seconds in (5, 20):
            weather = Weather(outage=(1, 1 + seconds), outage_kind=kind)
            yield Scenario(f"outage of {seconds} s, {kind}", weather)
    yield Scenario("bucket 25/s, outage of 5 s", Weather(rate=25, outage=(5, 10)))
    yield Scenario(
        "bucket 25/s, outage of 5 s, limited", Weather(rate=25, outage=(5, 10), outage_kind="rate_limited")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--seeds", type=int, default=8)
    given = parser.parse_args()
    print(f"{'':36}{'wall / ideal':>26}{'requests / needed':>28}{'lost':>6}")
    print(f"{'':36}{'median':>10}{'9 in 10':>8}{'worst':>8}{'median':>12}{'9 in 10':>8}{'worst':>8}")
    for scenario in scenarios():
        if given.words and not any(word in scenario.name for word in given.words):
            continue
        walls, requests, lost = [], [], 0
        for seed in range(given.seeds):
            day = spend_a_day(
                scenario.weather,
                judgements=scenario.judgements,
                most=scenario.most,
                late=scenario.late,
                seed=seed,
                timeout=60,
            )
            walls.append(day.seconds / scenario.ideal(day.phase))
            needed = scenario.judgements / (1 - scenario.weather.refused - scenario.weather.failing)
            requests.append(day.requests / needed)
            lost += day.lost
        print(f"{scenario.name:36}  {_spread(walls)}    {_spread(requests)}{lost:6}", flush=True)


def _spread(values: list[float]) -> str:
    ordered = sorted(values)
    return f"{median(values):8.2f}{ordered[ceil(0.9 * len(ordered)) - 1]:8.2f}{ordered[-1]:8.2f}"


if __name__ == "__main__":
    main()
