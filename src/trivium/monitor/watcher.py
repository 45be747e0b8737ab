"""Looks at what was scored since the last look, and opens, changes and resolves alerts."""

import secrets
import time
from collections.abc import Callable, Iterable, Sequence

import msgspec

from trivium.monitor.alerting.alerts import Alerting, AlertState, Event, Health
from trivium.monitor.alerting.messages import Beside, Message, text_of
from trivium.monitor.levels import Key, Levels, references_of
from trivium.monitor.loop import Loop
from trivium.monitor.monitored import Monitored
from trivium.monitor.status import STATE, Watched, silent, watched_of, window_samples
from trivium.monitor.windows import MOST_SAMPLES, Columns, figures_of, window_of
from trivium.store.live_alerts import Mark, StateTransaction, last_interaction, locked_state
from trivium.store.live_jobs import LiveJobs
from trivium.store.live_samples import (
    RecentSamples,
    latest_samples,
    samples_of,
    traces_scored_before,
)
from trivium.store.store import Store
from trivium.values import json_text

LOOK_SECONDS = 10.0
"""Time between two looks."""

SAMPLES_AT_ONCE = 200
"""New samples that one transaction bets on, which takes some 200 ms; others that write wait for it."""

REFERENCE_DAYS = 30.0
"""Length of the period before a deployment that it is compared with, at most."""

_DAY = 86_400.0


