"""Decides when an alert opens, changes and is resolved, and which of these changes send a message.

**One message for one cause.** A figure can be bad over all traffic and for many values of facets at once. All
that would be fine without the samples of one agent (tool, tag, model, version, service) belongs to one alert,
which names that cause (:mod:`trivium.monitor.alerting.origins`). What is bad for another
reason opens another alert. "Scoring has stalled" and "no data" are causes of their own.

**When.** A mean that falls below a threshold opens an alert, or raises it, once that is sure (with
``only_sure: false``, at once). It stays until the window's mean is above the threshold by ``hysteresis``. A
mean that is worse than before the last deployment opens an alert ``worse``. Between two messages about one
cause ``cool_down`` passes; only the first escalation to ``critical`` does not wait. What is undone meanwhile
is not sent at all.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from trivium.monitor.alerting.messages import Bad, Kind, Message, of_outage, of_quality, over
from trivium.monitor.alerting.origins import Origin, Part, explained, followed, origin_of
from trivium.monitor.levels import Key, Levels, key_of, key_text
from trivium.monitor.windows import Estimate, Window, mean_of
from trivium.store.live_samples import Sample
from trivium.suites.monitor_settings import MonitorSettings
from trivium.trust.decision import probability_of_missing
from trivium.values import resolved

Cause = Literal["quality", "stalled", "no_data"]

NAMES = {1: "worse", 2: "warning", 3: "critical"}
"""Statuses of an alert, by severity."""

FEWEST_UNSURE = 10
"""Samples that a value of a facet needs for an alert that is not sure."""


class Open(msgspec.Struct, kw_only=True):
    """An alert that is firing.

    Attributes:
        cause: Its cause.
        number: Its number in the store; 0 until it is stored.
        id: Drawn once, so that no other alert of any store has it.
        opened: Unix time.
        severity: 0 none, 1 worse, 2 warning, 3 critical.
        worst: The highest severity so far.
        origin: Its cause; None if none was found.
        tests: How often the cause was looked for.
        tested: Number of the newest sample then.
        pool: Number of samples then.
        told: Severity that the last message stated; 0 before the first one.
        messages: Number of messages so far.
        body: Its latest message.
    """

    cause: Cause
    number: int = 0
    id: str = ""
    opened: float
    severity: int = 0
    worst: int = 0
    origin: Origin | None = None
    tests: int = 0
    tested: int = 0
    pool: int = 0
    told: int = 0
    messages: int = 0
    body: Message | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What has changed of an alert.

    Attributes:
        alert: The alert.
        message: What there is to say about it now.
        changed: Whether its status is another one than at the last look.
        resolved: Whether it is over.
        send: Whether the message is sent.
        beside: The other alerts about quality that fire at the same time.
    """

    alert: Open
    message: Message
    changed: bool = False
    resolved: bool = False
    send: bool = False
    beside: tuple[Open, ...] = ()


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether traffic comes, and is scored.

    Attributes:
        silent: Whether no traffic has come for ``no_data_after``.
        last: Unix time of the last traffic, or None.
        stalled: Whether a sample has waited longer than ``stalled_after``.
        waiting: Number of samples that wait.
        oldest_seconds: Age of the oldest.
    """

    silent: bool = False
    last: float | None = None
    stalled: bool = False
    waiting: int = 0
    oldest_seconds: float | None = None


@resolved
class AlertState(msgspec.Struct, kw_only=True):
    """The state that is kept from one look to the next.

    Attributes:
        open: The alerts that are firing.
        held: Severity of each mean that is bad, by figure, facet and value joined by NUL.
        told: Unix time of the last message about a cause, by cause and origin.
    """

    open: list[Open] = []
    held: dict[str, int] = {}
    told: dict[str, float] = {}


class Alerting:
    """The alerts of one monitor.

    Definition: docs/definitions/monitoring.md#alert.

    Args:
        monitor: Its name.
        settings: Its settings.
        state: What was kept at the last look.
    """

    def __init__(self, monitor: str, settings: MonitorSettings, state: AlertState) -> None:
        self.monitor = monitor
        self.settings = settings
        self.state = state

    def look(
        self, window: Window, samples: Sequence[Sample], levels: Levels, health: Health, now: float
    ) -> list[Event]:
        """Return the changes since the last look.

        Args:
            window: The window's estimates.
            samples: The window's samples.
            levels: What is sure. A mean that has recovered starts anew there.
            health: Whether traffic comes and is scored.
            now: Unix time.
        """
        bad = self._bad(window, samples, levels)
        events = self._quality(bad, samples, now)
        for key in (*self._recovered(bad), *self._over(window, bad, levels, now)):
            levels.restart(key, now)
        self.state.held = {key_text(each.key): each.severity for each in bad}
        events += self._simple("stalled", health.stalled, health, now)
        events += self._simple("no_data", health.silent, health, now)
        ended = [event.alert for event in events if event.resolved]
        self.state.open = [each for each in self.state.open if not any(each is other for other in ended)]
        return events

    # What is bad

    def _bad(self, window: Window, samples: Sequence[Sample], levels: Levels) -> list[Bad]:
        found = []
        for each in (*window.figures, *window.by):
            bad = self._severity(each, samples, levels)
            if bad is not None:
                found.append(bad)
        if not window.samples:  # nothing is known: what was bad still is
            for text, severity in self.state.held.items():
                figure, facet, value = key_of(text)
                found.append(
                    Bad(figure=figure, facet=facet, value=value, severity=severity, threshold=1.0, sure=False)
                )
        return found

    def _severity(self, each: Estimate, samples: Sequence[Sample], levels: Levels) -> Bad | None:
        key = (each.figure, each.facet, each.value)
        held = self.state.held.get(key_text(key), 0)
        thresholds = self.settings.figures.get(each.figure)
        margin = self.settings.alerts.hysteresis
        if each.mean is None:
            return None
        limits = () if thresholds is None else ((3, thresholds.critical), (2, thresholds.warning))
        for severity, threshold in limits:
            sure = levels.sure_below(key, threshold)
            fires = each.mean < threshold and (sure or self._unsure_is_enough(each, samples, threshold))
            stays = held >= severity and each.mean < threshold + margin
            if fires or stays:
                return _made(each, _having(samples, each), severity, threshold, sure=sure)
        level = levels.level(key)
        if level is None or not level.alarm or level.detector is None:
            return None
        since = [sample for sample in _having(samples, each) if sample.time >= levels.since]
        limit = level.detector.limit
        found = _made(each, since, 1, limit, sure=True, before=level.detector.reference)
        return found if found is not None and (found.mean or 0.0) < limit + margin else None

    def _unsure_is_enough(self, each: Estimate, samples: Sequence[Sample], threshold: float) -> bool:
        """Whether a status that is not sure fires; a facet's interval must also lie below the threshold."""
        if self.settings.alerts.only_sure:
            return False
        if not each.facet:
            return True
        if each.samples < FEWEST_UNSURE:
            return False
        found = mean_of(_having(samples, each), each.figure)
        return found is not None and found.high < threshold

    def _recovered(self, bad: Sequence[Bad]) -> set[Key]:
        """The means that are not bad any more."""
        return {key_of(text) for text in self.state.held} - {each.key for each in bad}

    def _over(self, window: Window, bad: Sequence[Bad], levels: Levels, now: float) -> set[Key]:
        """The means that once were surely low, and for as long as the window is long have not been bad.

        What is sure stays sure; later it would say of a window that is low by chance that it surely is.
        """
        found, still = set(), {each.key for each in bad}
        for each in (*window.figures, *window.by):
            key = (each.figure, each.facet, each.value)
            level = levels.level(key)
            if level is None or level.sure is None or key in still or each.mean is None:
                continue
            limit = max(filter(level.sequence.sure_below, level.sequence.thresholds), default=1.0)
            margin = self.settings.alerts.hysteresis
            if each.mean >= limit + margin and now - level.sure >= self.settings.window:
                found.add(key)
        return found

    # What belongs to which alert

    def _quality(self, bad: Sequence[Bad], samples: Sequence[Sample], now: float) -> list[Event]:
        left, rest = list(bad), list(samples)
        events: list[Event] = []
        for alert in [each for each in self.state.open if each.cause == "quality"]:
            mine = [each for each in left if _belongs(each, alert.origin, rest)]
            if mine:
                before = _cause(alert)
                self._seek(alert, mine, rest)
                if before in self.state.told:
                    self.state.told[_cause(alert)] = self.state.told[before]
            events.append(self._changed(alert, mine, rest, now, _causes(events)))
            left, rest = [each for each in left if each not in mine], _without(rest, alert.origin)
        while left:
            alert = Open(cause="quality", opened=now)
            self._seek(alert, left, rest)
            mine = [each for each in left if _belongs(each, alert.origin, rest)] or left
            self.state.open.append(alert)
            events.append(self._changed(alert, mine, rest, now, _causes(events)))
            left, rest = [each for each in left if each not in mine], _without(rest, alert.origin)
        firing = [each.alert for each in events if not each.resolved]
        return [
            msgspec.structs.replace(each, beside=tuple(other for other in firing if other is not each.alert))
            for each in events
        ]

    def _seek(self, alert: Open, bad: Sequence[Bad], samples: Sequence[Sample]) -> None:
        """Look for the cause of the worst of some bad means; how one that was named does is only followed.

        A look comes only after as many new samples as the one before it had, and has half of its error, so
        that an alert without a cause is given one with a probability of at most ``alpha``.
        """
        worst = _worst(bad)
        expected = worst.before if worst.before is not None else worst.threshold
        facets = self.settings.by
        if alert.origin is not None:
            alert.origin = followed(samples, worst.figure, facets, alert.origin, expected=expected)
            return
        if alert.tests and sum(each.number > alert.tested for each in samples) < alert.pool:
            return
        alert.tests, alert.pool = alert.tests + 1, len(samples)
        alert.tested = max((each.number for each in samples), default=0)
        whole = any(not each.facet for each in bad if each.figure == worst.figure)
        parts = None if whole else [(each.facet, each.value) for each in bad if each.figure == worst.figure]
        alpha = self.settings.alpha / 2**alert.tests
        alert.origin = origin_of(samples, worst.figure, facets, expected=expected, alpha=alpha, among=parts)

    def _changed(
        self,
        alert: Open,
        bad: Sequence[Bad],
        samples: Sequence[Sample],
        now: float,
        without: tuple[Part, ...],
    ) -> Event:
        severity = max((each.severity for each in bad), default=0)
        about = Message(
            monitor=self.monitor,
            time=now,
            opened=alert.opened,
            previous=NAMES.get(alert.told),
            origin=alert.origin,
        )
        if not severity:
            return self._event(alert, 0, over(about, alert.body, samples), now)
        if alert.body is not None and all(each.mean is None for each in bad):
            return self._event(alert, severity, alert.body, now)
        kind: Kind = "firing" if not alert.told else "escalated" if severity > alert.told else "eased"
        about = msgspec.structs.replace(about, kind=kind, status=NAMES[severity], without=without)
        return self._event(alert, severity, of_quality(about, bad, samples, self.settings), now)

    # Stalled, no data

    def _simple(self, cause: Cause, firing: bool, health: Health, now: float) -> list[Event]:
        alert = next((each for each in self.state.open if each.cause == cause), None)
        if alert is None and not firing:
            return []
        if alert is None:
            alert = Open(cause=cause, opened=now)
            self.state.open.append(alert)
        about = Message(
            monitor=self.monitor,
            cause=cause,
            time=now,
            opened=alert.opened,
            waiting=health.waiting,
            oldest_seconds=health.oldest_seconds,
            last=health.last,
        )
        message = of_outage(about, self.settings) if firing else over(about, alert.body, ())
        return [self._event(alert, 3 if firing else 0, message, now)]

    # Whether a message is sent

    def _event(self, alert: Open, severity: int, message: Message, now: float) -> Event:
        """Decide whether the message is sent, and note it in the alert's state."""
        cause = _cause(alert)
        changed = severity != alert.told
        waits = abs(now - self.state.told.get(cause, float("-inf"))) < self.settings.alerts.cool_down
        first_critical = severity == 3 and alert.worst in {1, 2} and alert.told in {1, 2}
        send = changed and (not waits or first_critical)
        if not severity and not alert.told:
            send = False  # nobody was told that it fired
        ended = not severity and (send or not alert.told)
        moved = severity != alert.severity or not alert.number
        alert.severity, alert.worst = severity, max(alert.worst, severity)
        alert.body = message
        if send:
            alert.told = severity
            alert.messages += 1
            self.state.told[cause] = now
        self._forget(now)
        return Event(alert=alert, message=message, changed=moved, resolved=ended, send=send)

    def _forget(self, now: float) -> None:
        """Forget when messages were sent that no longer hold others back."""
        wait = self.settings.alerts.cool_down
        self.state.told = {cause: time for cause, time in self.state.told.items() if abs(now - time) < wait}


