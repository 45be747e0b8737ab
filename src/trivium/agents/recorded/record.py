"""Validates one line of a file of outputs and makes an attempt of it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
from msgspec import Meta

from trivium.agents.attempt import TRACE_LEFT_OUT, AgentFailure, Attempt, Usage
from trivium.agents.failures import reason, shown
from trivium.agents.response import NOTHING, mask_trace, sanitise_output
from trivium.errors import InputError, OutputsError, Problem, TraceError
from trivium.json_values import TOO_MANY_VALUES, holds_too_many_values
from trivium.suites.case import Id
from trivium.suites.files.documents import MalformedDocument, decode, parse_json
from trivium.suites.sanitize import sanitise
from trivium.suites.validation import convert
from trivium.traces.native import native_trace
from trivium.traces.readers import FORMATS, read_trace_file
from trivium.traces.trace import Trace

LONGEST_LINE = 256 * 1024**2
"""Bytes; a line is held in memory as a whole."""

_BOM = b"\xef\xbb\xbf"
_SUSPECT = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
"""Escapes of NUL and of surrogates: the texts of such a line are cleaned."""

_MOST = 2**53
"""Whole numbers up to here mean the same in every program that reads JSON."""

Tokens = Annotated[int, Meta(ge=0, le=_MOST)]
Amount = Annotated[float, Meta(ge=0)]


class LineUsage(Usage, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Tokens and money that an attempt used.

    Attributes:
        input_tokens: Tokens that went in.
        output_tokens: Tokens that came out.
        cost_usd: US dollars.
    """

    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    cost_usd: Amount | None = None


