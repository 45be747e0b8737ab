"""Receives export requests: a request is acknowledged once its spans are on the disk.

Requests that come while others are being written wait, and are written together in the next transaction, so
that many requests share one sync of the disk. If too many wait, further ones are refused for now.
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


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a request.

    Attributes:
        new: Number of spans that are stored now.
        again: Number of spans that were stored already: the exporter sent them again.
        refused: Number of spans that are not stored, by reason.
        replaced: Number of places where U+FFFD stands for what no text can hold.
    """

    new: int
    again: int
    refused: dict[str, int]
    replaced: int = 0

    @property
    def rejected(self) -> int:
        """Number of refused spans, for the partial success of OTLP."""
        return sum(self.refused.values())

    @property
    def message(self) -> str:
        """Why spans are refused, and what was changed in others; empty if nothing was."""
        parts = [
            f"{number:,} {_REASONS.get(reason, reason)}" for reason, number in sorted(self.refused.items())
        ]
        said = [f"refused spans: {'; '.join(parts)}"] if parts else []
        if self.replaced:
            said.append(f"U+FFFD replaces what is not UTF-8, or half of a surrogate pair: {self.replaced:,}")
        return ". ".join(said)


class _Waiting(msgspec.Struct, frozen=True):
    batch: Batch
    size: int
    done: "Future[Receipt]"


class Intake:
    """Decodes requests in the caller's thread, and writes them in a thread of its own; a context manager.

    Args:
        traces: Where they are stored.
        limits: What is refused, and how much may wait.
        clock: Gives the Unix time.
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
        """Decode a request and have it written.

        Args:
            body: The request's body, decompressed.
            encoding: How it is encoded.

        Returns:
            Done once the spans are on the disk; it raises StoreError if they could not be stored.

        Raises:
            TooLarge: If it exceeds a limit.
            TraceError: If it cannot be decoded.
            Overloaded: If too much waits to be written, or the intake is closed.
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
            raise Overloaded("the server is stopping: send this again", retry_after=2)
        full = len(self._waiting) >= self.limits.waiting_requests
        if full or (self._waiting and self._bytes + size > self.limits.waiting_bytes):
            raise Overloaded("too much waits to be stored: send this again", retry_after=2)

    def _enqueue(self, batch: Batch, size: int) -> "Future[Receipt]":
        waiting = _Waiting(batch, size, Future())
        waiting.done.set_running_or_notify_cancel()  # whoever waits may go away, but cannot cancel it
        with self._changed:
            self._check_room(size)
            self._waiting.append(waiting)
            self._bytes += size
            self._changed.notify_all()
        return waiting.done

    @property
    def waiting(self) -> tuple[int, int]:
        """Requests that wait to be written, and their bytes."""
        return len(self._waiting), self._bytes

    def close(self) -> None:
        """Write what waits, and end the thread; further requests are refused."""
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
                    each.done.set_result(_receipt(result, each.batch))

    def _next(self) -> list[_Waiting]:
        """Wait for requests and take some; empty once the intake is closed and all are written."""
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


def _receipt(accepted: Accepted, batch: Batch) -> Receipt:
    refused = dict(accepted.refused)
    return Receipt(new=accepted.new, again=accepted.again, refused=refused, replaced=batch.replaced)


def _fail(group: list[_Waiting], error: BaseException) -> None:
    """Tell the callers that nothing was stored; the exporters send it again."""
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
