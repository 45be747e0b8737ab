"""One interaction with an agent in production: its input, its output, and its trace."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from trivium.agents.attempt import Attempt
from trivium.agents.failures import shown
from trivium.agents.recorded import new_case
from trivium.agents.recorded.record import checked_attempt
from trivium.agents.recorded.traces import attempt_of_trace
from trivium.any_object import encode, plain
from trivium.errors import TraceError
from trivium.store.live_records import FAILED_TOOL, CompleteTrace
from trivium.store.live_traces import LiveTraces
from trivium.suites.case import Case
from trivium.traces.native import native_trace
from trivium.traces.opentelemetry.deployment import CONVERSATION, SERVICE, VERSION
from trivium.traces.outcome import (
    completed,
    failure_of,
    input_of,
    output_of,
    started,
    tags_of,
    thread_of,
)
from trivium.traces.trace import Trace, wall_seconds
from trivium.values import nonempty_text

if TYPE_CHECKING:
    from trivium.store.store import Store

MOST_VALUES = 50
"""Values of one facet that are kept of an interaction; a trace may name thousands of tools."""

LONGEST_VALUE = 200
"""Characters of a facet's value."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An interaction that an application recorded itself: the body of a stored trace, as JSON.

    Attributes:
        time: Unix time at which the interaction began.
        input: What was asked, any JSON value.
        output: What came back, any JSON value.
        error: Why the agent failed; None if it did not.
        seconds: How long it took.
        trace: What the agent did.
        tags: Its tags.
        version: Version of the application.
        service: Name of the service.
        session: The session that it belongs to.
        metadata: Further data.
    """

    time: float
    input: Any = None
    output: Any = None
    error: str | None = None
    seconds: float | None = None
    trace: Trace | None = None
    tags: tuple[str, ...] = ()
    version: str | None = None
    service: str | None = None
    session: str | None = None
    metadata: dict[str, Any] = {}


class Interaction(Recorded, frozen=True, kw_only=True, dict=True):
    """An interaction that is complete.

    Attributes:
        trace_id: Id of its trace.
    """

    trace_id: str

    @cached_property
    def failed(self) -> bool:
        """Whether it failed: by its error, or because an outermost span of its trace ended with one."""
        return self.error is not None or (self.trace is not None and completed(self.trace) is False)

    @property
    def without_root(self) -> bool:
        """Whether how it ended is not known: its trace lacks the outermost span, and nothing else says it."""
        return self.error is None and self.trace is not None and self.trace.without_root

    @cached_property
    def facets(self) -> Mapping[str, tuple[str, ...]]:
        """Its values of each facet that figures can be computed by, and the tools of which a call failed."""
        spans = self.trace.spans if self.trace is not None else ()
        return {
            "agent": _values(self.trace.agents if self.trace is not None else ()),
            "tool": _values(span.name for span in spans if span.kind == "tool"),
            FAILED_TOOL: _values(span.name for span in spans if span.kind == "tool" and span.ok is False),
            "tag": _values(self.tags),
            "model": _values(span.name for span in spans if span.kind == "llm"),
            "version": _values([self.version]),
            "service": _values([self.service]),
        }

    @property
    def case(self) -> Case:
        """The interaction as a case, about which nothing is known but the input."""
        return Case(
            id=self.trace_id,
            input="" if self.input is None else self.input,
            tags=self.tags,
            group=self.session,
            metadata=_without_none({**self.metadata, "version": self.version, "service": self.service}),
        )

    def attempt(self, *, limit: int) -> Attempt:
        """The interaction as an attempt.

        Args:
            limit: Largest output in bytes.
        """
        if self.trace is not None and self.error is None and self.output == output_of(self.trace):
            attempt = attempt_of_trace(self.trace, case=self.trace_id, limit=limit)
        else:
            attempt = Attempt(
                case=self.trace_id,
                output=self.output,
                seconds=self.seconds,
                trace=self.trace,
                error=self.error,
            )
            attempt = checked_attempt(attempt, limit=limit)
        failure = None if self.trace is None or attempt.failed else failure_of(self.trace)
        return attempt if failure is None else msgspec.structs.replace(attempt, error=shown(failure))


def interaction_of(found: CompleteTrace) -> Interaction:
    """The interaction of a complete trace: what the application recorded, else what its spans say.

    Raises:
        TraceError: If what the application recorded cannot be read.
    """
    if found.body is not None:
        return interaction_recorded(found.trace_id, found.body)
    trace = found.read()
    metadata = trace.metadata
    return Interaction(
        trace_id=found.trace_id,
        time=begun(trace, found.first),
        input=input_of(trace),
        output=output_of(trace),
        seconds=wall_seconds(trace),
        trace=trace,
        tags=tags_of(trace),
        version=nonempty_text(metadata.get(VERSION)),
        service=nonempty_text(metadata.get(SERVICE)) or found.service,
        session=nonempty_text(metadata.get(CONVERSATION)) or thread_of(trace),
    )


def begun(trace: Trace | None, otherwise: float) -> float:
    """Unix time at which an interaction began, by its trace (docs/definitions/monitoring.md#time).

    Args:
        trace: What the agent did.
        otherwise: The time if the trace states none, or a later one: when its first span was received.
    """
    stated = None if trace is None else started(trace)
    return otherwise if stated is None else min(stated, otherwise)


def received_trace(store: "Store", trace_id: str) -> new_case.Recorded | None:
    """A received trace and the earlier ones of its session, to make a case of; None without one.

    Raises:
        TraceError: If what the application recorded cannot be read.
    """
    traces = LiveTraces(store)
    received = traces.found(trace_id)
    if received is None:
        return None
    own = interaction_of(received)
    ids = [] if own.session is None else list(traces.before(received, own.session))
    others = [interaction_of(each) for each in map(traces.found, ids) if each is not None]
    same = [each for each in others if each.session == own.session and each.time <= own.time]
    same.sort(key=lambda each: each.time)
    return new_case.Recorded(_stated_trace(own), tuple(map(_stated_trace, same)))


def _stated_trace(interaction: Interaction) -> Trace:
    """The trace of an interaction, with what the application stated of it."""
    trace = interaction.trace or Trace()
    stated = {name: getattr(interaction, name) for name in ("input", "output", "tags")}
    stated |= {"conversation_id": interaction.session}
    metadata = trace.metadata | {name: value for name, value in stated.items() if value}
    return msgspec.structs.replace(trace, trace_id=interaction.trace_id, metadata=metadata)


def interaction_of_trace(trace: Trace, *, trace_id: str | None = None, now: float = 0.0) -> Interaction:
    """The interaction of a trace that is not in a store.

    Args:
        trace: The trace.
        trace_id: Its id, instead of its own.
        now: Its Unix time if the trace states none.
    """
    began = started(trace)
    found = CompleteTrace(
        trace_id=trace_id or trace.trace_id,
        version=1,
        first=now if began is None else began,
        last=now,
        late=False,
        service=None,
        body=None,
        read=lambda: trace,
    )
    return interaction_of(found)


def interaction_recorded(trace_id: str, body: bytes) -> Interaction:
    """The interaction of what an application recorded itself.

    Raises:
        TraceError: If it cannot be read.
    """
    try:
        recorded = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(trace_id, f"what was recorded cannot be read: {error}") from error
    fields = {name: getattr(recorded, name) for name in Recorded.__struct_fields__}
    if recorded.trace is not None:
        fields["trace"] = native_trace(recorded.trace)
    return Interaction(trace_id=trace_id, **fields)


def encode_recorded(recorded: Recorded) -> bytes:
    """Encode a recorded interaction for the store; values that JSON lacks become text."""
    fields = {name: getattr(recorded, name) for name in Recorded.__struct_fields__}
    if recorded.trace is not None:
        fields["trace"] = msgspec.to_builtins(recorded.trace, enc_hook=plain)
    return encode(fields)


_decoder = msgspec.json.Decoder(Recorded)


def _values(values: Any) -> tuple[str, ...]:
    """The different texts among values, cut and bounded, without control characters."""
    texts = dict.fromkeys(_printable(str(value)[:LONGEST_VALUE]) for value in values if value)
    return tuple(texts)[:MOST_VALUES]


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def _without_none(values: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}
