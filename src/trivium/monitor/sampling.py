"""Decides which interactions are sampled, with a probability that is known and kept (spec: metrics, M.1).

An interaction is sampled if u < p. u is the first 8 bytes of the BLAKE2b digest of salt, a NUL byte and the
trace id (UTF-8), as a big-endian integer divided by 2**64: the same trace is sampled by every process or by
none, and a higher rate samples all that a lower one does.

p is the highest of ``sample_rate`` and the rates of the rules that hold, divided by 2**h. h is the number of
halvings that keep the samples of an hour below ``per_hour``: as many as the hour before had needed, and one
more each time that half of the room left is used up. h depends only on interactions that were decided before,
so p is known, given the past, before u is looked at; estimates that weight each sample by 1 / p are unbiased.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from threading import Lock

from sqlalchemy import func, select

from trivium.monitor.interaction import Interaction
from trivium.store import schema
from trivium.store.connection import explain_errors
from trivium.store.live_counts import HOUR
from trivium.store.live_records import Choice
from trivium.store.live_samples import recent_confidences
from trivium.store.store import Store
from trivium.suites.monitor_settings import MonitorSettings, SamplingRule

MAX_HALVINGS = 10
"""The probabilities are lowered to 1/1024 of the rates at the least, so that weights are bounded."""

UNSCALED = "unscaled"
"""Event of the counts: how many samples there would have been without halvings, estimated by 2**h each."""

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
        clock: Gives the Unix time.
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
        self._first_halvings = 0
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
            halvings = self._halvings()
            probability = rate / 2**halvings
            sampled = draw(interaction.trace_id, self.settings.salt) < probability
            self._sampled += sampled
        return Choice(
            monitor=self.monitor,
            sampled=sampled,
            probability=probability,
            rule=rule,
            weight=self.settings.sample_rate / rate,
            unscaled=2**halvings,
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

    def _halvings(self) -> int:
        if self.settings.per_hour is None:
            return 0
        left = 1 - self._sampled / self.settings.per_hour
        within = MAX_HALVINGS if left <= 0 else math.floor(-math.log2(left))
        return min(MAX_HALVINGS, self._first_halvings + within)

    def _refresh(self, now: float) -> None:
        """Read what all processes have counted, if that is some time ago or the hour is a new one."""
        hour = int(now // HOUR)
        if hour == self._hour and now - self._refreshed < REFRESH_SECONDS:
            return
        self._refreshed = now
        if self.settings.per_hour is not None:
            self._sampled = self._count("sampled", hour)
            if hour != self._hour:
                expected = self._count(UNSCALED, hour - 1)
                needed = math.ceil(math.log2(max(1.0, expected / self.settings.per_hour)))
                self._first_halvings = min(MAX_HALVINGS, needed)
        if any(rule.unsure is not None for rule in self.settings.rules):
            self._confidences = recent_confidences(self._store, self.monitor, latest=RECENT_SAMPLES)
        self._hour = hour

    def _count(self, event: str, hour: int) -> int:
        table = schema.live_counts
        query = select(func.sum(table.c.number)).where(
            table.c.monitor == self.monitor, table.c.hour == hour, table.c.event == event
        )
        with explain_errors(self._store.engine), self._store.engine.connect() as connection:
            return int(connection.execute(query).scalar() or 0)


def rule_name(rule: SamplingRule) -> str:
    """A rule in words, such as ``errors, tag=vip``: what its samples are counted under."""
    parts = [] if rule.errors is None else ["errors" if rule.errors else "no errors"]
    parts += [f"{name}={value}" for name in ("tag", "agent") if (value := getattr(rule, name)) is not None]
    if rule.unsure is not None:
        parts.append(f"unsure<{rule.unsure:g}")
    return ", ".join(parts)[:200] or "all"


def choices(samplers: Sequence[Sampler], interaction: Interaction) -> list[Choice]:
    """What each monitor that watches the interaction's service does."""
    return [each.decide(interaction) for each in samplers if each.watches(interaction.service)]
