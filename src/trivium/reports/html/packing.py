"""Packs attempts into compressed parts of the page, which its script unpacks as they are looked at.

A part is base64 in a script element of a type that no browser executes. There are two kinds: ``index`` (what
finding and ordering need of every attempt, as JSON in columns) and ``attempts`` (their HTML).
"""

import base64
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

import msgspec

PART_ATTEMPTS = 64
"""Largest number of attempts in a part."""
PART_BYTES = 400_000
"""A part that reaches this size before it is compressed is complete."""
INDEX_ATTEMPTS = 1_000
"""Largest number of attempts in a part of the index."""
_LEVEL = 6
_SPOOL_CHUNK = 1 << 20


class IndexEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What finding and ordering need of an attempt.

    Attributes:
        name: Its name in reports.
        verdict: ``error``, ``failed``, ``undecided`` or ``passed``.
        anchor: Its anchor on the page.
        text: What is searched.
        values: Its composite and its scores; only those with a value.
    """

    name: str
    verdict: str
    anchor: str
    text: str
    values: dict[str, float]


class Packer:
    """Collects the index and the HTML of attempts, and writes them as compressed parts to a file.

    Args:
        spool: Where the parts are written.
    """

    def __init__(self, spool: IO[bytes]) -> None:
        self._spool = spool
        self._entries: list[IndexEntry] = []
        self._pieces: dict[int, str] = {}
        self.total = 0

    def add(self, entry: IndexEntry, html: str) -> None:
        """Add the next attempt.

        Args:
            entry: What finding and ordering need of it.
            html: One element, or an empty text if the page has it outside the parts.
        """
        self._entries.append(entry)
        if len(self._entries) >= INDEX_ATTEMPTS:
            self._write_index()
        if html:
            self._pieces[self.total] = html
        if len(self._pieces) >= PART_ATTEMPTS or sum(map(len, self._pieces.values())) >= PART_BYTES:
            self._write_attempts()
        self.total += 1

    def flush(self) -> None:
        """Write what was collected."""
        if self._entries:
            self._write_index()
        if self._pieces:
            self._write_attempts()

    def _write_index(self) -> None:
        self._spool.write(_part("index", json.dumps(_columns(self._entries), separators=(",", ":"))))
        self._entries = []

    def _write_attempts(self) -> None:
        numbers = " ".join(map(str, self._pieces))
        self._spool.write(_part("attempts", "".join(self._pieces.values()), numbers=numbers))
        self._pieces = {}


def _columns(entries: Sequence[IndexEntry]) -> dict[str, Any]:
    names = dict.fromkeys(name for entry in entries for name in entry.values)
    read: dict[str, Callable[[IndexEntry], str]] = {
        "names": lambda entry: entry.name,
        "verdicts": lambda entry: entry.verdict,
        "anchors": lambda entry: entry.anchor,
        "texts": lambda entry: entry.text.lower(),
    }
    columns: dict[str, Any] = {column: [of(entry) for entry in entries] for column, of in read.items()}
    columns["values"] = {name: [_rounded(entry.values.get(name)) for entry in entries] for name in names}
    return columns


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _part(kind: str, content: str, *, numbers: str | None = None) -> bytes:
    packed = base64.b64encode(zlib.compress(content.encode(errors="replace"), _LEVEL))
    which = b"" if numbers is None else f' data-numbers="{numbers}"'.encode()
    return b'<script type="application/octet-stream" class="%s"%s>%s</script>\n' % (
        kind.encode(),
        which,
        packed,
    )


def copied(spool: IO[bytes]) -> Iterator[bytes]:
    """The content of a spool, in chunks."""
    spool.seek(0)
    while chunk := spool.read(_SPOOL_CHUNK):
        yield chunk
