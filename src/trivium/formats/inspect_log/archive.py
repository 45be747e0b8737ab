"""Opens logs of Inspect AI, ``.eval`` zip files and JSON, with bounds on what is unpacked.

Inspect has compressed with Zstandard since 2026, which Python's own ``zipfile`` reads only from 3.14 on.
"""

import lzma
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from trivium.errors import InputError, MissingExtra, Problem, TraceError
from trivium.storage import open_file, path_of
from trivium.traces.readers.json_input import at, documents_of, first_item, head_of, json_value
from trivium.values import JsonObject, dict_, list_, nonempty_text

MAX_FILE_BYTES = 4 * 2**30
"""Largest file read."""
MAX_MEMBER_BYTES = 512 * 2**20
"""Largest member, unpacked; its declared size is not trusted."""
MAX_TOTAL_BYTES = 16 * 2**30
"""Most bytes unpacked from one file in one pass."""
MAX_MEMBERS = 2_000_000
"""Most members."""

ZSTANDARD = 93
"""Compression method of Zstandard in zip files (PKWARE, APPNOTE 4.4.5)."""

_LOCAL_HEADER = struct.Struct("<4s2x2x2x2x2x4x4x4xHH")
_PIECE = 2**20
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OSError,
    ValueError,
    struct.error,
)


def _unreadable() -> tuple[type[Exception], ...]:
    """What a member that cannot be unpacked raises; a small one of Zstandard may ask for all memory."""
    zstandard = sys.modules.get("zstandard")
    return _UNREADABLE if zstandard is None else (*_UNREADABLE, zstandard.ZstdError, MemoryError)


