"""Recording without files."""

import pytest

from trivium.traces.recording import config as configuring


@pytest.fixture
def nothing_is_written(monkeypatch):
    monkeypatch.setattr(configuring._Current, "recording", configuring.Recording(folder=None))
