"""Paths on this machine and in object storage: ``s3://BUCKET/FOLDER``, ``gs://…``, ``az://…``.

Addresses are opened by fsspec's file systems through universal-pathlib, whose paths have the methods of
``pathlib.Path``. Credentials come from where each file system looks for them, such as the environment.
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
"""Bytes that are fetched from object storage at once."""

FETCHED_TO_COPY = 1 << 23
"""Bytes that are fetched at once of a file that is copied."""

STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "memory"})
"""Kinds of addresses that data may name; others reach other machines, or files of this one."""

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.ASCII)


def is_remote(source: str) -> bool:
    """Whether a source is an address rather than a path of this machine."""
    return _ADDRESS.match(source) is not None


def path_of(source: str | Path) -> Path:
    """The path of a source, which may be an address; a path stays as it is.

    Raises:
        InputError: If nothing opens addresses that begin like this.
        MissingExtra: If universal-pathlib, or the file system's package, is not installed.
    """
    if not isinstance(source, str):
        return source
    found = _ADDRESS.match(source)
    if found is None:
        return Path(source)
    try:
        from upath import UPath
    except ImportError as error:
        raise MissingExtra("cloud", found[0]) from error
    try:
        path = UPath(source)
        path.exists()  # each file system has errors of its own where it cannot be reached
    except ImportError as error:
        raise InputError(source, f"its file system is not installed: {error}") from error
    except Exception as error:
        raise InputError(source, f"cannot be reached: {error}") from error
    return cast("Path", path)


def is_local(path: object) -> bool:
    """Whether a path is one of this machine."""
    return isinstance(path, Path)


def joined(folder: Path, source: str) -> Path:
    """A path relative to a folder; an address stays as it is."""
    return path_of(source) if is_remote(source) else folder / source


def named_path(folder: Path, source: str) -> Path:
    """The path of a file that a file of a folder names; what names it may come from anyone.

    Next to a file in a bucket only files of that bucket can be named, next to one of this machine those of
    this machine and of object storage.

    Raises:
        InputError: If no such file may be named, or it cannot be reached.
        MissingExtra: As :func:`path_of`.
    """
    found = _ADDRESS.match(source)
    if is_local(folder) and found is None:
        return folder / source
    if "::" in source or (found is not None and found[1] not in STORES):
        raise InputError(source, "is no address in object storage, such as s3://BUCKET/FILE")
    if is_local(folder):
        return path_of(source)
    bucket, below = _bucket_and_key(str(folder))
    named, key = (bucket, posixpath.join(below, source)) if found is None else _bucket_and_key(source)
    key = posixpath.normpath(key)
    if named != bucket or key.startswith(("/", "../")):
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
    return io.BufferedReader(fetched, read_at_once)  # whose lines are found faster, and bounded


Stamp = tuple[int, int | str]
"""Size and time of a file, or what object storage has in place of a time."""


@contextmanager
def replaced_when_complete(path: Path) -> Iterator[Path]:
    """Give a path to write to, whose file takes the place of another once it is complete.

    If an error ends the writing, an earlier file stays as it was. A symbolic link is kept; a pipe or a device
    is written to directly.

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
    """What tells a file from an earlier one of its name.

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
    """Copy a file from object storage to this machine until the process ends; a file that is here stays.

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
    """Write a copy of a file, perhaps in another form, that stays on this machine until the process ends.

    Args:
        path: The file.
        write: Writes the copy; not called if this process has written one in this form before.
        form: What tells this form from others.

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
    """The paths of sources, of which addresses may be patterns; a shell expands those of this machine.

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
            found = matching(source, Path())
        except OSError as failure:
            raise InputError(source, f"cannot be read: {failure.strerror or failure}") from failure
        if not found:
            raise InputError(source, "no file has such a name")
        paths += found
    return paths


def is_named_file(path: Path) -> bool:
    """Whether a path of this machine is a file, or a link to one that is lost, which reading it says.

    Hidden links that lead nowhere are locks of editors.
    """
    return path.is_file() or (path.is_symlink() and not path.exists() and not path.name.startswith("."))


def matching(source: str, folder: Path) -> list[Path]:
    """The files that a pattern names, sorted; relative patterns are below the folder."""
    if not is_remote(source) and is_local(folder):
        found = glob.iglob(source, root_dir=folder, recursive=True)  # noqa: PTH207 - may be absolute
        return sorted(path for path in (folder / each for each in found) if is_named_file(path))
    address = source if is_remote(source) else f"{folder}/{source}"
    parts = address.split("/")
    first = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    below = path_of("/".join(parts[:first])).glob("/".join(parts[first:]))
    return sorted(path for path in below if path.is_file())
