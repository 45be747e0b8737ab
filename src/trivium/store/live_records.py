"""Records of production traffic on its way into the store and out of it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from trivium.traces.trace import Trace

FAILED_TOOL = "failed_tool"
"""Among the facets of a sample, the tools of which a call failed; samples of older releases lack it."""


class ReceivedSpan(msgspec.Struct, frozen=True, gc=False):
    """A span as it was received.

    Attributes:
        trace: Its trace id, hexadecimal.
        span: Its id, hexadecimal.
        digest: Of its body: a span that is sent again as it was has the same.
        resource: Ids of its resource and its scope in the batch, 16 digits each.
        body: The span as OTLP protobuf.
        ended_root: Whether it has no parent and has ended.
        failed: Whether its status is an error.
        service: ``service.name`` of its resource, or empty.
    """

    trace: str
    span: str
    digest: str
    resource: str
    body: bytes
    ended_root: bool
    service: str
    failed: bool = False


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """The spans of one request.

    Attributes:
        spans: Its spans that can be stored.
        resources: Resources and scopes of the spans as OTLP protobuf, by id.
        refused: Number of the other spans, by reason.
        lost: Number of those of the others whose trace is known, by trace: what is missing there.
        replaced: Number of places where U+FFFD stands for what no text can hold.
    """

    spans: Sequence[ReceivedSpan]
    resources: Mapping[str, bytes] = {}
    refused: Mapping[str, int] = {}
    lost: Mapping[str, int] = {}
    replaced: int = 0


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """How many spans of one request the store accepted or refused.

    Attributes:
        new: Number of spans that are stored now.
        again: Number of spans that were stored already.
        refused: Number of spans that are not stored, by reason.
    """

    new: int
    again: int = 0
    refused: Mapping[str, int] = {}


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a monitor samples a trace.

    Attributes:
        monitor: Name of the monitor.
        sampled: Whether it does.
        probability: The probability with which it does, in (0, 1].
        rule: The rule that the probability comes from; empty for the sample rate.
        weight: The smallest probability of the rules divided by this one, in (0, 1]: the weight of the sample
            in a betting sequence (docs/definitions/monitoring.md#sample-weight).
        unscaled: Thousandths of the samples that such a one stands for, because those of an hour are limited.
    """

    monitor: str
    sampled: bool
    probability: float
    rule: str = ""
    weight: float = 1.0
    unscaled: int = 1000


class CompleteTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A trace that is complete.

    Attributes:
        trace_id: Its id.
        version: How often it has been completed, with this time.
        first: Unix time at which its first span was received.
        last: Unix time at which its last span was received.
        late: Whether a span came after it had been complete.
        service: The service of its root, else of its first span.
        cut: Number of its spans that were refused because it is larger than allowed.
        body: What the application recorded itself, if it did.
        read: Reads its spans.
    """

    trace_id: str
    version: int
    first: float
    last: float
    late: bool
    service: str | None
    body: bytes | None
    cut: int = 0
    read: Callable[[], Trace]


Decide = Callable[[CompleteTrace], Sequence[Choice] | None]
"""Says what each monitor that watches a complete trace does with it; None if the trace cannot be read."""


class RecordedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A complete trace that an application recorded itself.

    Attributes:
        trace_id: Its id.
        body: The record, as JSON.
        service: Its service.
        choices: What each monitor that watches it does.
    """

    trace_id: str
    body: bytes
    service: str | None = None
    choices: Sequence[Choice] = ()


def room(most: int, tenths: int) -> int:
    """How many spans a trace has room for: beyond the most by so many tenths, at least 10 for each."""
    return most + tenths * max(10, most // 10)


class TraceBounds(msgspec.Struct, frozen=True, kw_only=True):
    """When a trace is complete, and how large it may be.

    Attributes:
        quiet: It is complete when its root has ended and no span came for this long, in seconds.
        longest: It is complete at this age even if its root has not ended, in seconds.
        max_spans: Most of its spans; later ones are refused, and its root is waited for as long as ``quiet``.
        max_bytes: Largest size of its spans; later ones are refused.

    Beyond both there is room for a tenth more, for spans that failed, and for another tenth, for its root.
    """

    quiet: float = 30
    longest: float = 7200
    max_spans: int = 10_000
    max_bytes: int = 64 * 2**20

    def exceeded(self, span: ReceivedSpan, *, spans: int, size: int) -> Literal["spans", "bytes"] | None:
        """Return the bound that a further span would exceed in a trace of this size; None if it fits."""
        tenths = 2 if span.ended_root else 1 if span.failed else 0
        if spans >= room(self.max_spans, tenths):
            return "spans"
        most = self.max_bytes + tenths * (self.max_bytes // 10)
        return "bytes" if size + len(span.body) > most else None
