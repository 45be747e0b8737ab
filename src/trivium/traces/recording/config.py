"""Holds the recording settings of this process: what is recorded, and where it is written."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from trivium.errors import InputError

FOLDER = "logs/traces"
VARIABLE = "TRIVIUM_TRACES"
CONTENT_VARIABLE = "TRIVIUM_TRACES_CONTENT"
OFF = frozenset({"off", "no", "0", "false", "none"})
ROTATE_BYTES = 64 * 2**20


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """Recording settings.

    Attributes:
        folder: Folder of the files; None writes none.
        content: Whether the contents of inputs, outputs, messages and errors are recorded.
        patterns: Patterns to mask, in addition to texts that look like secrets.
        rotate_bytes: Size in bytes from which a new file is started.
    """

    folder: Path | None = Path(FOLDER)
    content: bool = True
    patterns: tuple[re.Pattern[str], ...] = ()
    rotate_bytes: int = ROTATE_BYTES


def _from_environment() -> Recording:
    folder = os.environ.get(VARIABLE) or FOLDER
    content = os.environ.get(CONTENT_VARIABLE, "on")
    return Recording(
        folder=None if folder.lower() in OFF else Path(folder), content=content.lower() not in OFF
    )


class _Current:
    """Holds the current settings."""

    recording = _from_environment()


def recording() -> Recording:
    """The current settings."""
    return _Current.recording


def configure(
    *,
    folder: str | Path | UnsetType | None = UNSET,
    content: bool | UnsetType = UNSET,
    mask: Sequence[str] | UnsetType = UNSET,
    rotate_bytes: int | UnsetType = UNSET,
) -> None:
    """Set how this process records. Omitted settings stay as they are, initially as in the environment.

    Args:
        folder: Folder of the files, instead of TRIVIUM_TRACES; None records nothing outside of an evaluation.
        content: Whether the contents of inputs, outputs, messages and errors are recorded, instead of
            TRIVIUM_TRACES_CONTENT.
        mask: Regular expressions; matches are written as ``[masked]``, as secrets always are.
        rotate_bytes: Size in bytes from which a new file is started.

    Raises:
        InputError: If a pattern is not a regular expression, or the size is not above 0.
    """
    before = _Current.recording
    if rotate_bytes is not UNSET and rotate_bytes <= 0:
        raise InputError("rotate_bytes", f"is {rotate_bytes}; expected a number of bytes above 0")
    _Current.recording = Recording(
        folder=before.folder if folder is UNSET else None if folder is None else Path(folder),
        content=before.content if content is UNSET else content,
        patterns=before.patterns if mask is UNSET else _compiled(mask),
        rotate_bytes=before.rotate_bytes if rotate_bytes is UNSET else rotate_bytes,
    )


def _compiled(mask: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    patterns = []
    for index, pattern in enumerate(mask):
        try:
            patterns.append(re.compile(pattern))
        except re.error as error:
            raise InputError(f"mask[{index}]", f"{pattern!r} is not a regular expression: {error}") from None
    return tuple(patterns)
