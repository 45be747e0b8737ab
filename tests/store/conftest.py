"""Fixtures: URLs of empty SQLite stores, and of PostgreSQL stores if PostgreSQL is installed."""

from pathlib import Path

import pytest

from tests.store.postgres import empty


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def any_url(request, url) -> str:
    if request.param == "sqlite":
        return url
    address = request.getfixturevalue("postgres_url")
    empty(address)
    return address
