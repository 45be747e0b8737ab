"""Validates the records of recorded outputs and makes attempts from them."""

import math
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from trivium.agents.attempt import TRACE_LEFT_OUT, AgentFailure, Attempt, Usage, WorldRecord, numbered
from trivium.agents.failures import reason, shown
from trivium.agents.response import NOTHING, sanitise_output, secret_flags
from trivium.errors import InputError, Problem, TraceError, suggest
from trivium.records.documents import parse_line
from trivium.records.validation import at, convert, describe, problem
from trivium.safe_text import sanitise
from trivium.storage import Stamp, named_path, stamp_of
from trivium.suites.case import Id
from trivium.suites.chat import chat_problem
from trivium.traces.native import native_trace
from trivium.traces.readers.chat import answer_of, trace_of_chat
from trivium.traces.readers.collection import format_problem, read_trace_file
from trivium.traces.trace import TURN, Trace, wall_seconds
from trivium.values import FileRecord, dicts, resolved

if TYPE_CHECKING:
    from trivium.suites.suite import Suite

_SUSPECT = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
"""Escapes of NUL and of surrogates: the texts of such a line are sanitised."""

MOST_SUGGESTED_FROM = 10_000
"""Largest suite, in cases, for which a similar id is suggested."""

MOST_IDS_LISTED = 3
"""Ids of traces that a message lists."""

_MOST = 2**53
"""Largest integer that every JSON reader represents exactly."""

Tokens = Annotated[int, Meta(ge=0, le=_MOST)]
Amount = Annotated[float, Meta(ge=0)]


