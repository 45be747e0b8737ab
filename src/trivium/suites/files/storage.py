"""Paths on this machine and in object storage: ``s3://BUCKET/FOLDER``, ``gs://…``, ``az://…``.

Addresses are opened by fsspec's file systems through universal-pathlib, whose paths have the methods of
``pathlib.Path``. Credentials come from where each file system looks for them, such as the environment.
"""

import re
from pathlib import Path
from typing import cast

from trivium.errors import InputError, MissingExtra

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.ASCII)


def is_remote(source: str) -> bool:
    """Whether a source is an address rather than a path of this machine."""
    return _ADDRESS.match(source) is not None


def path_of(source: str) -> Path:
    """The path of a source, which may be an address.

    Raises:
        InputError: If nothing opens addresses that begin like this.
        MissingExtra: If universal-pathlib, or the file system's package, is not installed.
    """
    found = _ADDRESS.match(source)
    if found is None:
        return Path(source)
    try:
        from upath import UPath
    except ImportError as error:
        raise MissingExtra("cloud", found[0]) from error
    try:
        path = UPath(source)
        path.fs  # noqa: B018 - imports the file system's package
    except ImportError as error:
        raise InputError(source, f"its file system is not installed: {error}") from error
    except ValueError as error:
        raise InputError(source, str(error)) from error
    return cast("Path", path)
