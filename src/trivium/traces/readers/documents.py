"""Documents: the JSON values of a trace file, one, or one a line."""

import gzip
import json
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from trivium.bounds import MAX_VALUES, TOO_MANY_VALUES, holds_too_many_values
from trivium.errors import Problem, TraceError

MAX_BYTES = 512 * 2**20
"""Largest trace file read: a trace of 50,000 spans has about 30 MB."""


MAX_LINES = MAX_VALUES // 4
"""Most lines of a file with a JSON value a line, each of which takes as much as four values."""

HEAD_BYTES = 2**16
"""How much of a file is looked at to find out its format."""

_AT_ONCE = 64 * 2**20
"""Bytes read at once."""

_GZIP = b"\x1f\x8b"


def documents_of(path: Path, *, max_bytes: int = MAX_BYTES) -> list[Any]:
    """The JSON values of a file.

    Args:
        path: The file; one that is gzipped is read as what it holds.
        max_bytes: Largest file read.

    Raises:
        TraceError: If it is not there, too large, no UTF-8 or no JSON.
    """
    return parse_documents(content_of(path, max_bytes=max_bytes), source=str(path))


def content_of(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a file, un-gzipped.

    Raises:
        TraceError: If it is not there, no file, too large, or no sound gzip.
    """
    try:
        with _opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            content = None if size > max_bytes else _bounded(file, max_bytes)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(str(path), f"no gzip that can be read: {error}") from error
    except OSError as error:
        raise TraceError(str(path), f"cannot be read: {error.strerror or error}") from error
    if content is None:
        what = f"holds {max(size, max_bytes + 1):,} bytes or more; at most {max_bytes:,} are read"
        raise TraceError(str(path), what)
    return content


def _bounded(file: IO[bytes], max_bytes: int) -> bytes | None:
    """All that is in a file, or None when it is more than is read; it may unpack to any size."""
    parts: list[bytes] = []
    held = 0
    while part := file.read(_AT_ONCE):
        parts.append(part)
        held += len(part)
        if held > max_bytes:
            return None
    return b"".join(parts) if len(parts) != 1 else parts[0]


def head_of(path: Path) -> bytes:
    """The first ``HEAD_BYTES`` of a file, un-gzipped.

    Raises:
        TraceError: As ``content_of``.
    """
    try:
        with _opened(path) as file:
            return file.read(HEAD_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(str(path), f"no gzip that can be read: {error}") from error
    except OSError as error:
        raise TraceError(str(path), f"cannot be read: {error.strerror or error}") from error


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The file, read through gzip where it starts as such."""
    if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe may take for ever
        raise TraceError(str(path), "is no file: a device or a pipe may never end")
    with path.open("rb") as file:
        start = file.read(len(_GZIP))
        file.seek(0)
        if start != _GZIP:
            yield file
            return
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield cast("IO[bytes]", unpacked)


def parse_documents(content: bytes, *, source: str) -> list[Any]:
    """The JSON values of a text: the whole of it is one, or each line is.

    Raises:
        TraceError: If it is no UTF-8 or no JSON, or holds too many values; a broken line is named by its
            number.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    check_values(content, source=source)
    try:
        return [msgspec.json.decode(content)]
    except UnicodeDecodeError as error:
        raise TraceError(source, f"no valid UTF-8: {error}") from error
    except RecursionError as error:
        raise TraceError(source, "nested too deep to be read") from error
    except msgspec.DecodeError as whole:
        if content.count(b"\n") > MAX_LINES:
            raise TraceError(
                source, f"holds more than {MAX_LINES:,} lines, the most that are read"
            ) from whole
        lines = [(number, line) for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()]
        if len(lines) > 1 and is_value(lines[0][1]):
            return [_value(line, f"line {number}", source) for number, line in lines]
        return [_lenient(content, "", source, whole)]


def check_values(content: bytes, *, source: str) -> None:
    """Raise TraceError when a JSON text holds more values than are read."""
    if holds_too_many_values(content):
        raise TraceError(source, TOO_MANY_VALUES)


def is_value(line: bytes) -> bool:
    """Whether a line is a JSON value."""
    try:
        _value(line, "", "")
    except TraceError:
        return False
    return True


def _value(line: bytes, where: str, source: str) -> Any:
    try:
        return msgspec.json.decode(line)
    except UnicodeDecodeError as error:
        raise TraceError(source, Problem(where, f"no valid UTF-8: {error}")) from error
    except RecursionError as error:
        raise TraceError(source, Problem(where, "nested too deep to be read")) from error
    except msgspec.DecodeError as error:
        return _lenient(line, where, source, error)


_ESCAPES = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)",
    re.DOTALL,
)
"""Escapes, pairs of surrogates as one."""


def _whole(escape: re.Match[str]) -> str:
    """An escape as it is, or U+FFFD for a surrogate alone."""
    text = escape[0]
    return "\ufffd" if len(text) == len("\\ud800") and text[2] in "dD" and text[1] == "u" else text


def _lenient(content: bytes, where: str, source: str, strict: Exception) -> Any:
    """A value that is JSON in Python's eyes alone.

    NaN and Infinity are read, and dropped in repair; U+FFFD takes the place of half a surrogate pair.
    """
    try:
        return json.loads(_ESCAPES.sub(_whole, content.decode()))
    except UnicodeDecodeError as error:
        raise TraceError(source, Problem(where, f"no valid UTF-8: {error}")) from strict
    except (ValueError, RecursionError):
        raise TraceError(source, Problem(where, f"no JSON that can be read: {strict}")) from strict
