"""Decides which interactions are sampled, with a probability that is known and kept.

Definition: docs/definitions/monitoring.md#sampling-probability.

An interaction is sampled if u < p. u is the first 8 bytes of the BLAKE2b digest of salt, a NUL byte and the
trace id (UTF-8), as a big-endian integer divided by 2**64: the same trace is sampled by every process or by
none, and a higher rate samples all that a lower one does.

p is the highest of ``sample_rate`` and the rates of the rules that hold, times a scale that keeps the
samples of an hour near ``per_hour``: the room that is left, divided by the samples that there would be
without a scale in the rest of the hour, as the hour so far and the one before say. The scale depends only on
interactions that were decided before, so p is known, given the past, before u is looked at; estimates that
weight each sample by 1 / p are unbiased.

A trace that is decided again, because a span came late, counts with the highest of its probabilities. As u is
the same each time, that is exactly the probability with which it is sampled at any of the decisions, and
estimates stay unbiased. With ``per_hour`` this is an approximation: the sample that a trace is lowers the
scale of its own later decision a little. In simulations where the rate of *every* trace may double with a
late span, the estimated size of the traffic is 3 % too high at ``per_hour: 100`` and 19 % at
``per_hour: 10``; with fewer such traces it is smaller.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from threading import Lock

from trivium.monitor.interaction import Interaction, encode_recorded
from trivium.store.live_counts import HOUR, count_in_hour
from trivium.store.live_records import Choice, RecordedTrace
from trivium.store.live_samples import recent_confidences
from trivium.store.store import Store
from trivium.suites.monitor_settings import MonitorSettings, SamplingRule

SMALLEST_SCALE = 1 / 1024
"""The probabilities are lowered to this share of the rates at the least, so that weights are bounded."""

UNSCALED = "unscaled"
"""Event of the counts: thousandths of the samples that there would have been without a scale, estimated by
the inverse of the scale of each."""

PRIOR_HOURS = 0.1
"""How much of this hour the hour before counts as, in the forecast of the rest."""

REFRESH_SECONDS = 5.0
"""How old the counts of other processes may be."""

RECENT_SAMPLES = 50
"""Latest samples of an agent whose mean confidence says whether the judge is unsure of it."""

_DRAWS = 2.0**64


def draw(trace_id: str, salt: str = "") -> float:
    """U of a trace, in [0, 1)."""
    text = f"{salt}\0{trace_id}".encode(errors="replace")
    return int.from_bytes(blake2b(text).digest()[:8], "big") / _DRAWS


class Sampler:
    """Samples interactions for one monitor; safe for use by several threads.

    Args:
        monitor: Its name.
        settings: Its settings.
        store: Holds what other processes sampled, and how sure the judge was.
        clock: Returns the Unix time.
    """

    def __init__(
        self,
        monitor: str,
        settings: MonitorSettings,
        store: Store,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.monitor = monitor
        self.settings = settings
        self._store = store
        self._clock = clock
        self._lock = Lock()
        self._refreshed = -math.inf
        self._hour = -1
        self._sampled = 0
        self._unscaled = 0.0
        self._hour_before: float | None = None
        self._confidences: Mapping[str, float] = {}

    def watches(self, service: str | None) -> bool:
        """Whether the monitor watches a service."""
        return not self.settings.services or service in self.settings.services

    def decide(self, interaction: Interaction) -> Choice:
        """Say whether an interaction is sampled, and with which probability.

        Raises:
            StoreError: If the counts cannot be read, which ``per_hour`` and rules with ``unsure`` need.
        """
        with self._lock:
            self._refresh(self._clock())
            rate, rule = self._rate(interaction)
            scale = self._scale(self._clock())
            probability = rate * scale
            sampled = draw(interaction.trace_id, self.settings.salt) < probability
            unscaled = round(1000 / scale)
            if sampled:
                self._sampled += 1
                self._unscaled += unscaled / 1000
        return Choice(
            monitor=self.monitor,
            sampled=sampled,
            probability=probability,
            rule=rule,
            weight=self.settings.sample_rate / rate,
            unscaled=unscaled,
        )

    def _rate(self, interaction: Interaction) -> tuple[float, str]:
        """The highest rate, and the name of the rule that it comes from."""
        rate, name = self.settings.sample_rate, ""
        for rule in self.settings.rules:
            if rule.rate > rate and self._holds(rule, interaction):
                rate, name = rule.rate, rule_name(rule)
        return rate, name

    def _holds(self, rule: SamplingRule, interaction: Interaction) -> bool:
        agents = interaction.facets["agent"]
        if rule.errors is not None and rule.errors != interaction.failed:
            return False
        if rule.tag is not None and rule.tag not in interaction.tags:
            return False
        if rule.agent is not None and rule.agent not in agents:
            return False
        return rule.unsure is None or any(
            self._confidences.get(agent, math.inf) < rule.unsure for agent in agents
        )

    def _scale(self, now: float) -> float:
        """Factor that keeps the samples of this hour near the requested number."""
        if self.settings.per_hour is None:
            return 1.0
        elapsed = now / HOUR - self._hour
        weight = 0.0 if self._hour_before is None else PRIOR_HOURS
        seen = self._unscaled + weight * (self._hour_before or 0.0)
        an_hour = seen / max(weight + elapsed, 0.01)
        rest = an_hour * max(1 - elapsed, 0.02)
        room = self.settings.per_hour - self._sampled
        return min(1.0, max(SMALLEST_SCALE, room / rest)) if rest else 1.0

    def _refresh(self, now: float) -> None:
        """Read what all processes have counted, if that is some time ago or the hour is a new one."""
        hour = int(now // HOUR)
        if hour == self._hour and now - self._refreshed < REFRESH_SECONDS:
            return
        self._refreshed = now
        if self.settings.per_hour is not None:
            self._sampled = self._count("sampled", hour)
            self._unscaled = self._count(UNSCALED, hour) / 1000
            if hour != self._hour:
                # Hours without any sample say nothing: there may have been no monitor.
                self._hour_before = self._count(UNSCALED, hour - 1) / 1000 or None
        if any(rule.unsure is not None for rule in self.settings.rules):
            self._confidences = recent_confidences(self._store, self.monitor, latest=RECENT_SAMPLES)
        self._hour = hour

    def _count(self, event: str, hour: int) -> int:
        return count_in_hour(self._store, self.monitor, event, hour)


def rule_name(rule: SamplingRule) -> str:
    """A rule in words, such as ``errors, tag=vip``: what its samples are counted under."""
    parts = [] if rule.errors is None else ["errors" if rule.errors else "no errors"]
    parts += [f"{name}={value}" for name in ("tag", "agent") if (value := getattr(rule, name)) is not None]
    if rule.unsure is not None:
        parts.append(f"unsure<{rule.unsure:g}")
    return ", ".join(parts)[:200] or "all"


def choices(samplers: Sequence[Sampler], interaction: Interaction) -> list[Choice]:
    """What each monitor that watches the interaction's service does; nothing if it only sets agents up."""
    if interaction.trace is not None and interaction.trace.sets_up:
        return []
    return [each.decide(interaction) for each in samplers if each.watches(interaction.service)]


def recorded_trace(interaction: Interaction, samplers: Sequence[Sampler]) -> RecordedTrace:
    """An interaction as an application would have recorded it, with what each monitor does."""
    return RecordedTrace(
        trace_id=interaction.trace_id,
        body=encode_recorded(interaction),
        service=interaction.service,
        choices=choices(samplers, interaction),
    )
