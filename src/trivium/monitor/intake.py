"""Receives OTLP export requests, and acknowledges each one once its spans are on disk.

Requests that arrive during a write are queued and written together in the next transaction, so that many
requests share one disk sync. A full queue refuses further requests for now.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from threading import Condition, Thread
from typing import Self

import msgspec

from trivium.errors import Overloaded, StoreError, TooLarge, TraceError
from trivium.monitor.otlp import Encoding, IntakeLimits, batch_of
from trivium.store.live_records import Accepted, Batch
from trivium.store.live_traces import LiveTraces

log = logging.getLogger(__name__)

_REASONS = {
    "bad_id": "without a valid trace id and span id",
    "span_too_large": "too large",
    "resource_too_large": "whose resource or scope is too large",
    "too_many_spans": "of traces that have the most spans already",
    "unreadable_span": "(or resources, or scopes) that cannot be decoded",
    "own_scores": "that carry scores of a monitor: its suite's `events` must not lead here",
    "trace_too_large": "of traces that are as large as allowed already",
}


class Receipt(Accepted, frozen=True, kw_only=True):
    """How many spans of a request were stored or refused.

    Attributes:
        replaced: Number of places where U+FFFD replaced invalid text.
    """

    replaced: int = 0

    @property
    def rejected(self) -> int:
        """Number of refused spans, for the partial success of OTLP."""
        return sum(self.refused.values())

    @property
    def message(self) -> str:
        """Why spans were refused, and what was replaced in others; empty if neither happened."""
        parts = [
            f"{number:,} {_REASONS.get(reason, reason)}" for reason, number in sorted(self.refused.items())
        ]
        notes = [f"refused spans: {'; '.join(parts)}"] if parts else []
        if self.replaced:
            notes.append(f"U+FFFD replaces what is not UTF-8, or half of a surrogate pair: {self.replaced:,}")
        return ". ".join(notes)


class _Waiting(msgspec.Struct, frozen=True):
    batch: Batch
    size: int
    done: "Future[Receipt]"


class Intake:
    """Decodes requests in the caller's thread, and writes them in one writer thread; a context manager.

    Args:
        traces: Stores the spans.
        limits: Limits on a request, and on the queue.
        clock: Returns the Unix time.
    """

    def __init__(
        self,
        traces: LiveTraces,
        *,
        limits: IntakeLimits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.limits = limits or IntakeLimits()
        self._traces = traces
        self._clock = clock
        self._changed = Condition()
        self._waiting: list[_Waiting] = []
        self._bytes = 0
        self._closed = False
        self._refusals: Counter[tuple[str, str, str]] = Counter()
        self._thread = Thread(target=self._run, name="trivium-intake", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def receive(self, body: bytes, encoding: Encoding) -> Receipt:
        """Store the spans of a request; returns once they are on the disk (see :meth:`submit`)."""
        return self.submit(body, encoding).result()

    def submit(self, body: bytes, encoding: Encoding) -> "Future[Receipt]":
        """Decode a request and queue it to be written.

        Args:
            body: The request's body, decompressed.
            encoding: How it is encoded.

        Returns:
            A future that is done once the spans are on disk; it raises StoreError if storing them fails.

        Raises:
            TooLarge: If the request exceeds a limit.
            TraceError: If it cannot be decoded.
            Overloaded: If the queue is full, or the intake is closed.
        """
        try:
            self._check_room(len(body))
            batch = batch_of(body, encoding, self.limits)
            return self._enqueue(batch, len(body))
        except (Overloaded, TraceError) as error:
            reason = _reason(error)
            with self._changed:
                self._refusals["", "refused_request", reason] += 1
            raise

    def _check_room(self, size: int) -> None:
        if self._closed:
            raise Overloaded("the server is stopping: send this again")
        full = len(self._waiting) >= self.limits.waiting_requests
        if full or (self._waiting and self._bytes + size > self.limits.waiting_bytes):
            raise Overloaded("too much waits to be stored: send this again")

    def _enqueue(self, batch: Batch, size: int) -> "Future[Receipt]":
        waiting = _Waiting(batch, size, Future())
        waiting.done.set_running_or_notify_cancel()  # a caller may stop waiting, but cannot cancel the write
        with self._changed:
            self._check_room(size)
            self._waiting.append(waiting)
            self._bytes += size
            self._changed.notify_all()
        return waiting.done

    @property
    def waiting(self) -> tuple[int, int]:
        """Number of queued requests, and their bytes."""
        return len(self._waiting), self._bytes

    def close(self) -> None:
        """Write the queued requests and end the thread; refuse further ones."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while group := self._next():
            with self._changed:
                refusals, self._refusals = self._refusals, Counter()
            try:
                batches = [each.batch for each in group]
                accepted = self._traces.add_all(batches, self._clock(), counts=refusals)
            except BaseException as error:
                with self._changed:
                    self._refusals += refusals
                _fail(group, error)
            else:
                for each, result in zip(group, accepted, strict=True):
                    stored = msgspec.structs.asdict(result)
                    each.done.set_result(Receipt(**stored, replaced=each.batch.replaced))

    def _next(self) -> list[_Waiting]:
        """Wait for requests and take a group; empty once the intake is closed and the queue is empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            spans = taken = 0
            for each in self._waiting:
                taken += 1
                spans += len(each.batch.spans)
                if spans >= self.limits.commit_spans:
                    break
            group, self._waiting = self._waiting[:taken], self._waiting[taken:]
            self._bytes -= sum(each.size for each in group)
            return group


def _fail(group: list[_Waiting], error: BaseException) -> None:
    """Tell the callers that nothing was stored, so that the exporters send the spans again."""
    if not isinstance(error, StoreError):
        log.error("received spans could not be stored", exc_info=error)
        error = StoreError(f"the spans could not be stored: {type(error).__name__}")
    else:
        log.warning("received spans could not be stored: %s", error)
    for each in group:
        each.done.set_exception(error)


def _reason(error: Overloaded | TraceError) -> str:
    if isinstance(error, Overloaded):
        return "overloaded"
    return "too_large" if isinstance(error, TooLarge) else "unreadable"
