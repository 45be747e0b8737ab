"""Records a span while it is open: input, output, usage and errors, masked and bounded."""

import itertools
import numbers
import os
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from random import Random
from time import perf_counter, time
from typing import Any, Protocol

import msgspec

from trivium.any_object import MOST_CHARS, encode, plain_text
from trivium.masking import MASK, Masker
from trivium.processes import after_fork
from trivium.traces.readers.json_input import DETAIL_KEYS, USAGE_KEYS, read_usage
from trivium.traces.recording.config import Recording
from trivium.traces.trace import RecordedLine, Span, SpanKind, SpanUsage
from trivium.values import amount, count

_PLAIN = frozenset({float, bool, type(None)})


class Content:
    """Masks and bounds the values that are recorded.

    Args:
        patterns: Patterns to mask, in addition to secrets.
    """

    def __init__(self, patterns: Sequence[re.Pattern[str]]) -> None:
        self._patterns = tuple(patterns)
        self._masker = Masker()

    def text(self, text: str) -> str:
        """Bound and mask a text; another value is converted to text first."""
        text = plain_text(text)
        if len(text) > MOST_CHARS:
            text = f"{text[:MOST_CHARS]}… ({len(text):,} characters)"
        text = self._masker.mask(text)
        for pattern in self._patterns:
            text = pattern.sub(MASK, text)
        return text

    def value(self, value: Any, as_text: list[str] | None = None) -> Any:
        """Convert any value to bounded, masked JSON.

        Args:
            value: Any object.
            as_text: Receives the type name of each value that has no JSON form and is recorded as text.
        """
        kind = type(value)
        if kind in _PLAIN or (kind is int and -(2**63) <= value < 2**63):
            return value
        if issubclass(kind, str):
            return self.text(value)
        try:
            return self._json(encode(value, as_text).decode())
        except Exception as error:  # nested too deep to make a masked copy
            return f"[{kind.__name__} is not recorded: {type(error).__name__}]"

    def _json(self, encoded: str) -> Any:
        if len(encoded) > MOST_CHARS:
            return self.text(encoded)
        if not self._patterns and not self._masker.may_hold_a_secret(encoded):
            return msgspec.Raw(encoded.encode())
        return _masked(msgspec.json.decode(encoded), self.text, self._masker)


