"""Opens, lists and copies files, local or in object storage: ``s3://BUCKET/FOLDER``, ``gs://…``, ``az://…``.

universal-pathlib gives addresses the methods of ``pathlib.Path``, on top of the file systems of fsspec. Each
file system finds its credentials itself, for example in the environment.
"""

import glob
import io
import os
import posixpath
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, cast

from trivium.errors import InputError, MissingExtra

FETCHED_AT_ONCE = 1 << 20
"""Size in bytes of a read from object storage."""

FETCHED_TO_COPY = 1 << 23
"""Size in bytes of a read when a whole file is copied."""

STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "memory"})
"""URL schemes that a data file may name; other schemes could reach other machines, or local files."""

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.ASCII)


def is_remote(source: str) -> bool:
    """Whether a source is an address (a URL) rather than a local path."""
    return _ADDRESS.match(source) is not None


def path_of(source: str | Path) -> Path:
    """Return the path of a source, which may be an address.

    Raises:
        InputError: If no file system opens addresses of this scheme, or this one cannot be reached.
        MissingExtra: If universal-pathlib, or the file system's package, is not installed.
    """
    if not isinstance(source, str):
        return source
    scheme = _ADDRESS.match(source)
    if scheme is None:
        return Path(source)
    try:
        from upath import UPath
    except ImportError as error:
        raise MissingExtra("cloud", scheme[0]) from error
    try:
        path = UPath(source)
        path.exists()  # an unreachable file system raises errors of its own classes
    except ImportError as error:
        raise InputError(source, f"its file system is not installed: {error}") from error
    except Exception as error:
        raise InputError(source, f"cannot be reached: {error}") from error
    return cast("Path", path)


def is_local(path: object) -> bool:
    """Whether a path is on this machine."""
    return isinstance(path, Path)


def joined(folder: Path, source: str) -> Path:
    """Resolve a relative path against a folder; return an address as it is."""
    return path_of(source) if is_remote(source) else folder / source


def named_path(folder: Path, source: str) -> Path:
    """Resolve the name of a file that an untrusted file in a folder refers to.

    A file in a bucket may refer only to files of that bucket; a local file may refer to local files and to
    object storage.

    Raises:
        InputError: If the reference is not allowed, or the file cannot be reached.
        MissingExtra: As :func:`path_of`.
    """
    scheme = _ADDRESS.match(source)
    if is_local(folder) and scheme is None:
        return folder / source
    if "::" in source or (scheme is not None and scheme[1] not in STORES):
        raise InputError(source, "is no address in object storage, such as s3://BUCKET/FILE")
    if is_local(folder):
        return path_of(source)
    bucket, below = _bucket_and_key(str(folder))
    other, key = (bucket, posixpath.join(below, source)) if scheme is None else _bucket_and_key(source)
    key = posixpath.normpath(key)
    if other != bucket or key.startswith(("/", "../")):
        raise InputError(source, f"is outside of {bucket}, whose file names it")
    return path_of(f"{bucket}/{key}")


def _bucket_and_key(address: str) -> tuple[str, str]:
    kind, _, rest = address.partition("://")
    bucket, _, key = rest.partition("/")
    return f"{kind}://{bucket}", key


def open_file(path: Path, *, read_at_once: int = 1 << 17) -> IO[bytes]:
    """Open a file for reading.

    Args:
        path: The file.
        read_at_once: Size of a read in bytes; from object storage at least ``FETCHED_AT_ONCE``.

    Raises:
        OSError: If it cannot be opened.
    """
    if is_local(path):
        return path.open("rb", buffering=read_at_once)
    remote: Any = path
    fetched = remote.open("rb", block_size=max(read_at_once, FETCHED_AT_ONCE))
    return io.BufferedReader(fetched, read_at_once)  # splits lines faster, within a bounded buffer


Stamp = tuple[int, int | str]
"""Size of a file with its modification time in nanoseconds, or with its version key in object storage."""


@contextmanager
def writable(path: Path, error: type[InputError] = InputError) -> Iterator[None]:
    """Raise what the system says of a file that cannot be written as ``error``."""
    try:
        yield
    except OSError as failure:
        raise error(str(path), f"cannot be written: {failure.strerror or failure}") from failure