class LineUsage(Usage, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Tokens and cost of an attempt.

    Attributes:
        input_tokens: Number of input tokens.
        output_tokens: Number of output tokens.
        cost_usd: Cost in US dollars.
    """

    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    cost_usd: Amount | None = None


@resolved
class Output(FileRecord, frozen=True, kw_only=True):
    """One line of a file of outputs.

    Attributes:
        case: Id of the case.
        repeat: Which attempt of the case this is, from 0.
        output: What the agent returned: a text, or any JSON value.
        seconds: Wall time in seconds.
        trace: A native trace, or {"file": path, "format": name, "trace_id": one of several}.
        usage: Tokens and cost.
        reward: The recorded reward.
        error: Why the attempt failed; empty if it did not.
        metadata: Any further data.
        messages: The chat of the attempt as OpenAI's API has it: its last answer is the output, and its calls
            are the trace, where the line states neither, unless they state their turn (as exported ones do).
        contexts: What the agent retrieved: texts, or objects with id, text or score.
        flags: What an earlier sanitising changed, in a file that Trivium exported.
        world: What became of the suite's world, in such a file.
    """

    case: Id
    repeat: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    output: Any = None
    seconds: Amount | None = None
    trace: Any = None
    usage: LineUsage | None = None
    reward: float | None = None
    error: str | None = None
    metadata: dict[str, Any] | None = None
    messages: list[Any] | None = None
    contexts: Any = None
    flags: tuple[str, ...] = ()
    world: WorldRecord | None = None


class _Traced(Output, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line with a native trace, the usual case; the trace is not normalised yet."""

    trace: Trace | None = None


@resolved
class TraceFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reference to a trace in a file; ``trace_id`` names one of several traces in it."""

    file: str
    format: str | None = None
    trace_id: str | None = None


_DECODERS = (msgspec.json.Decoder(_Traced), msgspec.json.Decoder(Output))
"""Of lines with a native trace, and of those whose trace is in a file."""

ParsedLine = tuple[Output | None, list[Problem], tuple[str, ...]]
"""The parsed line, or None; every problem of it; and flags for what sanitising changed."""


def read_line(line: bytes, place: str) -> ParsedLine:
    """Parse a line, apart from its trace, which ``trace_problems`` and ``attempt_from`` read."""
    if not _SUSPECT.search(line):
        for decoder in _DECODERS:
            try:
                return decoder.decode(line), [], ()
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                pass  # the slower path below finds and describes the mistake
    raw = parse_line(line, place)
    return (None, [raw], ()) if isinstance(raw, Problem) else read_row(raw, place)


def read_row(row: Any, place: str) -> ParsedLine:
    """Convert a JSON value to a record, or list its mistakes."""
    if isinstance(row, Problem):
        return None, [row], ()
    value, flags = sanitise(row)
    where = place if place.startswith("outputs[") else f"{place}:"
    output, problems = convert(value, Output, where)
    if output is not None and (problems := _not_finite(output, where)):
        output = None
    return output, problems, flags


def _not_finite(output: Output, where: str) -> list[Problem]:
    """The numbers of a record that are infinite or NaN, which JSON has no word for but tables have."""
    numbers = [(at(where, "seconds"), output.seconds), (at(where, "reward"), output.reward)]
    if output.usage is not None:
        numbers.append((at(at(where, "usage"), "cost_usd"), output.usage.cost_usd))
    return [
        problem(place, f"found {describe(number)}, expected a finite number")
        for place, number in numbers
        if number is not None and not math.isfinite(number)
    ]


def trace_problems(output: Output, place: str, folder: Path) -> list[Problem]:
    """List the mistakes in the trace of a record; a trace file is not read."""
    where = f"{place}: trace"
    try:
        trace = output.trace
        if trace is None or isinstance(trace, Trace):
            return []
        if _is_file(trace):
            named, problems = convert(trace, TraceFile, where)
            return problems if named is None else _file_problems(named, where, folder)
        native_trace(trace, where=where)
    except TraceError as error:
        return [Problem(each.where or where, each.what) for each in error.problems]
    return []


def message_problems(output: Output, place: str) -> list[Problem]:
    """The first mistake in the messages of a record."""
    messages = output.messages or []
    if (wrong := chat_problem(messages)) is not None:
        return [Problem(f"{place}: messages[{wrong[0]}]", wrong[1])]
    before, speaker = 0, ""
    for number, message in enumerate(messages):
        turn = message.get(TURN, before)
        where = f"{place}: messages[{number}].turn"
        if isinstance(turn, bool) or not isinstance(turn, int) or turn < 0:
            return [Problem(where, f"found {describe(turn)}, expected the number of a turn")]
        if turn < before:
            return [Problem(where, f"turn {turn} comes after turn {before}")]
        if TURN in message and turn == before > 0 and message["role"] == "user" and speaker != "user":
            return [Problem(where, f"there are two turns {turn}: a user has spoken and was answered in it")]
        before, speaker = turn, message["role"]
    return []


def no_such_case(suite: "Suite", case: str, *, suggests: bool = True) -> str:
    """What is wrong with the id of a case that a suite does not have.

    Args:
        suite: The suite.
        case: The id.
        suggests: Look for the nearest id, unless the suite is large.
    """
    near = suggests and len(suite) <= MOST_SUGGESTED_FROM
    return f'the suite has no case "{case}".{suggest(case, [each.id for each in suite]) if near else ""}'


def duplicate_of(earlier: str, case: str, repeat: int) -> str:
    """What is wrong with an attempt that is at an earlier place, too."""
    return f'duplicate of {earlier}: case "{case}", repeat {repeat}'


def attempt_from(output: Output, flags: tuple[str, ...], *, folder: Path, limit: int) -> Attempt:
    """Make an attempt from a line.

    Args:
        output: A line without problems.
        flags: What sanitising changed in the line.
        folder: Base folder of the paths of trace files.
        limit: Largest output in bytes.
    """
    trace: Trace | None = None
    unreadable = None
    try:
        trace = _trace_of(output, folder)
    except InputError as error:  # one trace that is lost costs no other attempt
        unreadable = str(error)
    said = output.output
    if output.messages is not None and not any(TURN in each for each in dicts(output.messages)):
        trace = trace or trace_of_chat(output.messages, f"{output.case}/{output.repeat}")
        said = answer_of(output.messages) or None if said is None else said
    attempt = Attempt(
        case=output.case,
        repeat=output.repeat,
        output=said,
        seconds=output.seconds,
        trace=trace,
        usage=None if output.usage is None else Usage(**msgspec.structs.asdict(output.usage)),
        reward=output.reward,
        error=output.error,
        flags=(*output.flags, *flags),
        metadata=(output.metadata or {}) | ({} if output.contexts is None else {"contexts": output.contexts}),
        world=output.world,
        messages=tuple(numbered(output.messages or ())),
    )
    return checked_attempt(attempt, limit=limit, trace_error=unreadable)


def _trace_of(output: Output, folder: Path) -> Trace | None:
    trace = output.trace
    if trace is None:
        return None
    if not _is_file(trace):
        return native_trace(trace)
    named = msgspec.convert(trace, TraceFile)
    path = named_path(folder, named.file)
    if named.trace_id is None:
        traces = read_trace_file(path, named.format)
        if len(traces) != 1:
            ids = _quoted([trace.trace_id for trace in traces])
            what = f'expected one trace, found {len(traces):,}: name one of them with "trace_id" ({ids})'
            raise TraceError(str(path), what if traces else "holds no trace")
        return traces[0]
    by_id = _traces_by_id(path, named.format, _stamp_of(path))
    if named.trace_id not in by_id:
        near = suggest(named.trace_id, by_id) or f" It has {_quoted(list(by_id))}."
        raise TraceError(str(path), f'no trace has the id "{named.trace_id}".{near}')
    return by_id[named.trace_id]


@lru_cache(maxsize=1)
def _traces_by_id(path: Path, format: str | None, _stamp: Stamp) -> dict[str, Trace]:  # noqa: A002
    """The traces of a file by their ids; of equal ids the first. Cached, for many lines may name one file."""
    by_id: dict[str, Trace] = {}
    for trace in read_trace_file(path, format):
        by_id.setdefault(trace.trace_id, trace)
    return by_id


def _stamp_of(path: Path) -> Stamp:
    try:
        return stamp_of(path)
    except OSError as failure:
        raise TraceError(str(path), f"cannot be read: {failure.strerror or failure}") from failure


def _quoted(ids: list[str]) -> str:
    more = len(ids) - MOST_IDS_LISTED
    listed = ", ".join(f'"{each}"' for each in ids[:MOST_IDS_LISTED])
    return f"{listed} and {more:,} more" if more > 0 else listed


def _is_file(trace: Any) -> bool:
    return isinstance(trace, dict) and "file" in trace


def _file_problems(named: TraceFile, where: str, folder: Path) -> list[Problem]:
    problems = []
    try:
        path = named_path(folder, named.file)
        # A device or a pipe would never end; a folder is allowed, because it may hold a trace.json.
        there = path.is_file() or path.is_dir()
    except OSError as failure:  # such as a name longer than any file's
        problems.append(
            Problem(f"{where}.file", f'"{named.file}" cannot be read: {failure.strerror or failure}')
        )
    except InputError as refused:
        problems += [Problem(f"{where}.file", f'"{named.file}" {each.what}') for each in refused.problems]
    else:
        if not there:
            problems.append(Problem(f"{where}.file", f'there is no file "{path}"'))
    if named.format is not None and (what := format_problem(named.format)) is not None:
        problems.append(Problem(f"{where}.format", what))
    return problems


def checked_attempt(attempt: Attempt, *, limit: int, trace_error: str | None = None) -> Attempt:
    """Sanitise what was recorded of an attempt, and flag secrets.

    Its time is that of the trace if none is stated. The attempt fails if the output exceeds the limit, or if
    it has no output, trace or reward.

    Args:
        attempt: What was recorded; ``flags`` are what an earlier sanitising changed, and an empty ``error``
            is none.
        limit: Largest output in bytes (``limits.output_bytes``).
        trace_error: Why a recorded trace could not be read.
    """
    error = (shown(attempt.error) or None) if attempt.error else None
    try:
        output, more = sanitise_output(attempt.output, limit=limit)
    except AgentFailure as failure:
        output, more, error = None, (), reason(failure)
    trace, flags, metadata = attempt.trace, attempt.flags, attempt.metadata
    recorded_trace = trace is not None or trace_error is not None
    if error is None and output is None and attempt.reward is None and not recorded_trace:
        error = NOTHING
    if trace_error is not None:
        flags = (*flags, TRACE_LEFT_OUT)
        metadata = metadata | {"trace_error": shown(trace_error)}
    more = (*more, *secret_flags([output, *(each.plain for each in attempt.messages)], metadata, trace))
    seconds = attempt.seconds
    if seconds is None and trace is not None:
        seconds = wall_seconds(trace)
    return msgspec.structs.replace(
        attempt,
        output=output,
        seconds=seconds,
        error=error,
        flags=tuple(dict.fromkeys([*flags, *more])),
        metadata=metadata,
    )