class Archive:
    """A zip file that is open for reading.

    Args:
        path: Path of the file.

    Raises:
        TraceError: If it is not a zip file, too large, or has too many members.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._left = MAX_TOTAL_BYTES
        try:
            size = path.stat().st_size
            if size > MAX_FILE_BYTES:
                raise TraceError(self._path, f"holds {size:,} bytes; at most {MAX_FILE_BYTES:,} are read")
            self._file = open_file(path)
        except OSError as error:
            raise TraceError(self._path, f"cannot be read: {error.strerror or error}") from error
        try:
            self._zip = zipfile.ZipFile(self._file)
        except _UNREADABLE as error:
            self._file.close()
            raise TraceError(self._path, f"not a readable zip file: {error}") from error
        infos = self._zip.infolist()
        if len(infos) > MAX_MEMBERS:
            self.close()
            raise TraceError(self._path, f"holds {len(infos):,} members; at most {MAX_MEMBERS:,} are read")
        # If a name occurs twice, the last one counts, as in every reader of zip files.
        self._members = {info.filename: info for info in infos}

    def close(self) -> None:
        """Close the file."""
        self._zip.close()
        self._file.close()

    def names(self) -> list[str]:
        """The names of all members, in the order of the file."""
        return list(self._members)

    def read(self, name: str) -> bytes:
        """The bytes of a member.

        Raises:
            TraceError: If it cannot be unpacked, or is too large.
            MissingExtra: If it is compressed with Zstandard and nothing can unpack that.
        """
        info = self._members[name]
        limit = min(MAX_MEMBER_BYTES, self._left)
        try:
            content = b"".join(self._pieces(info, limit + 1))
        except (InputError, MissingExtra):
            raise
        except _unreadable() as error:
            raise TraceError(self._path, f'its member "{name}" cannot be unpacked: {error}') from error
        if len(content) > limit:
            raise TraceError(self._path, f'its member "{name}" holds more than {limit:,} bytes')
        self._left -= len(content)
        return content

    def _pieces(self, info: zipfile.ZipInfo, most: int) -> Iterator[bytes]:
        with self._opened(info) as member:
            while most > 0 and (piece := member.read(min(_PIECE, most))):
                most -= len(piece)
                yield piece

    def _opened(self, info: zipfile.ZipInfo) -> IO[bytes]:
        if info.compress_type != ZSTANDARD:
            return self._zip.open(info)
        try:
            import zstandard
        except ImportError:
            raise MissingExtra("inspect", f"reading {Path(self._path).name}") from None
        self._file.seek(info.header_offset)
        mark, name_length, extra_length = _LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))
        if mark != b"PK\x03\x04":
            raise zipfile.BadZipFile("no local header where the directory says")
        self._file.seek(name_length + extra_length, 1)
        packed = self._file.read(min(info.compress_size, MAX_FILE_BYTES))
        decompressor = zstandard.ZstdDecompressor(max_window_size=2**27)
        return cast("IO[bytes]", decompressor.stream_reader(packed, read_across_frames=True))


_HEADERS = ("header.json", "_journal/start.json")
_SAMPLE = re.compile(r"samples/[^/]+\.json")
_ZIP = b"PK\x03\x04"


class Sample(NamedTuple):
    """One sample of a log in one epoch.

    ``raw`` is the sample as stored in the log, ``where`` its position in the file.
    """

    id: str
    epoch: int
    raw: JsonObject
    where: str


class Log:
    """A log: its ``task`` and the name of its main score, ``headline``; samples are read on request.

    Args:
        path: An ``.eval`` file, or a ``.json`` one.

    Raises:
        TraceError: If it is not a log.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path_of(path)
        self._document = None if head_of(self.path).startswith(_ZIP) else self._read_document()
        header = self._archive_header() if self._document is None else self._document
        spec = header.get("eval")
        if not isinstance(spec, dict):
            raise TraceError(str(path), 'is not a log of Inspect AI: expected an object "eval"')
        self.task = nonempty_text(spec.get("task")) or self.path.stem
        self.headline = _headline(header)

    def samples(self) -> Iterator[Sample]:
        """Every sample, in the order of the file, one in memory at a time.

        Raises:
            TraceError: If one cannot be read.
        """
        if self._document is not None:
            for index, raw in enumerate(list_(self._document.get("samples"))):
                yield self._sample(raw, f"samples[{index}]")
            return
        with closing(Archive(self.path)) as archive:
            for name in archive.names():
                if _SAMPLE.fullmatch(name):
                    raw = json_value(archive.read(name), name, str(self.path))
                    yield self._sample(raw, name)

    def _sample(self, raw: Any, where: str) -> Sample:
        if not isinstance(raw, dict):
            raise TraceError(str(self.path), Problem(where, "expected a sample, an object"))
        id_, epoch = raw.get("id"), raw.get("epoch", 1)
        if not isinstance(id_, int | str) or isinstance(id_, bool) or id_ == "":
            raise TraceError(str(self.path), Problem(f"{where}: id", "expected a number or text"))
        if not isinstance(epoch, int) or isinstance(epoch, bool) or not 1 <= epoch < 2**31:
            raise TraceError(str(self.path), Problem(f"{where}: epoch", "expected a whole number from 1"))
        return Sample(str(id_), epoch, raw, where)

    def _archive_header(self) -> JsonObject:
        with closing(Archive(self.path)) as archive:
            for name in _HEADERS:
                if name in archive.names():
                    return dict_(json_value(archive.read(name), name, str(self.path)))
        raise TraceError(
            str(self.path), f"is not a log of Inspect AI: it holds none of {', '.join(_HEADERS)}"
        )

    def _read_document(self) -> JsonObject:
        documents = documents_of(self.path)
        if len(documents) != 1 or not isinstance(documents[0], dict):
            raise TraceError(str(self.path), 'is not a log of Inspect AI: expected an object with "eval"')
        return documents[0]


def _headline(header: JsonObject) -> str | None:
    """The main score of the log: the one it names as headline, else the first."""
    first, named = first_item(at(header, "results", "scores")), at(header, "results", "headline", "score")
    return nonempty_text(named) or nonempty_text(at(first, "name"))
