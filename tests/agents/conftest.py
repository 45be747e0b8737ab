"""A loop that is slow to hear is not taken for a blocked one."""

import pytest

from trivium.agents.adapters import function as own_loop


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    monkeypatch.setattr(own_loop, "CANCEL_SECONDS", 60)
