"""Documents: the JSON values of a trace file, one, or one a line."""

import json
from pathlib import Path
from typing import Any

import msgspec

from trivium.errors import Problem, TraceError

MAX_BYTES = 512 * 2**20
"""Largest trace file read: a trace of 50,000 spans has about 30 MB."""


def documents_of(path: Path, *, max_bytes: int = MAX_BYTES) -> list[Any]:
    """The JSON values of a file.

    Args:
        path: The file.
        max_bytes: Largest file read.

    Raises:
        TraceError: If it is not there, too large, no UTF-8 or no JSON.
    """
    try:
        size = path.stat().st_size
        if size > max_bytes:
            raise TraceError(str(path), f"holds {size:,} bytes; at most {max_bytes:,} are read")
        content = path.read_bytes()
    except OSError as error:
        raise TraceError(str(path), f"cannot be read: {error.strerror or error}") from error
    return parse_documents(content, source=str(path))


def parse_documents(content: bytes, *, source: str) -> list[Any]:
    """The JSON values of a text: the whole of it is one, or each line is.

    Raises:
        TraceError: If it is no UTF-8 or no JSON; a broken line is named by its number.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        return [msgspec.json.decode(content)]
    except UnicodeDecodeError as error:
        raise TraceError(source, f"no valid UTF-8: {error}") from error
    except RecursionError as error:
        raise TraceError(source, "nested too deep to be read") from error
    except msgspec.DecodeError as whole:
        lines = [(number, line) for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()]
        if len(lines) > 1 and _is_value(lines[0][1]):
            return [_value(line, f"line {number}", source) for number, line in lines]
        return [_lenient(content, "", source, whole)]


def _is_value(line: bytes) -> bool:
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


def _lenient(content: bytes, where: str, source: str, strict: Exception) -> Any:
    """Python's own JSON writer lets NaN and Infinity through; they are read, and dropped in repair."""
    try:
        return json.loads(content.decode())
    except UnicodeDecodeError as error:
        raise TraceError(source, Problem(where, f"no valid UTF-8: {error}")) from strict
    except (ValueError, RecursionError):
        raise TraceError(source, Problem(where, f"no JSON that can be read: {strict}")) from strict