def _belongs(bad: Bad, origin: Origin | None, samples: Sequence[Sample]) -> bool:
    part = None if origin is None else (origin.facet, origin.value)
    return explained(samples, bad.figure, (bad.facet, bad.value), part, bad.threshold)


def _causes(events: Sequence[Event]) -> tuple[Part, ...]:
    return tuple(each.alert.origin.part for each in events if each.alert.origin is not None)


def _without(samples: Sequence[Sample], origin: Origin | None) -> list[Sample]:
    """The samples that an origin does not explain."""
    if origin is None:
        return list(samples)
    return [each for each in samples if origin.value not in each.facets.get(origin.facet, ())]


def _having(samples: Sequence[Sample], each: Estimate) -> list[Sample]:
    if not each.facet:
        return list(samples)
    return [sample for sample in samples if each.value in sample.facets.get(each.facet, ())]


def _made(
    each: Estimate,
    samples: Sequence[Sample],
    severity: int,
    threshold: float,
    *,
    sure: bool,
    before: float | None = None,
) -> Bad | None:
    """A mean of some samples that is below a threshold; None if no sample has a value."""
    found = mean_of(samples, each.figure)
    if found is None:
        return None
    about = {name: getattr(each, name) for name in ("figure", "facet", "value")}
    about |= {name: getattr(found, name) for name in ("mean", "low", "high")}
    below = probability_of_missing(found.mean, found, at_least=threshold)
    about |= {"severity": severity, "threshold": threshold, "sure": sure, "before": before, "below": below}
    return Bad(**about, samples=found.n)


def _worst(bad: Sequence[Bad]) -> Bad:
    """The worst mean, all traffic before facets."""
    return max(bad, key=lambda each: (not each.facet, each.severity, each.samples))


def _cause(alert: Open) -> str:
    origin = alert.origin
    return alert.cause if origin is None else f"{alert.cause} {origin.facet} {origin.value}"
