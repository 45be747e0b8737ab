"""Fixtures: URLs of empty SQLite stores, and of PostgreSQL stores if PostgreSQL is installed."""

from pathlib import Path

import pytest


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def any_url(request, url) -> str:
    if request.param == "sqlite":
        return url
    address = request.getfixturevalue("postgres_url")
    _empty(address)
    return address


def _empty(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
