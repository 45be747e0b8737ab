"""Reads the properties of a whole trace: input, output, outcome, start, tags, case, tokens."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from trivium.traces.conversation import answer_in, question_in
from trivium.traces.readers.json_input import seconds
from trivium.traces.trace import ORPHAN, TURN, Span, SpanUsage, Trace, extent, parents_first, texts_in
from trivium.values import JsonObject, amount, count, sum_known

CASE_KEYS = ("case", "case_id", "trivium.case")
"""Keys of a trace's metadata, or of its outermost span's attributes, that name its case."""

_CASE_TAG = "case:"
_THREAD_KEYS = ("thread_id", "conversation_id", "conversation", "group_id")
"""Keys of a trace's metadata that name the conversation it belongs to."""

FIRST_MOMENT = 1e8
"""A time at or above this is a Unix time in seconds (1973 or later), not a time since the trace began."""

_LAST_MOMENT = 1e10
"""A time at or above this (the year 2286) is neither."""

LONGEST_ERROR = 300
"""Characters of a recorded error that are quoted at most."""


def outermost_spans(trace: Trace) -> list[Span]:
    """The spans without a parent; only those of agents if there are any."""
    roots = [span for span in trace.spans if span.parent is None]
    return [span for span in roots if span.kind == "agent"] or roots


def deciding_spans(trace: Trace) -> list[Span]:
    """The outermost spans that say how the trace ended: of those that had no parent, if there are any."""
    orphans = {problem.span for problem in trace.problems if problem.kind == ORPHAN}
    roots = [span for span in trace.spans if span.parent is None and span.id not in orphans]
    return [span for span in roots if span.kind == "agent"] or roots or outermost_spans(trace)


def completed(trace: Trace) -> bool | None:
    """Whether the outermost spans ended without an error; None if one has not ended, or none is the root."""
    outcomes = [span.ok for span in deciding_spans(trace)]
    if False in outcomes:
        return False
    return None if None in outcomes or not outcomes or trace.without_root else True


def failure_of(trace: Trace) -> str | None:
    """Which outermost span failed, and its recorded error; None if none did."""
    failed = next((span for span in deciding_spans(trace) if span.ok is False), None)
    return None if failed is None else f"{failed.kind} {failed.name} failed{recorded_error(trace, failed)}"


def recorded_error(trace: Trace, failed: Span) -> str:
    """``: `` and the error of a failed span, else of the last failed span of the trace; empty without one."""
    for span in (failed, *(each for each in reversed(trace.spans) if each.ok is False)):
        error = span.attributes.get("error")
        if isinstance(error, dict):
            error = error.get("message") or error.get("exception_type") or error
        if error:
            whose = "" if span is failed else f" in {span.kind} {span.name}"
            text = " ".join(str(error).split())
            return f"{whose}: {text[:LONGEST_ERROR]}{'…' if len(text) > LONGEST_ERROR else ''}"
    return ""


def input_of(trace: Trace) -> Any:
    """Return the input of a trace: of its first outermost span with one, else from the metadata.

    Of a conversation, the last text of the user; None if nothing is recorded.
    """
    inputs = (span.input for span in _of_last_turn(outermost_spans(trace)))
    stated = _first(map(question_in, (*inputs, trace.metadata.get("input"), trace.metadata.get("question"))))
    if stated is None and trace.people:
        return _first(each["content"] for each in reversed(said_in(trace)) if each["role"] == "user")
    return stated


def said_in(trace: Trace) -> list[JsonObject]:
    """What people and agents said to each other, where the trace has such messages: role and content.

    In a trace whose turns are numbered each message of a person begins one, and has its number as ``turn``.
    """
    people, said = trace.people, list[JsonObject]()
    turn = 0
    for message in trace.messages:
        by_person = message.sender in people
        if by_person == (message.receiver in people) or message.content in (None, ""):
            continue
        turn += by_person
        numbered = {TURN: turn} if trace.metadata.get("turns") else {}
        said.append({"role": "user" if by_person else "assistant", "content": message.content} | numbered)
    return said


def asked_in(trace: Trace) -> Any:
    """What was asked: the input, or of a conversation the messages up to the last of the user."""
    said = said_in(trace)
    while said and said[-1]["role"] != "user":
        said.pop()
    plain = [{"role": each["role"], "content": each["content"]} for each in said]
    return plain if len(plain) > 1 else input_of(trace)


def output_of(trace: Trace) -> Any:
    """Return the output of a trace: of its last outermost span with one, else from the metadata.

    Of a conversation, the last text of the assistant. Without either, the text of the last model request that
    is not below a tool; None if that has none.
    """
    outputs = (span.output for span in reversed(_of_last_turn(outermost_spans(trace))))
    stated = _first(map(answer_in, (*outputs, trace.metadata.get("output"))))
    return _last_answer(trace) if stated is None else stated


