"""Fixture: a separate store for each test."""

import pytest

from trivium.store.store import Store


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened
