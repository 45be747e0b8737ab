"""Takes interactions from an application, and samples and writes them in a background thread."""

import atexit
import logging
import os
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from threading import Event, Lock, Thread

from trivium.errors import StoreError
from trivium.monitor.interaction import Recorded, encode_recorded, interaction_recorded
from trivium.monitor.monitored import Monitored
from trivium.monitor.sampling import Sampler
from trivium.monitor.scorer import Scorer
from trivium.store.live_counts import Counts
from trivium.store.live_jobs import LiveJobs
from trivium.store.live_records import RecordedTrace
from trivium.store.live_samples import Sample, sample_of_trace
from trivium.store.live_traces import LiveTraces
from trivium.store.store import Store

log = logging.getLogger(__name__)

QUEUE = 10_000
"""Interactions that may wait to be written, unless the application asks for another bound."""

LOOK_SECONDS = 0.05
"""Time between two looks whether samples still wait to be scored."""

WRITE_SECONDS = 0.2
"""Longest time that an interaction waits before it is written; meanwhile others join its transaction."""

PAUSE_SECONDS = 2.0
"""Time after which a store that failed is tried again."""

CLOSE_SECONDS = 5.0
"""Longest time that the end of a program waits for what it recorded to be written."""

_AT_ONCE = 500


class Recorder:
    """A bounded queue of interactions, and the thread that samples and writes them.

    The thread starts with the first interaction. In a forked child, which has no threads, everything begins
    anew. What is not written is counted by reason.

    Args:
        monitored: The monitor.
        url: URL of the store.
        score: Whether a thread also scores samples.
        queue: Interactions that may wait; further ones are dropped.
        clock: Returns the Unix time.
    """

    def __init__(
        self,
        monitored: Monitored,
        url: str,
        *,
        score: bool,
        queue: int = QUEUE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._monitored = monitored
        self._url = url
        self._bound = queue
        self._score = score
        self.clock = clock
        self._begin()
        _RECORDERS.add(self)

    def _begin(self) -> None:
        self._lock = Lock()
        self._queue: deque[tuple[str, Recorded | Callable[[], Recorded]]] = deque()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._flushes: deque[Event] = deque()
        self._wake = Event()
        self._closing = False
        self._failing = False
        self._thread: Thread | None = None
        self._process = os.getpid()

    def put(self, trace_id: str, recorded: Recorded | Callable[[], Recorded]) -> None:
        """Queue an interaction, or a function that makes it, to be written; drop it if the queue is full."""
        self._start()
        if len(self._queue) >= self._bound:
            self.count("dropped", "queue")
            return
        self._queue.append((trace_id, recorded))
        if not self._wake.is_set():
            self._wake.set()

    def count(self, event: str, reason: str = "", number: int = 1) -> None:
        """Count something that happened to an interaction."""
        with self._lock:
            self._counts[event, reason] += number

    def put_unsampled(self) -> None:
        """Count an interaction that is not sampled."""
        self._start()
        with self._lock:
            self._counts["complete", ""] += 1
            self._counts["unsampled", ""] += 1

    def flush(self, timeout: float | None = None, *, scored: bool = False) -> bool:
        """Wait until everything put so far is in the store; returns whether it is.

        Args:
            timeout: Longest time to wait, in seconds; None for no limit.
            scored: Also wait until no sample of this monitor waits to be scored, here or elsewhere.

        Raises:
            StoreError: If the store cannot be read.
        """
        until = None if timeout is None else time.monotonic() + timeout
        self._start()
        written = Event()
        self._flushes.append(written)
        self._wake.set()
        if not written.wait(timeout):
            return False
        if not scored:
            return True
        with Store(self._url) as store:
            jobs = LiveJobs(store)
            while jobs.backlog(self._monitored.name).waiting:
                if until is not None and time.monotonic() >= until:
                    return False
                time.sleep(LOOK_SECONDS)
        return True

    def score_now(self, trace_id: str, recorded: Recorded) -> Sample | None:
        """Sample an interaction, and write and score it before returning.

        Returns:
            None if it is not sampled, or could not be scored.

        Raises:
            StoreError: If the store fails.
        """
        body, name = encode_recorded(recorded), self._monitored.name
        with Store(self._url) as store:
            sampler = Sampler(name, self._monitored.monitor, store, clock=self.clock)
            choice = sampler.decide(interaction_recorded(trace_id, body))
            if not choice.sampled:
                self.put_unsampled()
                return None
            traced = RecordedTrace(trace_id=trace_id, body=body, service=recorded.service, choices=[choice])
            LiveTraces(store).record([traced], recorded.time, counts=Counts())
            with Scorer(store, self._monitored, clock=self.clock) as scorer:
                scorer.score_trace(trace_id, recorded.time)
            return sample_of_trace(store, name, trace_id)

    def close(self, timeout: float | None = None) -> None:
        """Write what waits, and end the threads.

        Args:
            timeout: Longest time to wait for a store that fails, in seconds; None for no limit.
        """
        _RECORDERS.discard(self)
        if self._thread is None or self._process != os.getpid():
            return
        self._closing = True
        self._wake.set()
        self._thread.join(timeout)

    def _start(self) -> None:
        if self._process != os.getpid():
            self._begin()
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    name = f"trivium-monitor-{self._monitored.name}"
                    self._thread = Thread(target=self._run, name=name, daemon=True)
                    self._thread.start()

    def _run(self) -> None:
        with ExitStack() as opened:
            write: Callable[[], bool] | None = None
            while True:
                self._wait()
                closing = self._closing
                asked = [self._flushes.popleft() for _ in range(len(self._flushes))]
                try:
                    write = write or self._open(opened)
                    while write():
                        pass
                    self._failing = False
                except Exception as error:  # the next try may succeed: what was put stays in the queue
                    self._flushes.extend(asked)
                    self._warn(error)
                    if closing:
                        return
                    time.sleep(PAUSE_SECONDS)
                    continue
                for each in asked:
                    each.set()
                if closing:
                    return

    def _wait(self) -> None:
        """Wait for an interaction, then a little for others to join it, unless somebody waits."""
        self._wake.wait(WRITE_SECONDS)
        if not (self._closing or self._flushes):
            time.sleep(WRITE_SECONDS)
        self._wake.clear()

    def _open(self, opened: ExitStack) -> Callable[[], bool]:
        """Open the store and start to score; returns what writes some of the queue."""
        store = opened.enter_context(Store(self._url))
        sampler = Sampler(self._monitored.name, self._monitored.monitor, store, clock=self.clock)
        if self._score:
            opened.enter_context(Scorer(store, self._monitored, clock=self.clock)).start()
        return partial(self._write, LiveTraces(store), sampler)

    def _warn(self, error: Exception) -> None:
        """Log that the store fails, once until it works again."""
        if not self._failing:
            known = isinstance(error, StoreError)
            log.warning("interactions cannot be written now: %s", error, exc_info=not known)
        self._failing = True

    def _write(self, traces: LiveTraces, sampler: Sampler) -> bool:
        """Write some of the queue; returns whether there is more."""
        taken = [self._queue[place] for place in range(min(len(self._queue), _AT_ONCE))]
        with self._lock:
            counts, self._counts = self._counts, Counter()
        if not taken and not counts:
            return False
        now = self.clock()
        name = self._monitored.name
        counted = Counts({(name, *key): number for key, number in counts.items()})
        sampled = []
        try:
            for trace_id, recorded in taken:
                try:
                    made = recorded if isinstance(recorded, Recorded) else recorded()
                    body = encode_recorded(made)
                    interaction = interaction_recorded(trace_id, body)
                except Exception:  # what an application recorded may be anything
                    log.warning("trace %s could not be recorded", trace_id, exc_info=True)
                    counted[name, "dropped", "unrecordable"] += 1
                    continue
                choice = sampler.decide(interaction)
                if choice.sampled:
                    traced = RecordedTrace(
                        trace_id=trace_id, body=body, service=made.service, choices=[choice]
                    )
                    sampled.append(traced)
                else:
                    counted[name, "complete", ""] += 1
                    counted[name, "unsampled", ""] += 1
            traces.record(sampled, now, counts=counted)
        except BaseException:
            with self._lock:
                self._counts += counts
            raise
        for _ in taken:
            self._queue.popleft()
        return bool(self._queue)


_RECORDERS: "weakref.WeakSet[Recorder]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Write what was recorded before the program ends."""
    for each in list(_RECORDERS):
        each.close(CLOSE_SECONDS)
