"""Pages served on loopback, for a browser."""

import threading
import time
from collections.abc import Callable, Sequence

import uvicorn

from trivium.monitor.monitored import Monitored
from trivium.store.store import Store
from trivium.web.app import create_app
from trivium.web.security import Access
from trivium.web.services import Services


class Served:
    """A server of the pages of a store; ``address`` is where it is while it is open."""

    def __init__(
        self,
        store: Store,
        monitors: Sequence[Monitored] = (),
        access: Access | None = None,
        *,
        receiving: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.services = Services(store, list(monitors), receiving=receiving, clock=clock)
        config = uvicorn.Config(
            create_app(self.services, access or Access(), clock=clock),
            host="127.0.0.1", port=0, log_config=None,
            lifespan="on", ws="none", timeout_graceful_shutdown=3,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, name="pages")

    def __enter__(self):
        self._thread.start()
        end = time.monotonic() + 60
        while not self._server.started:
            assert time.monotonic() < end, "the server does not start"
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        self.services.stopping.set()
        self._server.should_exit = True
        self._thread.join()
        self.services.stop()