class Output(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line of a file of outputs.

    Attributes:
        case: Id of the case.
        repeat: Which attempt of the case this is, from 0.
        output: What the agent gave back: a text, or any JSON value.
        seconds: Wall time.
        trace: A native trace, or {"file": path, "format": name}.
        usage: Tokens and cost.
        reward: A verdict that came with the recording.
        error: Why the attempt failed; an empty text says that it did not.
        metadata: Anything else.
        flags: What was changed at the door before, in what Trivium itself exported.
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
    flags: tuple[str, ...] = ()


class _Traced(Output, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same with a native trace, as most lines have it: not yet normalised."""

    trace: Trace | None = None


class _FastOutput(Output, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same with the trace left as it stands, for whoever needs it."""

    trace: msgspec.Raw = msgspec.Raw()


class TraceFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trace that is a file of its own."""

    file: str
    format: str | None = None


_TRACED_DECODER = msgspec.json.Decoder(_Traced)
_DECODER = msgspec.json.Decoder(_FastOutput)
_TRACE_DECODER = msgspec.json.Decoder(Trace)

Told = tuple[Output | None, list[Problem], tuple[str, ...]]
"""The parsed line, or None; every problem of it; and flags of what sanitising changed."""


def lines_of(
    file: IO[bytes], source: str, *, error: type[InputError] = OutputsError
) -> Iterator[tuple[int, int, bytes]]:
    """Number, start and bytes of every line that is not blank.

    Raises:
        InputError: As ``error``, at a line that is too long to be held, or holds too many values.
    """
    start, number = 0, 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            what = f"is longer than {LONGEST_LINE:,} bytes: one record a line"
            raise error(source, Problem(f"line {number}", what))
        if holds_too_many_values(line):
            raise error(source, Problem(f"line {number}", TOO_MANY_VALUES))
        mark = len(_BOM) if not start and line.startswith(_BOM) else 0
        text = line[mark:]
        if text and not text.isspace():
            yield number, start + mark, text
        start += len(line)


def read_line(line: bytes, number: int) -> Told:
    """Parse a line; ``trace_problems`` and ``attempt_from`` look at its trace."""
    if not _SUSPECT.search(line):
        for decoder in (_TRACED_DECODER, _DECODER):
            try:
                return decoder.decode(line), [], ()
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                pass  # the slower path below finds and describes the mistake
    try:
        raw = parse_json(decode(line))
    except MalformedDocument as malformed:
        column = malformed.problem.where.rpartition(", ")[2]
        where = f"line {number}" + (f", {column}" if column.startswith("column") else "")
        return None, [Problem(where, malformed.problem.what)], ()
    value, flags = sanitise(raw)
    output, problems = convert(value, Output, f"line {number}:")
    return output, problems, flags


def trace_problems(output: Output, number: int, folder: Path) -> list[Problem]:
    """Problems of the trace of a line; a file that it names is not read."""
    where = f"line {number}: trace"
    try:
        trace = _trace_value(output)
        if trace is None or isinstance(trace, Trace):
            return []
        if _is_file(trace):
            named, problems = convert(trace, TraceFile, where)
            return problems if named is None else _file_problems(named, where, folder)
        native_trace(trace, where=where)
    except TraceError as error:
        return [Problem(each.where or where, each.what) for each in error.problems]
    return []


def attempt_from(output: Output, flags: tuple[str, ...], *, folder: Path, limit: int) -> Attempt:
    """Make an attempt from a line.

    Args:
        output: A line without problems.
        flags: What sanitising changed in it.
        folder: The folder that paths of trace files are relative to.
        limit: Most bytes of an output.
    """
    trace: Trace | None = None
    unreadable = None
    try:
        trace = _trace_of(output, folder)
    except TraceError as error:
        unreadable = str(error)
    return attempt_of(
        case=output.case,
        repeat=output.repeat,
        output=output.output,
        limit=limit,
        seconds=output.seconds,
        trace=trace,
        trace_error=unreadable,
        usage=None if output.usage is None else Usage(**msgspec.structs.asdict(output.usage)),
        reward=output.reward,
        error=output.error,
        flags=(*output.flags, *flags),
        metadata=output.metadata or {},
    )


def _trace_of(output: Output, folder: Path) -> Trace | None:
    trace = _trace_value(output)
    if trace is None:
        return None
    if not _is_file(trace):
        return native_trace(trace)
    named = msgspec.convert(trace, TraceFile)
    path = folder / named.file
    traces = read_trace_file(path, named.format)
    if len(traces) != 1:
        raise TraceError(str(path), f"expected one trace, found {len(traces):,}")
    return traces[0]


def _trace_value(output: Output) -> Any:
    """The trace as a Trace that is not yet normalised, or as a JSON value where it is none."""
    raw = output.trace
    if not isinstance(raw, msgspec.Raw):
        return raw
    if not memoryview(raw):
        return None
    try:
        return _TRACE_DECODER.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass  # null, a file, or wrong
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError("", f"cannot be read: {error}") from error


def _is_file(trace: Any) -> bool:
    return isinstance(trace, dict) and "file" in trace


def _file_problems(named: TraceFile, where: str, folder: Path) -> list[Problem]:
    path = folder / named.file
    problems = []
    try:
        # A device or a pipe would never end; a folder may hold a trace.json.
        there = path.is_file() or path.is_dir()
    except OSError as failure:  # such as a name longer than any file's
        problems.append(Problem(f"{where}.file", f'"{path}" cannot be read: {failure.strerror}'))
    else:
        if not there:
            problems.append(Problem(f"{where}.file", f'there is no file "{path}"'))
    if named.format is not None and named.format not in FORMATS:
        what = f'no trace format is called "{named.format}". Known: {", ".join(FORMATS)}'
        problems.append(Problem(f"{where}.format", what))
    return problems


def attempt_of(
    *,
    case: str,
    repeat: int,
    output: Any,
    limit: int,
    seconds: float | None = None,
    trace: Trace | None = None,
    trace_error: str | None = None,
    usage: Usage | None = None,
    reward: float | None = None,
    error: str | None = None,
    flags: tuple[str, ...] = (),
    metadata: dict[str, Any] | None = None,
) -> Attempt:
    """Make an attempt from a recorded output.

    The attempt fails if the output exceeds the limit, or if there is neither output, trace nor reward.

    Args:
        case: Id of the case.
        repeat: Which attempt of the case it is.
        output: Any JSON value.
        limit: Most bytes of it (``limits.output_bytes``).
        seconds: Wall time.
        trace: What the agent did.
        trace_error: Why a recorded trace could not be read.
        usage: Tokens and cost.
        reward: A verdict.
        error: Why it failed; empty when it did not.
        flags: What sanitising changed before.
        metadata: Anything else.
    """
    error = (shown(error) or None) if error else None
    try:
        output, more = sanitise_output(output, limit=limit)
    except AgentFailure as failure:
        output, more, error = None, (), reason(failure)
    recorded_trace = trace is not None or trace_error is not None
    if error is None and output is None and reward is None and not recorded_trace:
        error = NOTHING
    if trace is not None:
        trace, masked = mask_trace(trace)
        more = (*more, *masked)
    metadata = metadata or {}
    if trace_error is not None:
        flags = (*flags, TRACE_LEFT_OUT)
        metadata = metadata | {"trace_error": shown(trace_error)}
    return Attempt(
        case=case,
        repeat=repeat,
        output=output,
        seconds=seconds,
        trace=trace,
        usage=usage,
        reward=reward,
        error=error,
        flags=tuple(dict.fromkeys([*flags, *more])),
        metadata=metadata,
    )
