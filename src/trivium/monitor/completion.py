"""Completes traces that are due, and has each monitor say which it samples.

Definition: docs/definitions/monitoring.md#complete-trace.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from trivium.errors import StoreError
from trivium.monitor.interaction import Interaction, interaction_of
from trivium.monitor.loop import Loop
from trivium.monitor.sampling import Sampler, choices, draw
from trivium.store.live_records import Choice, CompleteTrace, Decide, TraceBounds
from trivium.store.live_traces import LiveTraces
from trivium.suites.monitor_settings import MonitorSettings

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Time between two looks for traces that are due."""

TRACES_AT_ONCE = 100


def bounds_of(settings: Iterable[MonitorSettings]) -> TraceBounds:
    """When a trace is complete for all monitors: the longest times and the most spans of any."""
    every = list(settings) or [MonitorSettings()]
    return TraceBounds(
        quiet=max(each.quiet for each in every),
        longest=max(each.longest for each in every),
        max_spans=max(each.max_spans for each in every),
    )


def decider(samplers: Sequence[Sampler]) -> Decide:
    """Has each monitor that watches a trace's service decide whether it is sampled.

    A trace that no monitor would sample whatever is in it is not read: reading takes much longer.

    Args:
        samplers: Those of the monitors.
    """
    highest = {
        each.monitor: max(each.settings.sample_rate, *(rule.rate for rule in each.settings.rules), 0.0)
        for each in samplers
    }

    def decide(found: CompleteTrace) -> Sequence[Choice]:
        read = any(draw(found.trace_id, each.settings.salt) < highest[each.monitor] for each in samplers)
        if read or found.body is not None:
            return choices(samplers, interaction_of(found))
        return choices(
            samplers, Interaction(trace_id=found.trace_id, time=found.first, service=found.service)
        )

    return decide


class Completer(Loop):
    """Completes due traces in a background thread.

    The time at which spans were received decides, never the spans' own times.

    Args:
        traces: The traces.
        decide: Says of a complete trace what each monitor that watches it does.
        clock: Returns the Unix time.
    """

    def __init__(self, traces: LiveTraces, decide: Decide, *, clock: Callable[[], float] = time.time) -> None:
        self._traces = traces
        self._decide = decide
        super().__init__(
            "trivium-completer",
            lambda: self.complete(clock()),
            seconds=LOOK_SECONDS,
            failing="traces cannot be completed now",
        )

    def complete(self, now: float) -> int:
        """Complete all traces that are due at a Unix time; returns how many were.

        Raises:
            StoreError: If the store fails.
        """
        number = 0
        while not self.stopping:
            found = self._traces.complete(now, self._choices, limit=TRACES_AT_ONCE)
            number += found
            if found < TRACES_AT_ONCE:
                break
        return number

    def _choices(self, trace: CompleteTrace) -> Sequence[Choice] | None:
        """Return the choices of the monitors; None if the trace cannot be read, so that others go on."""
        try:
            return self._decide(trace)
        except StoreError:
            raise
        except Exception:
            log.exception("trace %s cannot be read and is not sampled", trace.trace_id)
            return None