@contextmanager
def replaced_when_complete(path: Path) -> Iterator[Path]:
    """Yield a temporary path, and replace the file with what was written there once the block has ended.

    After an error the earlier file stays as it was. A symbolic link is kept; a pipe or a device is written
    directly.

    Args:
        path: The file to replace.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        yield target
        return
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield unfinished
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def stamp_of(path: Path) -> Stamp:
    """Return the stamp of a file, which changes when the file is rewritten or replaced.

    Raises:
        OSError: If it cannot be read.
    """
    if is_local(path):
        status = path.stat()
        return status.st_size, status.st_mtime_ns
    remote: Any = path
    remote.fs.invalidate_cache(remote.path)
    return path.stat().st_size, remote.fs.ukey(remote.path)


def local_copy(path: Path) -> tuple[Stamp, Path]:
    """Copy a file from object storage, and keep the copy until the process ends; a local file is not copied.

    Returns:
        The stamp of the file (see :func:`stamp_of`), and the path of the copy.

    Raises:
        OSError: If it cannot be read or written.
    """
    if is_local(path):
        return stamp_of(path), path

    def fetch(target: IO[bytes]) -> None:
        with open_file(path, read_at_once=FETCHED_TO_COPY) as source:
            shutil.copyfileobj(source, target, FETCHED_TO_COPY)

    return temporary_copy(path, fetch)


def temporary_copy(path: Path, write: Callable[[IO[bytes]], None], form: str = "") -> tuple[Stamp, Path]:
    """Write a local copy of a file, perhaps converted, and keep it until the process ends.

    Args:
        path: The file.
        write: Writes the copy; not called if this process has already written one in this form.
        form: Name of the conversion; empty for a plain copy.

    Returns:
        The stamp of the file (see :func:`stamp_of`), and the path of the copy.

    Raises:
        OSError: If it cannot be read or written.
    """
    stamp = stamp_of(path)
    key = str(path), stamp, form
    if key not in _copies:
        copy = Path(_folder_of_copies().name) / f"{len(_copies)}-{path.name}"
        try:
            with copy.open("wb") as target:
                write(target)
        except BaseException:
            copy.unlink(missing_ok=True)
            raise
        _copies[key] = copy
    return stamp, _copies[key]


_copies: dict[tuple[str, Stamp, str], Path] = {}


@cache
def _folder_of_copies() -> "TemporaryDirectory[str]":
    return TemporaryDirectory(prefix="trivium-copies-")


def paths_named(sources: Sequence[str | Path]) -> list[Path]:
    """Return the paths of sources, expanding glob patterns in addresses; the shell expands local patterns.

    Raises:
        InputError: If one cannot be reached, or a pattern matches no file.
        MissingExtra: As :func:`path_of`.
    """
    paths: list[Path] = []
    for source in sources:
        if not isinstance(source, str) or not is_remote(source) or not glob.has_magic(source):
            paths.append(path_of(source))
            continue
        try:
            matches = matching(source, Path())
        except OSError as failure:
            raise InputError(source, f"cannot be read: {failure.strerror or failure}") from failure
        if not matches:
            raise InputError(source, "no file has such a name")
        paths += matches
    return paths


def is_named_file(path: Path) -> bool:
    """Whether a local path is a file, or a broken link, so that reading it reports the error.

    Hidden broken links do not count: editors use them as lock files.
    """
    return path.is_file() or (path.is_symlink() and not path.exists() and not path.name.startswith("."))


def matching(source: str, folder: Path) -> list[Path]:
    """Return the files that match a glob pattern, sorted; a relative pattern is below the folder."""
    if not is_remote(source) and is_local(folder):
        names = glob.iglob(source, root_dir=folder, recursive=True)  # noqa: PTH207 - may be absolute
        return sorted(path for path in (folder / name for name in names) if is_named_file(path))
    address = source if is_remote(source) else f"{folder}/{source}"
    parts = address.split("/")
    first = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    below = path_of("/".join(parts[:first])).glob("/".join(parts[first:]))
    return sorted(path for path in below if path.is_file())