def _of_last_turn(spans: list[Span]) -> list[Span]:
    """Those spans of a conversation that are of its last turn; all spans of another trace."""
    last = spans[-1].attributes.get(TURN) if spans else None
    return spans if last is None else [span for span in spans if span.attributes.get(TURN) == last]


def _first(values: Iterable[Any]) -> Any:
    return next((value for value in values if value is not None), None)


def _last_answer(trace: Trace) -> str | None:
    if not any(span.kind == "llm" and span.output is not None for span in trace.spans):
        return None
    below_tool = below_tools(trace.spans)
    last = trace.spans[-1].attributes.get(TURN)
    for span, below in zip(reversed(trace.spans), reversed(below_tool), strict=True):
        if span.attributes.get(TURN) != last:
            return None
        if span.kind == "llm" and span.output is not None and not below:
            answer = answer_in(span.output)
            return answer if isinstance(answer, str) and answer.strip() else None
    return None


def below_tools(spans: Sequence[Span]) -> list[bool]:
    """Whether each span is below a tool. Parents must form a forest; does not recurse."""
    within = dict.fromkeys((span.id for span in spans), False)
    for index in parents_first(spans):
        span = spans[index]
        within[span.id] = span.kind == "tool" or (span.parent is not None and within[span.parent])
    return [span.kind != "tool" and within[span.id] for span in spans]


def started(trace: Trace) -> float | None:
    """Unix time in seconds at which the trace began; None if it does not state one."""
    zero = clock_zero(trace)
    return None if zero is None else zero + (extent(trace.spans)[0] or 0.0)


def clock_zero(trace: Trace) -> float | None:
    """Unix time, in seconds, at which the trace's clock showed 0; None if the trace does not state it.

    It is 0 if its times are Unix times. A time of day without a zone is UTC, whatever that of this machine.
    """
    if FIRST_MOMENT <= (extent(trace.spans)[0] or 0.0) < _LAST_MOMENT:
        return 0.0
    stated = trace.metadata.get("started")
    return seconds(stated) if isinstance(stated, str) else None


def tags_of(trace: Trace) -> tuple[str, ...]:
    """The tags of a trace."""
    return texts_in(trace.metadata.get("tags"))


def stated_cases(trace: Trace) -> Iterator[str]:
    """List ids of cases that the trace may be an attempt at, most explicit first.

    They come from ``CASE_KEYS`` in its metadata (or in a mapping ``metadata`` there), the outermost span's
    attributes, a tag ``case:ID``, the trace's own id, and any tag.
    """
    sources = [trace.metadata, trace.metadata.get("metadata")]
    for span in outermost_spans(trace)[:1]:
        sources += [span.attributes, span.attributes.get("metadata")]
    for source in sources:
        if isinstance(source, dict):
            for key in CASE_KEYS:
                value = source.get(key)
                if isinstance(value, str | int) and not isinstance(value, bool):
                    yield str(value)
    tags = tags_of(trace)
    yield from (tag.removeprefix(_CASE_TAG) for tag in tags if tag.startswith(_CASE_TAG))
    yield trace.trace_id
    yield from tags


def thread_of(trace: Trace) -> str | None:
    """The conversation that the trace belongs to: traces of one are not independent."""
    for key in _THREAD_KEYS:
        value = trace.metadata.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def counted_usage(trace: Trace) -> Iterator[tuple[Span, SpanUsage]]:
    """The spans whose tokens and cost are counted, each once.

    These are the model requests. An agent's span that has a usage (the total of a Claude Code session) counts
    instead of the requests of that agent.
    """
    totals = {span.agent or span.name for span in trace.spans if span.kind == "agent" and span.usage}
    for span in trace.spans:
        if span.usage is not None and (
            span.kind == "agent" or (span.kind == "llm" and span.agent not in totals)
        ):
            yield span, span.usage


def stated_usage(trace: Trace) -> SpanUsage | None:
    """Tokens and cost that a trace states of itself as a whole, as a Claude Code session does; else None.

    If it states only the cost, the tokens are those that are counted.
    """
    stated = trace.metadata.get("usage")
    if not isinstance(stated, dict):
        return None
    cost = amount(stated.get("cost_usd"))
    inputs, outputs = count(stated.get("input_tokens")), count(stated.get("output_tokens"))
    if inputs is None and outputs is None:
        if cost is None:
            return None
        counted = total_usage(usage for _, usage in counted_usage(trace))
        return msgspec.structs.replace(counted, cost_usd=cost)
    return SpanUsage(input_tokens=inputs, output_tokens=outputs, cost_usd=cost)


def total_usage(usages: Iterable[SpanUsage]) -> SpanUsage:
    """Sums of tokens and of cost; None where nothing is reported."""
    known = list(usages)
    names = SpanUsage.__struct_fields__
    return SpanUsage(**{name: sum_known(getattr(usage, name) for usage in known) for name in names})
