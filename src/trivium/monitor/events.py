"""Sends scores of samples to an OpenTelemetry endpoint, as ``gen_ai.evaluation.result`` events.

Each sample is one span, in the trace of its interaction, with an event for each score. The number of the last
sample that was sent is in the store, and one server at a time sends for a monitor: nothing is sent twice,
unless a server is killed between sending and noting that. Such spans are refused by ``trivium serve``, should
they come back: each would be a late span of its trace, which would be scored again.
"""

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from trivium.errors import InputError
from trivium.monitor.loop import Loop
from trivium.monitor.monitored import Monitored
from trivium.monitor.otlp import MONITOR_ATTRIBUTE
from trivium.store.export.otlp import EVENT, results, send
from trivium.store.live_alerts import locked_state
from trivium.store.live_samples import Sample, case_of_trace, last_sample, samples_of
from trivium.store.store import Store
from trivium.traces.trace import Trace
from trivium.traces.writers.otlp import TraceToExport, resource, resource_spans
from trivium.values import json_text, resolved

log = logging.getLogger(__name__)

STATE = "events"
"""Name of the state of a monitor's events."""

SAMPLES_AT_ONCE = 100

LOOK_SECONDS = 5.0
"""Time between two looks for scores to send."""

LEASE_SECONDS = 900.0
"""How long one server sends for a monitor without noting it; tries of one request take less."""

WAIT_SECONDS = 60.0
"""Wait after the endpoint could not be reached."""


@resolved
class _Sent(msgspec.Struct, kw_only=True):
    """The sending state of a monitor: the last sample sent, and which sender holds the lease until when."""

    last: int | None = None
    owner: str = ""
    until: float = 0.0


class EventSender(Loop):
    """Sends the scores of monitors to their addresses for events, in a background thread.

    Args:
        store: The store.
        monitors: The monitors.
        clock: Returns the Unix time.
    """

    def __init__(
        self, store: Store, monitors: Iterable[Monitored], *, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._addresses = {each.name: each.monitor.events for each in monitors if each.monitor.events}
        self._owner = secrets.token_hex(8)
        super().__init__(
            "trivium-events",
            lambda: self.send(clock()),
            seconds=LOOK_SECONDS,
            failing="scores cannot be sent now",
            patience=2.0,
        )

    def send(self, now: float) -> int:
        """Send what was scored since the last time; returns the number of samples.

        At first, what was scored before is not sent.

        Raises:
            StoreError: If the store fails.
        """
        return sum(self._send(name, address, now) for name, address in self._addresses.items())

    def start(self) -> None:
        """Send until :meth:`stop`; nothing is started if no monitor has an address."""
        if self._addresses:
            super().start()

    def _send(self, monitor: str, address: str, now: float) -> int:
        number = 0
        while not self.stopping:
            last = self._lease(monitor, now)
            if last is None:
                return number
            samples = samples_of(self._store, monitor, after=last, limit=SAMPLES_AT_ONCE)
            if not samples:
                self._release(monitor, last, now)
                return number
            try:
                send(resource_spans(self._exports(monitor, samples)), address)
            except InputError as error:
                log.warning("%s: scores were not sent: %s; next try in %.0f s", monitor, error, WAIT_SECONDS)
                self._release(monitor, last, now, until=now + WAIT_SECONDS)
                return number
            number += len(samples)
            self._release(monitor, samples[-1].number, now)
        return number

    def _lease(self, monitor: str, now: float) -> int | None:
        """Begin to send; the number of the last sample that was sent, or None if it is not the time."""
        with locked_state(self._store, monitor, STATE, now) as state:
            sent = _read(state.body)
            if sent.until > now:
                return None
            if sent.last is None:
                sent.last = last_sample(self._store, monitor)
            sent.owner, sent.until = self._owner, now + LEASE_SECONDS
            state.save(json_text(sent), now)
            return sent.last

    def _release(self, monitor: str, last: int, now: float, *, until: float = 0.0) -> None:
        with locked_state(self._store, monitor, STATE, now) as state:
            if _read(state.body).owner == self._owner:
                state.save(json_text(_Sent(last=last, until=until)), now)

    def _exports(self, monitor: str, samples: Sequence[Sample]) -> Iterator[TraceToExport]:
        runs = {run.number: run for run in self._store.live_runs(monitor)}
        for number in sorted({each.run for each in samples}):
            if number not in runs:
                continue
            by_case = {
                case_of_trace(each.trace, each.version): each for each in samples if each.run == number
            }
            positions = [each.position for each in by_case.values()]
            for case, _, evaluation in self._store.views(runs[number], positions=positions):
                sample = by_case[case.id]
                yield TraceToExport(
                    trace=Trace(trace_id=sample.trace),
                    key=f"{monitor} {sample.trace} {sample.version}",
                    started_at=sample.scored,
                    name="evaluate",
                    resource=resource(**{MONITOR_ATTRIBUTE: monitor}),
                    attributes={
                        "trivium.sampling.probability": sample.probability,
                        "trivium.trace.version": sample.version,
                    },
                    events=[(EVENT, fields) for fields in results(runs[number], evaluation)],
                )


def _read(body: str) -> _Sent:
    return msgspec.json.decode(body, type=_Sent) if body else _Sent()