class Watcher(Loop):
    """Watches monitors in a background thread.

    Several watchers, in several processes, may watch one monitor on one store. Each look is a transaction
    that only one process can hold, so each sample is bet on once, and each message is stored once.

    Args:
        store: The store.
        monitors: The monitors.
        clock: Returns the Unix time.
    """

    def __init__(
        self, store: Store, monitors: Iterable[Monitored], *, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self.monitors = tuple(monitors)
        self._recent = {each.name: RecentSamples(store, each.name) for each in self.monitors}
        self._clock = clock
        super().__init__(
            "trivium-watcher",
            lambda: self.look(clock()),
            seconds=LOOK_SECONDS,
            failing="what was scored cannot be watched now",
        )

    def look(self, now: float) -> list[Message]:
        """Look at every monitor once.

        Returns:
            The messages that are to be sent, which are also in the store.

        Raises:
            StoreError: If the store fails; nothing of a monitor's look is stored then.
        """
        return [message for monitor in self.monitors for message in self._look(monitor, now)]

    def start(self) -> None:
        """Look until :meth:`stop`; from now on the store knows the monitors."""
        for monitor in self.monitors:
            with locked_state(self._store, monitor.name, STATE, self._clock()):
                pass
        super().start()

    def _look(self, monitored: Monitored, now: float) -> list[Message]:
        name, settings = monitored.name, monitored.monitor
        samples, begin = window_samples(self._recent[name], settings, now)
        backlog = LiveJobs(self._store).backlog(name)
        last = last_interaction(self._store, settings.services)
        age = None if backlog.oldest is None else max(0.0, now - backlog.oldest)
        columns = Columns(samples, figures_of(settings))
        window = window_of(columns, settings, begin=begin, end=now, intervals=False)
        channels = range(len(settings.alerts.channels) or 1)
        while True:
            with locked_state(self._store, name, STATE, now) as state:
                watched = watched_of(state.body)
                watched.started = watched.started or now
                watched.looked = now
                levels = self._levels(state, monitored, watched, now)
                done = self._bet(monitored, levels, watched, now)
                sent: list[Message] = []
                if done:
                    health = Health(
                        silent=silent(last, watched.started, settings, now),
                        last=last,
                        stalled=age is not None and age > settings.stalled_after,
                        waiting=backlog.waiting,
                        oldest_seconds=age,
                    )
                    before = msgspec.json.decode(watched.alerts, type=AlertState)
                    alerting = Alerting(name, settings, before)
                    events = alerting.look(window, samples, levels, health, now)
                    for event in events:  # all have a number before a message names that of another
                        _open(state, event, now)
                    for event in events:
                        sent += _store_event(state, event, channels, now)
                    watched.alerts = msgspec.Raw(msgspec.json.encode(alerting.state))
                watched.levels = levels.to_state()
                state.save(json_text(watched), now)
            if done:
                return sent

    def _levels(self, state: StateTransaction, monitored: Monitored, watched: Watched, now: float) -> Levels:
        """The levels so far; new ones if there was a deployment or reset since the last look."""
        settings = monitored.monitor
        marks = [mark for mark in state.marks() if mark.time <= now]
        mark = marks[0] if marks else None
        levels = Levels.from_state(settings, watched.levels) if watched.levels else None
        if mark is None or (levels is not None and (mark.time, mark.number) <= (levels.since, levels.mark)):
            return levels or Levels(settings, since=0.0)
        references = self._references(monitored, marks, levels)
        return Levels(settings, since=mark.time, mark=mark.number, references=references)

    def _references(
        self, monitored: Monitored, marks: Sequence[Mark], levels: Levels | None
    ) -> dict[Key, float]:
        """What means were before a deployment; where too few samples say it, before an earlier one.

        Args:
            monitored: The monitor.
            marks: Newest first.
            levels: Those before the marks that are new.
        """
        settings = monitored.monitor
        found: dict[Key, float] = {}
        for place, mark in enumerate(marks):
            if mark.kind != "deployment" or all((figure, "", "") in found for figure in settings.figures):
                return found
            if levels is not None and (mark.time, mark.number) <= (levels.since, levels.mark):
                return {**levels.references, **found}
            began = marks[place + 1].time if place + 1 < len(marks) else 0.0
            before = latest_samples(
                self._store,
                monitored.name,
                MOST_SAMPLES,
                since=max(began, mark.time - REFERENCE_DAYS * _DAY),
                until=mark.time,
                figures=figures_of(settings),
            )
            found = {**references_of(before, settings), **found}
        return found

    def _bet(self, monitored: Monitored, levels: Levels, watched: Watched, now: float) -> bool:
        """Give samples that were not seen before to the levels; returns whether these were all."""
        samples = samples_of(
            self._store,
            monitored.name,
            after=watched.last,
            figures=figures_of(monitored.monitor),
            limit=SAMPLES_AT_ONCE,
        )
        done = len(samples) < SAMPLES_AT_ONCE
        # Later versions of traces whose earlier version was bet on are left out.
        again = [each.trace for each in samples if each.version > 1]
        counted = traces_scored_before(self._store, monitored.name, again, watched.last) if again else ()
        new = [each for each in samples if each.trace not in counted and each.time >= levels.since]
        levels.add(new, now if done else samples[-1].scored)
        if samples:
            watched.last = samples[-1].number
        return done


def _open(state: StateTransaction, event: Event, now: float) -> None:
    """Store an alert that is new, which gives it its number."""
    alert = event.alert
    if not alert.number:
        alert.id = secrets.token_hex(8)
        body = msgspec.to_builtins(event.message)
        alert.number = state.open_alert(cause=alert.cause, status=event.message.status, body=body, now=now)


def _store_event(state: StateTransaction, event: Event, channels: Iterable[int], now: float) -> list[Message]:
    """Store what has changed of an alert, and its message on the way to each channel if it is sent."""
    alert = event.alert
    key = f"{alert.id or alert.number}-{alert.messages}"
    beside = tuple(Beside(each.number, *(each.origin.part if each.origin else ())) for each in event.beside)
    message = msgspec.structs.replace(event.message, alert=alert.number, key=key, beside=beside)
    alert.body = message
    body = msgspec.to_builtins(message)
    state.change_alert(
        alert.number,
        status=message.status,
        body=body,
        changed=now if event.changed else None,
        resolved=now if event.resolved else None,
    )
    if event.changed or event.resolved:
        action = "alert resolved" if event.resolved else "alert changed"
        facts = {"alert": alert.number, "status": message.status, "title": message.title}
        state.audit(action, facts, now)
    if not event.send:
        return []
    state.add_deliveries(alert.number, key, {**body, "text": text_of(message)}, channels, now)
    return [message]
