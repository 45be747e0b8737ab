"""Oracles and real data: small oracles in ``goldens/``; tests of the rest skip without ``../shared``."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

OWN = Path(__file__).resolve().parent / "goldens"
SHARED = Path(__file__).resolve().parents[2] / "shared"


def golden(name: str) -> list[dict[str, Any]]:
    """The lines of an oracle file: the one in ``goldens/``, else the one in ``../shared``, else a skip."""
    return _lines(OWN / name if (OWN / name).exists() else _there(SHARED / "golden" / name))


def data(relative: str) -> Path:
    """A path of the real data, or a skip."""
    return _there(SHARED / "data" / relative)


def _there(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"needs ../shared/{path.relative_to(SHARED)}, which is not beside this checkout")
    return path


@cache
def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
