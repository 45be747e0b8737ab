"""Reads JSON and JSONL files, gzipped or truncated ones included, and reads fields without raising."""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import msgspec

from trivium.errors import Problem, TraceError
from trivium.records.documents import check_is_file
from trivium.storage import open_file
from trivium.traces.trace import SpanUsage, Trace, TraceProblem
from trivium.values import (
    MAX_VALUES,
    TOO_MANY_VALUES,
    JsonObject,
    amount,
    count,
    dict_,
    holds_too_many_values,
    is_number,
    json_or_text,
)

MAX_BYTES = 512 * 2**20
"""Largest trace file read: a trace of 50,000 spans has about 30 MB."""


MAX_LINES = MAX_VALUES // 4
"""Most lines of a JSONL file; a line takes as much memory as four values."""

HEAD_BYTES = 2**16
"""Bytes of a file that format detection looks at."""

_AT_ONCE = 64 * 2**20
"""Bytes read at once."""

_BUFFER_BYTES = 2**16
"""Size of a file's buffer: the memory of larger ones is asked from the system for each file."""

_GZIP = b"\x1f\x8b"


def documents_of(path: Path, *, max_bytes: int = MAX_BYTES) -> list[Any]:
    """The JSON values of a file.

    Args:
        path: The file, gzipped or not.
        max_bytes: Largest file read.

    Raises:
        TraceError: If it is missing, too large, not UTF-8 or not JSON.
    """
    return parse_documents(content_of(path, max_bytes=max_bytes), source=str(path))


