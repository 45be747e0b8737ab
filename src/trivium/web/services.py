"""What works behind the requests: receives, completes, scores, watches, alerts, deletes and indexes."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

from trivium.monitor.alerting.delivery import deliverers
from trivium.monitor.completion import Completer, bounds_of, decider
from trivium.monitor.events import EventSender
from trivium.monitor.intake import Intake
from trivium.monitor.loop import Loop
from trivium.monitor.monitored import Monitored
from trivium.monitor.otlp import IntakeLimits
from trivium.monitor.sampling import Sampler
from trivium.monitor.scorer import Scorer
from trivium.monitor.watcher import Watcher
from trivium.store.browsing.search_index import IDLE_SECONDS, SearchIndex
from trivium.store.live_traces import LiveTraces
from trivium.store.retention import Retention
from trivium.store.store import Store
from trivium.suites.monitor_settings import RetentionSettings

RETENTION_SECONDS = 3600.0
"""Time between two deletions of old data."""


class Services:
    """The threads of one server; a context manager that starts and stops them.

    Args:
        store: The store.
        monitors: The monitors that score traffic; without any, the server stores traces and scores none.
        limits: Limits on requests, and on the intake queue.
        receiving: Whether traces are received, completed, scored, watched and deleted; else the server only
            shows what its store holds and indexes it for searches, and another one may work on it.
        clock: Returns the Unix time.
    """

    def __init__(
        self,
        store: Store,
        monitors: Sequence[Monitored] = (),
        *,
        limits: IntakeLimits | None = None,
        receiving: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.monitors = {each.name: each for each in monitors}
        self.clock = clock
        self.receiving = receiving
        self.stopping = threading.Event()
        self.traces = LiveTraces(store, bounds_of(each.monitor for each in monitors))
        self.intake = Intake(self.traces, limits=limits, clock=clock)
        samplers = [Sampler(each.name, each.monitor, store, clock=clock) for each in monitors]
        self.completer = Completer(self.traces, decider(samplers), clock=clock)
        self.scorers = [Scorer(store, each, clock=clock) for each in monitors]
        self.watcher = Watcher(store, monitors, clock=clock)
        kept = {each.name: each.monitor.retention for each in monitors} or {"": RetentionSettings()}
        retention = Retention(store, kept)
        deleting = Loop(
            "trivium-retention",
            lambda: retention.prune(clock()),
            seconds=RETENTION_SECONDS,
            first=60.0,
            failing="old data cannot be deleted now",
        )
        indexing = Loop(
            "trivium-search",
            SearchIndex(store, clock=clock).step,
            seconds=IDLE_SECONDS,
            first=0.5,
            pause=60.0,
            failing="the index of the search cannot be filled now",
        )
        self._loops: list[Loop] = [indexing]
        if receiving:
            self._loops += [self.completer, *self.scorers, self.watcher]
            self._loops += [*deliverers(store, monitors, clock=clock)]
            self._loops += [EventSender(store, monitors, clock=clock), deleting]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the threads."""
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        """Write what was received, and end the threads; what waits to be scored waits for the next start."""
        self.intake.close()
        for loop in self._loops:  # all at once: a channel that hangs is waited for as long as ten
            loop.end()
        for loop in self._loops:
            loop.stop()
