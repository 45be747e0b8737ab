"""Fixtures: a store, and clients of a server on it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from litestar.testing import TestClient

from tests.store.conftest import any_url, url
from trivium.monitor.monitored import monitored
from trivium.monitor.otlp import IntakeLimits
from trivium.store.store import Store
from trivium.web.app import create_app
from trivium.web.security import Access
from trivium.web.services import Services

__all__ = ["any_url", "client", "connect", "store", "url"]

LOOPBACK = "http://127.0.0.1"
SUITE = {"name": "support", "monitor": {"sample_rate": 1.0, "quiet": 0.01}}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(f"sqlite:///{tmp_path / 'store.db'}") as opened:
        yield opened


@pytest.fixture
def connect(store: Store) -> Iterator[Callable[..., TestClient]]:
    """Makes a client of a server whose threads, other than the intake's, are not started."""
    with ExitStack() as stack:

        def connected(
            access: Access | None = None, *, limits: IntakeLimits | None = None, clock=None, **options
        ):
            clocks = {} if clock is None else {"clock": clock}
            services = Services(store, [monitored(SUITE)], limits=limits, **clocks)
            stack.callback(services.stop)
            app = create_app(services, access, **clocks)
            client = stack.enter_context(
                TestClient(app, base_url=options.pop("base_url", LOOPBACK), **options)
            )
            client.services = services
            return client

        yield connected


@pytest.fixture
def client(connect) -> TestClient:
    """A client on loopback."""
    return connect()
