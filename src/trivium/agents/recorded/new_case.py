"""Makes a case of a recorded trace: what was asked, with the messages before it.

What the agent answered and did is no expectation: it is proposed in comments, for a person to correct.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from trivium.agents.response import masked_value
from trivium.errors import Problem, TraceError, suggest
from trivium.masking import mask
from trivium.safe_text import sanitise
from trivium.traces.conversations import joined
from trivium.traces.outcome import asked_in, failure_of, output_of, started, tags_of, thread_of
from trivium.traces.readers.collection import TraceFiles
from trivium.traces.trace import Trace
from trivium.values import JsonObject

MOST_LISTED = 5
"""Traces that a message names."""

MOST_CALLS = 30
"""Calls of tools that are proposed as expectations."""


class NewCase(NamedTuple):
    """A case that was made of a trace.

    Attributes:
        case: Its keys.
        remarks: Lines of YAML that propose what to expect.
        masked: How many of its texts held a secret, which is masked.
        calls: The calls of tools and their results, as a trace in the native format; None without a call.
    """

    case: JsonObject
    remarks: tuple[str, ...]
    masked: int
    calls: JsonObject | None


class Recorded(NamedTuple):
    """A trace, and the earlier ones of its conversation in the order of time."""

    trace: Trace
    earlier: tuple[Trace, ...] = ()


def find_trace(path: str, *, trace_id: str | None = None) -> Recorded:
    """Find a trace in a file or folder of any format.

    Args:
        path: The file or folder.
        trace_id: Its id; needed where there are several.

    Raises:
        InputError: If the files cannot be read.
        TraceError: If no trace has that id, or none is named among several.
    """
    files = TraceFiles([path])
    found: list[Trace] = [located.trace for located in files]
    if not found:
        raise TraceError("", files.problems[:MOST_LISTED] or [Problem(path, "holds no trace")])
    ids = [trace.trace_id for trace in found]
    if trace_id is None and len(found) > 1:
        more = f" and {len(ids) - MOST_LISTED:,} more" if len(ids) > MOST_LISTED else ""
        what = f"holds {len(ids):,} traces: name one by --trace-id ({', '.join(ids[:MOST_LISTED])}{more})"
        raise TraceError(path, what)
    named = [trace for trace in found if trace_id in {None, trace.trace_id}]
    if not named:
        near = suggest(str(trace_id), ids) or f" There are: {', '.join(ids[:MOST_LISTED])}."
        raise TraceError(path, f'holds no trace "{trace_id}".{near}')
    if len(named) > 1:
        raise TraceError(path, f'holds {len(named):,} traces "{trace_id}": name the file of the right one')
    return Recorded(named[0], _earlier(named[0], found))


def _earlier(chosen: Trace, found: Sequence[Trace]) -> tuple[Trace, ...]:
    """The traces of the same conversation that began before it; those without a time of day are in order."""
    thread = thread_of(chosen)
    if thread is None:
        return ()
    same = [trace for trace in found if thread_of(trace) == thread]
    if all(started(trace) is not None for trace in same):
        same.sort(key=lambda trace: started(trace) or 0.0)
    return tuple(same[: next(place for place, trace in enumerate(same) if trace is chosen)])


def case_of_trace(recorded: Recorded, *, id: str | None = None) -> NewCase:  # noqa: A002
    """Make a case of a trace; secrets are masked.

    Args:
        recorded: The trace.
        id: Id of the case; that of the trace by default.

    Raises:
        TraceError: If its input was not recorded, or it has no id.
    """
    trace = recorded.trace
    id = id or trace.trace_id.strip()  # noqa: A001
    if not id:
        raise TraceError("", Problem("--id", "the trace has no id of its own: name the case"))
    thread = thread_of(trace)
    question = asked_in(joined((*recorded.earlier, trace), thread) if recorded.earlier and thread else trace)
    if question is None or question == "":
        what = "its input was not recorded: there is nothing to ask again. Record the contents of messages"
        raise TraceError(id, f"{what}, or write the case by hand")
    answer = output_of(trace)
    calls = [
        {"name": span.name} | ({"arguments": span.input} if isinstance(span.input, dict) else {})
        for span in trace.tool_calls
    ]
    moment = trace.metadata.get("started")
    origin = {"trace": trace.trace_id} | ({"recorded": moment} if isinstance(moment, str) else {})
    case: JsonObject = {"id": id, "input": question}
    case |= {"tags": list(tags_of(trace))} if tags_of(trace) else {}
    case |= {"group": thread} if thread else {}
    hidden = _Masked()
    case = hidden.value(sanitise(case | {"metadata": origin})[0])
    remarks = _remarks(hidden.value(sanitise(answer)[0]), hidden.value(sanitise(calls)[0]), failure_of(trace))
    kept = [
        {"id": span.id, "kind": "tool", "name": span.name, "input": span.input, "ok": span.ok}
        | {"output": span.attributes.get("error") if span.output is None else span.output}
        for span in trace.tool_calls
    ]
    recorded_calls = _Masked().value(sanitise({"trace_id": id, "spans": kept})[0]) if kept else None
    return NewCase(case, tuple(map(mask, remarks)), hidden.count, recorded_calls)


def _remarks(answer: Any, calls: Sequence[JsonObject], failure: str | None) -> list[str]:
    """Propose what to expect, as lines of YAML."""
    lines = [
        "What is expected is yours to say. The agent"
        + (f" failed ({failure})" if failure else " answered and did:")
    ]
    if failure and (answer not in (None, "") or calls):
        lines[0] += ", after this:"
    if answer not in (None, ""):
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        lines.append(f"references: [{json.dumps(text, ensure_ascii=False)}]")
    if calls:
        lines += ["expect:", "  tools:"]
        lines += [f"    - {json.dumps(call, ensure_ascii=False)}" for call in calls[:MOST_CALLS]]
        if len(calls) > MOST_CALLS:
            lines.append(f"    # and {len(calls) - MOST_CALLS:,} more")
    return lines


class _Masked:
    """Masks all that may be a secret in JSON values, and counts the texts that held one."""

    def __init__(self) -> None:
        self.count = 0

    def value(self, value: Any) -> Any:
        """The value with its secrets masked."""
        return self._texts(value, masked_value(value))

    def _texts(self, before: Any, value: Any) -> Any:
        if isinstance(value, str):
            hidden = mask(value)
            self.count += hidden != before
            return hidden
        if isinstance(value, list):
            return [self._texts(old, new) for old, new in zip(before, value, strict=True)]
        if isinstance(value, dict):
            pairs = zip(before.values(), value.items(), strict=True)
            return {mask(key): self._texts(old, new) for old, (key, new) in pairs}
        return value
