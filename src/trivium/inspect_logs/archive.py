"""The members of an ``.eval`` file, a zip of JSON documents: bounded in number and size, never written out.

Inspect compresses with Zstandard since 2026, which Python's own ``zipfile`` reads from 3.14 on.
"""

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

from trivium.errors import InputError, MissingExtra, TraceError

MAX_FILE_BYTES = 4 * 2**30
"""Largest file read."""
MAX_MEMBER_BYTES = 512 * 2**20
"""Largest member, unpacked: what it says of its own size is not believed."""
MAX_TOTAL_BYTES = 16 * 2**30
"""Most that is unpacked of one file in one go through it."""
MAX_MEMBERS = 2_000_000
"""Most members."""

ZSTANDARD = 93
"""The number of Zstandard in zip files (PKWARE, APPNOTE 4.4.5)."""

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


class Archive:
    """A zip file that is open for reading.

    Args:
        path: Where it is.

    Raises:
        TraceError: If it is no zip file, too large, or has too many members.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._left = MAX_TOTAL_BYTES
        try:
            size = path.stat().st_size
            if size > MAX_FILE_BYTES:
                raise TraceError(self._path, f"holds {size:,} bytes; at most {MAX_FILE_BYTES:,} are read")
            self._file: BufferedReader = path.open("rb")
        except OSError as error:
            raise TraceError(self._path, f"cannot be read: {error.strerror or error}") from error
        try:
            self._zip = zipfile.ZipFile(self._file)
        except _UNREADABLE as error:
            self._file.close()
            raise TraceError(self._path, f"no zip file that can be read: {error}") from error
        infos = self._zip.infolist()
        if len(infos) > MAX_MEMBERS:
            self.close()
            raise TraceError(self._path, f"holds {len(infos):,} members; at most {MAX_MEMBERS:,} are read")
        # A name may stand twice: the last one counts, as with every reader of zip files.
        self._members = {info.filename: info for info in infos}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

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
        except _UNREADABLE as error:
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
        reader: Any = zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(
            packed, read_across_frames=True
        )
        return cast("IO[bytes]", _Zstandard(reader))


class _Zstandard:
    """A Zstandard stream whose own errors are those of a bad zip file."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._reader.close()

    def read(self, most: int) -> bytes:
        import zstandard

        try:
            return bytes(self._reader.read(most))
        except (zstandard.ZstdError, MemoryError) as error:
            raise zipfile.BadZipFile(str(error)) from error