def _masked(value: Any, text: Callable[[str], str], masker: Masker) -> Any:
    """Mask every text in a decoded value; the decoder has bounded its depth."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [_masked(each, text, masker) for each in value]
    if isinstance(value, dict):
        return {
            text(key): MASK if masker.names_a_secret(key) else _masked(each, text, masker)
            for key, each in value.items()
        }
    return value


_NUMBERS = itertools.count(1)
"""Numbers the spans in order of start."""

_IDS = Random()  # noqa: S311 - not secret; its own state, as the program may seed the global one
after_fork(_IDS.seed)

_UNSET: Any = object()


class ParentSpan(Protocol):
    """A span of ``trivium.trace`` or of OpenTelemetry that may be the parent of others.

    Attributes:
        id: Its id, as in files.
        trace_id: Id of its trace.
        number: Larger for spans that start later.
        is_written: Whether it has been written, or need not be, so that its children can be.
    """

    id: str
    trace_id: str
    number: int
    is_written: bool

    @property
    def recorder(self) -> "TraceRecorder | None":
        """The recorder of its children; None if it is chosen for each child."""
        ...

    @property
    def agent(self) -> str | None:
        """The agent that it names, or None."""
        ...

    @property
    def parent(self) -> "ParentSpan | None":
        """Its parent."""
        ...

    def write(self) -> None:
        """Write it as it is now."""
        ...


def write_open_parents(above: ParentSpan | None) -> None:
    """Write a span and its parents that are still open, the outermost first, before a child is written."""
    open_spans: list[ParentSpan] = []
    while above is not None and not above.is_written:
        above.is_written = True
        open_spans.append(above)
        above = above.parent
    for span in reversed(open_spans):
        span.write()


class Sink(Protocol):
    """Receives spans and messages.

    Attributes:
        content: Masks contents; None when they are not recorded.
        recording: The recording settings.
    """

    content: Content | None
    recording: Recording

    def started(self, span: "LiveSpan") -> None:
        """A span was opened."""
        ...

    def ended(self, span: "LiveSpan") -> None:
        """A span was closed."""
        ...

    def write(self, span: "LiveSpan") -> None:
        """Write a span as it is now."""
        ...

    def message_sent(self, message: RecordedLine, span: ParentSpan | None) -> None:
        """A message was sent within a span."""
        ...


class TraceRecorder:
    """The id of one trace, and the sink of its spans.

    Args:
        sink: Receives the spans.
        trace_id: Id of the trace; a random one if None.
    """

    __slots__ = ("sink", "trace_id")

    def __init__(self, sink: Sink, trace_id: str | None = None) -> None:
        self.sink = sink
        self.trace_id = os.urandom(16).hex() if trace_id is None else trace_id


def new_id() -> str:
    """A random id of a span: 16 hexadecimal digits."""
    return f"{_IDS.getrandbits(64):016x}"


def new_number() -> int:
    """A number larger than that of any earlier span."""
    return next(_NUMBERS)


class NoSpan:
    """Stands for a span when nothing is recorded; ignores everything."""

    __slots__ = ("output",)

    def __init__(self) -> None:
        self.output: Any = None

    def used(
        self,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """Record the tokens and cost of a model request."""

    def note(self, **attributes: Any) -> None:
        """Add attributes."""

    def failed(self, why: str | BaseException) -> None:
        """Mark the work as failed although no exception is raised."""


class LiveSpan(NoSpan):
    """An open span.

    Attributes:
        output: The output; by default the result of the decorated function.
    """

    __slots__ = (
        "_as_text",
        "_attributes",
        "_clock",
        "_error",
        "_input",
        "_usage",
        "agent",
        "end",
        "id",
        "is_written",
        "kind",
        "name",
        "number",
        "ok",
        "parent",
        "recorder",
        "start",
        "trace_id",
    )

    def __init__(
        self, recorder: TraceRecorder, kind: SpanKind, name: str, parent: ParentSpan | None, agent: str | None
    ) -> None:
        self.recorder = recorder
        self.trace_id = recorder.trace_id
        self.id = new_id()
        self.number = next(_NUMBERS)
        self.kind = kind
        self.name = plain_text(name)
        self.parent = parent
        named = None if agent is None else plain_text(agent)
        if kind == "agent":
            self.agent: str | None = named or self.name
        else:
            # Below a span of OpenTelemetry, the agent is taken from the trace when it is read.
            self.agent = named or (
                parent.agent if parent is not None and parent.recorder is not None else None
            )
        self._as_text: list[str] = []
        self.output = _UNSET
        self.is_written = False
        self.ok: bool | None = None
        self.end: float | None = None
        self._input: Any = None
        self._usage: SpanUsage | None = None
        self._attributes: dict[str, Any] | None = None
        self._error: str | BaseException | None = None
        self.start = time()
        self._clock = perf_counter()
        recorder.sink.started(self)

    def record_input(self, value: Any) -> None:
        """Record the input as it is now; later changes to the object have no effect."""
        content = self.recorder.sink.content
        if content is not None:
            self._input = content.value(value, self._as_text)

    def used(
        self,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """Record the tokens and cost of a model request."""
        self._usage = SpanUsage(
            input_tokens=_count(input_tokens), output_tokens=_count(output_tokens), cost_usd=_money(cost_usd)
        )

    def note(self, **attributes: Any) -> None:
        """Add attributes; three of them are read.

        ``context`` is read by tool_selection (docs/definitions/traces.md#tool-selection).
        ``retrieval=True`` says that the output of a tool are the documents that it retrieved, and with
        ``reranking=True`` those that it selected among the documents retrieved before.
        """
        self._attributes = {**(self._attributes or {}), **attributes}

    def failed(self, why: str | BaseException) -> None:
        """Mark the work as failed although no exception is raised."""
        self._error = why

    def record_output(self, result: Any) -> None:
        """Record the output unless the code has set it; an llm span also reads its token counts from it."""
        if self.output is _UNSET:
            self.output = result
        if self.kind == "llm" and self._usage is None:
            self._usage = _usage_of(result)

    def close(self) -> None:
        """End the span."""
        self.end = self.start + (perf_counter() - self._clock)
        self.ok = self._error is None
        self.recorder.sink.ended(self)

    def write(self) -> None:
        """Write it as it is now."""
        self.recorder.sink.write(self)

    def line(self) -> RecordedLine:
        """The span as it is stored in files."""
        as_text = list(self._as_text)
        content = self.recorder.sink.content
        attributes = self._attributes
        if self._error is not None:
            attributes = {**(attributes or {}), "error": _error_text(self._error, content)}
        if attributes and content is None:
            attributes = {key: value for key, value in attributes.items() if key in _RECORDED_WITHOUT_CONTENT}
        values = content or _UNMASKED
        output = None
        if self.output is not _UNSET and content is not None:
            output = content.value(self.output, as_text)
        span = Span(
            id=self.id,
            kind=self.kind,
            name=self.name,
            parent=None if self.parent is None else self.parent.id,
            agent=self.agent,
            start=self.start,
            end=self.end,
            ok=self.ok,
            input=self._input,
            output=output,
            usage=self._usage,
            attributes={plain_text(key): values.value(value, as_text) for key, value in attributes.items()}
            if attributes
            else {},
        )
        return RecordedLine(trace_id=self.trace_id, span=span, as_text=tuple(as_text))


_RECORDED_WITHOUT_CONTENT = frozenset({"error", "context", "handoff", "retrieval", "reranking"})
"""Attributes that are recorded even without content."""


_UNMASKED = Content(())
"""Converts the attributes that are recorded without content."""


def _error_text(error: str | BaseException, content: Content | None) -> str:
    kind = type(error).__name__
    if not issubclass(type(error), BaseException):
        return "failed" if content is None else plain_text(error)
    if content is None:
        return kind
    try:
        return f"{kind}: {error}"
    except BaseException as another:  # the exception's own ``__str__`` fails
        if isinstance(another, KeyboardInterrupt):
            raise
        return kind


def _usage_of(result: Any) -> SpanUsage | None:
    """The tokens under the names that providers' clients use; None where reading them fails."""
    try:
        usage = result.get("usage") if isinstance(result, Mapping) else getattr(result, "usage", None)
        return read_usage(_counts(usage))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return None


def _counts(usage: Any, keys: frozenset[str] = USAGE_KEYS) -> dict[str, Any]:
    """The numbers of tokens in a mapping or in an object, and in its details."""
    get = usage.get if isinstance(usage, Mapping) else partial(getattr, usage)
    given = {name: get(name, None) for name in keys}
    return {
        name: _counts(value, USAGE_KEYS - DETAIL_KEYS) if name in DETAIL_KEYS else _count(value)
        for name, value in given.items()
        if value is not None
    }


def _count(tokens: Any) -> int | None:
    """A number of tokens as an int; None if it is not valid."""
    if type(tokens) is bool or not issubclass(type(tokens), numbers.Integral):
        return None
    return count(int(tokens))


def _money(given: Any) -> float | None:
    """A number of dollars, of any numeric type, as a float; None if it is not valid."""
    if type(given) is bool or not issubclass(type(given), numbers.Real | Decimal):
        return None
    try:
        return amount(float(given))
    except (ValueError, OverflowError):
        return None


def decoded(line: RecordedLine) -> RecordedLine:
    """Decode the JSON values of a span or a message, as traces in memory hold them."""
    if (message := line.message) is not None:
        message = msgspec.structs.replace(message, content=_plain(message.content))
    if (span := line.span) is not None:
        span = msgspec.structs.replace(
            span,
            input=_plain(span.input),
            output=_plain(span.output),
            attributes={key: _plain(value) for key, value in span.attributes.items()},
        )
    return msgspec.structs.replace(line, span=span, message=message)


def _plain(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value
