"""The sampled interactions are exactly those of a hash; their probabilities are the ones that are kept."""

from collections import Counter
from hashlib import blake2b

import numpy as np
import pytest

from trivium.monitor.interaction import Interaction
from trivium.monitor.sampling import SMALLEST_SCALE, Sampler, choices, draw
from trivium.store.live_counts import HOUR, Counts, add_counts
from trivium.store.store import Store
from trivium.suites.monitor_settings import MonitorSettings, SamplingRule
from trivium.traces.trace import Span, Trace
from trivium.trust import weighted_mean


class CountsInMemory(Sampler):
    """A sampler whose counts are those of its own decisions, as one process would store them."""

    def __init__(self, settings: MonitorSettings, clock) -> None:
        super().__init__("m", settings, None, clock=clock)
        self.counts: Counter[tuple[str, int]] = Counter()

    def decide(self, interaction):
        choice = super().decide(interaction)
        if choice.sampled:
            hour = int(self._clock() // HOUR)
            self.counts["sampled", hour] += 1
            self.counts["unscaled", hour] += choice.unscaled
        return choice

    def _count(self, event: str, hour: int) -> int:
        return self.counts[event, hour]


def sampler(clock=lambda: 0.0, **settings) -> CountsInMemory:
    rules = tuple(SamplingRule(**rule) for rule in settings.pop("rules", ()))
    return CountsInMemory(MonitorSettings(rules=rules, **settings), clock)


def interaction(
    name: str = "t", *, error: str | None = None, agent: str | None = None, **fields
) -> Interaction:
    spans = () if agent is None else (Span(id="a", kind="agent", name=agent, start=0.0, end=1.0),)
    trace = Trace(trace_id=name, spans=spans)
    return Interaction(trace_id=name, time=0.0, error=error, trace=trace, **fields)


def test_the_draw_is_the_documented_hash():
    digest = blake2b(b"salt\0trace").digest()
    assert draw("trace", "salt") == int.from_bytes(digest[:8], "big") / 2**64
    assert draw("trace") != draw("trace", "salt")


def test_draws_are_uniform():
    draws = np.sort([draw(f"t{number}") for number in range(20_000)])
    distance = np.abs(draws - (np.arange(20_000) + 0.5) / 20_000).max()
    assert distance < 1.95 / np.sqrt(20_000)  # Kolmogorov-Smirnov; fixed ids, so it fails always or never


def test_a_higher_rate_samples_all_that_a_lower_one_does():
    taken = {
        rate: {
            number
            for number in range(2000)
            if sampler(sample_rate=rate).decide(interaction(f"t{number}")).sampled
        }
        for rate in (0.01, 0.1, 0.5)
    }
    assert taken[0.01] < taken[0.1] < taken[0.5]
    assert taken[0.1] == {number for number in range(2000) if draw(f"t{number}") < 0.1}


@pytest.mark.parametrize(
    ("rule", "taken", "left", "name"),
    [
        ({"errors": True}, {"error": "no"}, {}, "errors"),
        ({"errors": False}, {}, {"error": "no"}, "no errors"),
        ({"tag": "vip"}, {"tags": ("vip", "x")}, {"tags": ("x",)}, "tag=vip"),
        ({"agent": "writer"}, {"agent": "writer"}, {"agent": "other"}, "agent=writer"),
        (
            {"errors": True, "tag": "vip"},
            {"error": "no", "tags": ("vip",)},
            {"error": "no"},
            "errors, tag=vip",
        ),
        ({}, {}, None, "all"),
    ],
)
def test_a_rule_raises_the_probability_of_what_it_holds_for(rule, taken, left, name):
    one = sampler(sample_rate=0.01, rules=[rule | {"rate": 0.5}])
    choice = one.decide(interaction(**taken))
    assert (choice.probability, choice.rule, choice.weight) == (0.5, name, 0.02)
    if left is not None:
        choice = one.decide(interaction(**left))
        assert (choice.probability, choice.rule, choice.weight) == (0.01, "", 1.0)


def test_the_highest_rate_counts_and_a_rule_never_lowers_it():
    rules = [{"errors": True, "rate": 0.2}, {"tag": "vip", "rate": 0.6}, {"agent": "a", "rate": 0.01}]
    one = sampler(sample_rate=0.1, rules=rules)
    assert one.decide(interaction(error="no", tags=("vip",))).probability == 0.6
    assert one.decide(interaction(agent="a")).probability == 0.1


def test_agents_of_which_the_judge_is_unsure_are_sampled_more(tmp_path, monkeypatch):
    seen = iter([{}, {"sure": 0.9, "unsure": 0.4}])
    monkeypatch.setattr("trivium.monitor.sampling.recent_confidences", lambda *_, **__: next(seen))
    now = [0.0]
    one = sampler(lambda: now[0], sample_rate=0.1, rules=[{"unsure": 0.5, "rate": 0.8}])
    assert one.decide(interaction(agent="unsure")).probability == 0.1  # nothing is known yet
    now[0] = 6.0
    assert one.decide(interaction(agent="unsure")).rule == "unsure<0.5"
    assert one.decide(interaction(agent="sure")).probability == 0.1


def test_only_named_services_are_watched():
    every, mine = sampler(), sampler(services=("mine",))
    assert [each.watches("mine") for each in (every, mine)] == [True, True]
    assert [each.watches("other") for each in (every, mine)] == [True, False]
    assert len(choices([every, mine], interaction(service="other"))) == 1


def test_the_samples_of_an_hour_stay_near_the_number_that_is_asked_for():
    """Also when the traffic grows a hundredfold, and with the forecast of the hour before."""
    now = [0.0]
    one = sampler(lambda: now[0], sample_rate=0.5, per_hour=100)
    sampled = Counter()
    traffic = [500, 500, 50_000, 50_000, 500]
    number = 0
    for hour, arrivals in enumerate(traffic):
        for arrival in range(arrivals):
            now[0] = (hour + arrival / arrivals) * HOUR
            number += 1
            sampled[hour] += one.decide(interaction(f"t{number}")).sampled
    assert all(85 <= sampled[hour] <= 115 for hour in range(4)), sampled
    assert 20 <= sampled[4] <= 115  # the hour before made it expect a hundred times as much


def test_the_scale_has_an_end():
    one = sampler(lambda: 1.0, sample_rate=1.0, per_hour=1)
    for number in range(100):
        choice = one.decide(interaction(f"t{number}"))
    assert choice.probability == SMALLEST_SCALE
    assert choice.weight == 1.0


def test_the_counts_of_other_processes_count(tmp_path):
    settings = MonitorSettings(sample_rate=1.0, per_hour=8)
    now = [10.5 * HOUR]
    with Store(str(tmp_path / "store.db")) as store:

        def add(**counts: int) -> None:
            with store.engine.begin() as connection:
                mine = {("m", event, ""): number for event, number in counts.items()}
                add_counts(connection, Counts({**mine, ("other", "sampled", ""): 99}), now[0])

        one = Sampler("m", settings, store, clock=lambda: now[0])
        assert one.decide(interaction("a")).probability == 1.0
        add(sampled=4, unscaled=8000)
        assert one.decide(interaction("b")).probability == 1.0  # counts are read every five seconds
        now[0] += 6
        assert one.decide(interaction("c")).probability == pytest.approx(4 / 8, rel=0.02)
        add(unscaled=24_000)
        now[0] = 11 * HOUR
        assert one.decide(interaction("d")).probability == pytest.approx(8 / 32)


LIFE = 1000


def life(seed: int, rules, *, per_hour=None) -> tuple[float, list[float], list[float]]:
    """Pass rate of all interactions of a life, and values and probabilities of the sampled ones."""
    rng = np.random.default_rng(seed)
    now = [0.0]
    one = sampler(lambda: now[0], sample_rate=0.05, rules=rules, per_hour=per_hour)
    one.settings = MonitorSettings(
        sample_rate=0.05, salt=str(seed), rules=one.settings.rules, per_hour=per_hour
    )
    everything, values, probabilities = [], [], []
    for number in range(LIFE):
        now[0] = number * 4 * HOUR / LIFE
        failed = bool(rng.random() < 0.2)
        vip = bool(rng.random() < 0.1)
        passed = float(not failed and rng.random() < (0.6 if vip else 0.9))
        everything.append(passed)
        choice = one.decide(
            interaction(f"t{number}", error="no" if failed else None, tags=("vip",) if vip else ())
        )
        if choice.sampled:
            values.append(passed)
            probabilities.append(choice.probability)
    return float(np.mean(everything)), values, probabilities


@pytest.mark.parametrize(
    ("rules", "per_hour"),
    [
        ((), None),
        (({"errors": True, "rate": 1.0}, {"tag": "vip", "rate": 0.5}), None),
        (({"errors": True, "rate": 1.0},), 50),
    ],
)
def test_weighted_estimates_are_unbiased_whatever_the_rules(rules, per_hour):
    """The total by inverse probability is unbiased, and the 95 % interval of the mean covers it."""
    lives = 40
    errors, covered = [], 0
    for seed in range(lives):
        truth, values, probabilities = life(seed, rules, per_hour=per_hour)
        estimate = weighted_mean(values, probabilities)
        covered += estimate.low <= truth <= estimate.high
        errors.append(sum(value / p for value, p in zip(values, probabilities, strict=True)) / LIFE - truth)
    spread = np.std(errors, ddof=1) / np.sqrt(lives)
    assert abs(np.mean(errors)) < 4 * spread
    assert covered >= 33  # with a coverage of 95 %, less once in 2,000 tries; the seeds are fixed