def content_of(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a file, un-gzipped.

    Raises:
        TraceError: If it is missing, not a file, too large, or broken gzip.
    """
    parts: list[bytes] = []
    left = max_bytes + 1
    with opened(path) as file:
        size = path.stat().st_size
        asked = min(_AT_ONCE, size + 1)  # memory for much more takes time; gzip may unpack to any size
        while size <= max_bytes and left and (part := file.read(min(asked, left))):
            parts.append(part)
            left -= len(part)
            asked = _AT_ONCE
    if size > max_bytes or not left:
        what = f"holds {max(size, max_bytes + 1):,} bytes or more; at most {max_bytes:,} are read"
        raise TraceError(str(path), what)
    return b"".join(parts)


def head_of(path: Path) -> bytes:
    """The first ``HEAD_BYTES`` of a file, un-gzipped.

    Raises:
        TraceError: As ``content_of``.
    """
    with opened(path) as file:
        return file.read(HEAD_BYTES)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, unpacked if it starts with the gzip magic number.

    Raises:
        TraceError: If it cannot be opened, or if the block fails to read it.
    """
    try:
        check_is_file(path, error=TraceError)  # opening a pipe may block for ever
        with open_file(path, read_at_once=_BUFFER_BYTES) as file:
            start = file.read(len(_GZIP))
            file.seek(0)
            if start != _GZIP:
                yield file
                return
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield cast("IO[bytes]", unpacked)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(str(path), f"not readable gzip: {error}") from error
    except OSError as error:
        raise TraceError(str(path), f"cannot be read: {error.strerror or error}") from error


def parse_documents(content: bytes, *, source: str) -> list[Any]:
    """Parse a text that is one JSON value, or has one on each line.

    Raises:
        TraceError: If it is not UTF-8, not JSON or holds too many values; names the number of a broken line.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    check_values(content, source=source)
    try:
        return [strict_value(content, "", source)]
    except msgspec.DecodeError as strict:
        if content.count(b"\n") > MAX_LINES:
            raise TraceError(
                source, f"holds more than {MAX_LINES:,} lines, the most that are read"
            ) from strict
        lines = [(number, line) for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()]
        if len(lines) > 1 and is_value(lines[0][1]):
            return [json_value(line, f"line {number}", source) for number, line in lines]
        return [_lenient(content, "", source, strict)]


def check_values(content: bytes, *, source: str, where: str = "") -> None:
    """Raise TraceError if a JSON text holds more values than the limit."""
    if holds_too_many_values(content):
        raise TraceError(source, Problem(where, TOO_MANY_VALUES))


def is_value(line: bytes) -> bool:
    """Whether a line is a JSON value."""
    try:
        json_value(line, "", "")
    except TraceError:
        return False
    return True


def json_value(content: bytes, where: str, source: str) -> Any:
    """Decode JSON as its standard has it, else as Python does: with NaN, infinity and lone surrogates.

    Raises:
        TraceError: If it is no JSON, not UTF-8, nested too deep or holds too many values.
    """
    check_values(content, source=source, where=where)
    try:
        return strict_value(content, where, source)
    except msgspec.DecodeError as error:
        return _lenient(content, where, source, error)


def strict_value(content: bytes, where: str, source: str) -> Any:
    """Decode JSON as its standard has it.

    Raises:
        DecodeError: If it is not JSON.
        TraceError: If it is not UTF-8, or nested too deep.
    """
    try:
        return msgspec.json.decode(content)
    except UnicodeDecodeError as error:
        raise TraceError(source, Problem(where, f"not valid UTF-8: {error}")) from error
    except RecursionError as error:
        raise TraceError(source, Problem(where, "nested too deep to be read")) from error


_ESCAPES = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)",
    re.DOTALL,
)
"""JSON escapes; a pair of surrogates matches as one."""


def _replace_lone_surrogate(escape: re.Match[str]) -> str:
    """Return an escape unchanged, or U+FFFD for a lone surrogate."""
    text = escape[0]
    return "\ufffd" if len(text) == len("\\ud800") and text[2] in "dD" and text[1] == "u" else text


def with_readable_text(content: bytes) -> tuple[str, int]:
    """A JSON text in which U+FFFD stands for what no text can hold, and the number of such places.

    These are bytes that are not UTF-8, and escapes of lone surrogates.
    """
    text = _ESCAPES.sub(_replace_lone_surrogate, content.decode(errors="replace"))
    return text, text.count("\ufffd") - content.count("\ufffd".encode())


def _lenient(content: bytes, where: str, source: str, strict: Exception) -> Any:
    """Parse JSON with Python's laxer decoder.

    NaN and Infinity are accepted (normalisation drops them); U+FFFD replaces a lone surrogate.
    """
    try:
        return json.loads(_ESCAPES.sub(_replace_lone_surrogate, content.decode()))
    except UnicodeDecodeError as error:
        raise TraceError(source, Problem(where, f"not valid UTF-8: {error}")) from strict
    except (ValueError, RecursionError):
        raise TraceError(source, Problem(where, f"not valid JSON: {strict}")) from strict


_UNITS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))
"""(threshold, seconds per unit): a Unix time above the threshold is in nano-, micro- or milliseconds."""


def text(item: JsonObject, *keys: str) -> str | None:
    """The value of the first key that holds a non-empty text or a number, as text."""
    for key in keys:
        value = item.get(key)
        if value is None:
            continue
        if isinstance(value, str):
            if value:
                return value
        elif is_number(value):
            return str(value)
    return None


def first_item(document: Any) -> Any:
    """The first item of a list that is not empty; any other value unchanged."""
    return document[0] if isinstance(document, list) and document else document


def flat(documents: Iterable[Any]) -> list[Any]:
    """The documents of a file, with the items of those that are lists in their place."""
    return [item for each in documents for item in (each if isinstance(each, list) else [each])]


def at(value: Any, *keys: str) -> Any:
    """Return the value at a path of keys in a JSON value; None if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def seconds(value: Any) -> float | None:
    """A number of seconds; ISO dates become Unix time (UTC if they have no zone); else None."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not is_number(value) or abs(value) >= 1e300:
        return None
    return float(value)  # NaN is listed as a problem later


def moment(value: Any) -> float | None:
    """A time as seconds since 1970; None if it is missing or zero, as in an unfinished call.

    Accepts ISO dates (with a T or a space), dates of HTTP headers (which Flask writes into JSON), and numbers
    or digits: seconds, milli-, micro- or nanoseconds, depending on their size.
    """
    if isinstance(value, str) and value.isdecimal() and len(value) < 25:
        value = int(value)
    time = seconds(value)
    if time is None and isinstance(value, str) and value[3:4] == ",":
        time = _http_date(value)
    if time is None or time <= 0:
        return None
    if isinstance(value, int | float):
        time *= next((unit for least, unit in _UNITS if time > least), 1.0)
    return time


def _http_date(value: str) -> float | None:
    try:
        return parsedate_to_datetime(value[:40]).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def dollars(value: Any) -> float | None:
    """A cost above zero, as a number or as text; None otherwise (0 means that no price is known)."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return amount(value) or None


def read_usage(fields: Mapping[str, Any], *, cost: float | None = None) -> SpanUsage | None:
    """Tokens and cost of a model request; None if nothing is stated.

    Args:
        fields: Where the tokens are stated; of several names the first with a valid count is read.
        cost: Dollars.
    """
    stated = _with_details(fields)
    counts = {name: _first_count(stated, keys) for name, keys in (_TOTALS | _PARTS).items()}
    if counts["input_tokens"] is None and counts["output_tokens"] is None and cost is None:
        return None
    if counts["input_tokens"] is not None:
        counts["input_tokens"] += sum(count(fields.get(key)) or 0 for key in _BESIDE_INPUT)
    return SpanUsage(cost_usd=cost, **counts)


_BESIDE_INPUT = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Anthropic's names of cached tokens, which its input tokens do not hold."""

_TOTALS = {
    "input_tokens": (
        *("input_tokens", "prompt_tokens", "promptTokens", "input_token_count", "prompt_token_count"),
        *("request_tokens", "input"),
    ),
    "output_tokens": (
        *("output_tokens", "completion_tokens", "completionTokens", "generated_token_count"),
        *("candidates_token_count", "response_tokens", "completion", "output"),
    ),
}
_PARTS = {
    "cache_read_tokens": (_BESIDE_INPUT[0], "cache_read_tokens", "input.cache_read", "input.cached_tokens"),
    "cache_write_tokens": (
        _BESIDE_INPUT[1],
        "cache_write_tokens",
        "input.cache_creation",
        "input.cache_write_tokens",
    ),
    "input_audio_tokens": ("input_audio_tokens", "input.audio", "input.audio_tokens"),
    "reasoning_tokens": (
        "reasoning_tokens",
        "output.reasoning",
        "output.reasoning_tokens",
        "output.thinking_tokens",
    ),
    "output_audio_tokens": ("output_audio_tokens", "output.audio", "output.audio_tokens"),
}
"""Where tokens and their parts are stated: by the provider, or in details of the input and the output."""

_DETAILS = {
    "input": ("input_token_details", "input_tokens_details", "prompt_tokens_details"),
    "output": ("output_token_details", "output_tokens_details", "completion_tokens_details"),
}


DETAIL_KEYS = frozenset(name for names in _DETAILS.values() for name in names)
USAGE_KEYS = frozenset(
    {"input_tokens", "prompt_tokens", "output_tokens", "completion_tokens", *DETAIL_KEYS}
    | {key.rpartition(".")[2] for keys in _PARTS.values() for key in keys}
)
"""Keys under which providers state tokens, those within the details of ``DETAIL_KEYS`` included."""


def _with_details(fields: Mapping[str, Any]) -> JsonObject:
    """Fields, with those that are nested in details of the input or the output."""
    return {
        f"{side}.{key}": value
        for side, names in _DETAILS.items()
        for name in names
        for key, value in dict_(fields.get(name)).items()
    } | dict(fields)


def _first_count(fields: Mapping[str, Any], keys: Sequence[str]) -> int | None:
    """The first valid count under the keys."""
    return next((n for key in keys if (n := count(fields.get(key))) is not None), None)


def decoded(value: Any) -> Any:
    """Decode a JSON text, also one that was encoded twice; return any other value unchanged."""
    for _ in range(2):
        if not isinstance(value, str) or value[:1] not in {"{", "[", '"'}:
            break
        value = json_or_text(value)
    return value


def snake(item: JsonObject) -> JsonObject:
    """Convert keys to snake case; where both forms exist, the value of the snake-case key wins."""
    if all(map(str.islower, item)):
        return item
    return {snake_key(key): value for key, value in item.items()} | {
        key: value for key, value in item.items() if snake_key(key) == key
    }


@lru_cache(maxsize=4096)
def snake_key(key: str) -> str:
    """A key in snake case."""
    return re.sub("(?<=[a-z0-9])([A-Z])", r"_\1", key).lower()


T = TypeVar("T")


def read_complete_lines(
    content: bytes, read: Callable[[bytes], T], problems: list[TraceProblem], *, source: str
) -> T:
    """Read a file of lines, without a truncated last line.

    Writers end each line with a newline: a last line without one is left out if it is not JSON.

    Args:
        content: The content of the file.
        read: Parses all of it, or its complete lines.
        problems: Receives a problem if a line was left out.
        source: Name of the file, for problems.

    Raises:
        TraceError: If it cannot be read for another reason.
    """
    try:
        return read(content)
    except TraceError:
        complete, end, last = content.rpartition(b"\n")
        if not complete.strip() or not end or is_value(last):
            raise
        try:
            result = read(complete)
        except TraceError:
            result = None
        if result is None:
            raise
    number = complete.count(b"\n") + 2
    problems.append(
        TraceProblem(kind="truncated", what=f"line {number} of {source} was cut short and is left out")
    )
    return result


def with_problems(traces: Sequence[Trace], problems: Sequence[TraceProblem]) -> list[Trace]:
    """Add the problems of the files to the last trace."""
    if not problems:
        return list(traces)
    *before, last = traces
    return [*before, msgspec.structs.replace(last, problems=(*last.problems, *problems))]
