"""Fixtures: a store, and clients of a server on it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from litestar.testing import TestClient

from tests.store.conftest import url
from tests.store.postgres import any_made_url
from trivium.monitor.monitored import monitored
from trivium.monitor.otlp import IntakeLimits
from trivium.store.store import Store
from trivium.web.app import create_app
from trivium.web.pages import comparison
from trivium.web.security import Access
from trivium.web.services import Services

__all__ = ["any_made_url", "client", "connect", "store", "url"]

LOOPBACK = "http://127.0.0.1"
SUITE = {"name": "support", "monitor": {"sample_rate": 1.0, "quiet": 0.01}}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(f"sqlite:///{tmp_path / 'store.db'}") as opened:
        yield opened


@contextmanager
def serving(
    store: Store, access: Access | None = None, *, limits: IntakeLimits | None = None, clock=None, **options
) -> Iterator[TestClient]:
    """A client of a server whose threads, other than the intake's, are not started."""
    clocks = {} if clock is None else {"clock": clock}
    services = Services(store, [monitored(SUITE)], limits=limits, **clocks)
    try:
        app = create_app(services, access, **clocks)
        with TestClient(app, base_url=options.pop("base_url", LOOPBACK), **options) as client:
            client.services = services
            yield client
    finally:
        services.stop()


@pytest.fixture
def connect(store: Store) -> Iterator[Callable[..., TestClient]]:
    """Makes clients of servers on the store, as ``serving`` does."""
    with ExitStack() as stack:
        yield lambda *options, **named: stack.enter_context(serving(store, *options, **named))


@pytest.fixture
def client(connect) -> TestClient:
    """A client on loopback."""
    return connect()


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store for the tests of a module that only read."""
    with Store(f"sqlite:///{tmp_path_factory.mktemp('shared') / 'store.db'}") as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_client(shared_store: Store) -> Iterator[TestClient]:
    """A client on loopback for the tests of a module that only read: a server takes 0.1 s to make."""
    with serving(shared_store) as client:
        yield client


@pytest.fixture
def held(monkeypatch) -> Iterator[tuple[threading.Event, list[tuple[object, ...]]]]:
    """Comparisons that wait until they are let go, of runs too large for a page to wait; those that began."""
    go, began, compare = threading.Event(), [], comparison.compare

    def comparing(*runs, **options):
        began.append(runs)
        assert go.wait(60)
        return compare(*runs, **options)

    monkeypatch.setattr(comparison, "compare", comparing)
    monkeypatch.setattr(comparison, "AT_ONCE", 0)
    yield go, began
    go.set()
