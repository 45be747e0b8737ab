"""``/healthz`` and ``/readyz``: whether the server works, and whether it can take traces."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import msgspec
from litestar import Response, get
from litestar.openapi.datastructures import ResponseSpec

from trivium.errors import StoreError
from trivium.store.live_jobs import LiveJobs
from trivium.web.errors import ErrorBody
from trivium.web.services import Services


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The server answers."""

    status: Literal["ok"] = "ok"


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the server can take traces.

    Attributes:
        status: ``ready``, or ``unavailable`` if the store cannot be reached or too much waits to be stored.
        store: Whether the store can be reached.
        waiting_requests: Requests that wait to be stored.
        waiting_samples: Samples that wait to be scored.
        oldest_seconds: Age of the oldest of them; None if none waits.
        stalled: Monitors whose scoring has stalled. Traces are taken nevertheless.
    """

    status: Literal["ready", "unavailable"]
    store: bool
    waiting_requests: int
    waiting_samples: int = 0
    oldest_seconds: float | None = None
    stalled: tuple[str, ...] = ()


def readiness(services: Services) -> Readiness:
    """Whether the server can take traces now."""
    requests, size = services.intake.waiting
    limits = services.intake.limits
    room = requests < limits.waiting_requests and size < limits.waiting_bytes
    try:
        services.store.check()
        jobs, now = LiveJobs(services.store), services.clock()
        samples, ages, stalled = 0, [], []
        for name, monitored in services.monitors.items():
            backlog = jobs.backlog(name)
            samples += backlog.waiting
            if backlog.oldest is not None:
                ages.append(max(0.0, now - backlog.oldest))
                if ages[-1] > monitored.monitor.stalled_after:
                    stalled.append(name)
    except StoreError:
        return Readiness(status="unavailable", store=False, waiting_requests=requests)
    return Readiness(
        status="ready" if room else "unavailable",
        store=True,
        waiting_requests=requests,
        waiting_samples=samples,
        oldest_seconds=max(ages, default=None),
        stalled=tuple(stalled),
    )


def health_routes(services: Services) -> list[Any]:
    """The routes."""
    forbidden = ResponseSpec(ErrorBody, generate_examples=False, description="The header Host is refused.")
    unavailable = ResponseSpec(Readiness, generate_examples=False, description="It cannot take traces now.")

    @get("/healthz", sync_to_thread=False, responses={403: forbidden})
    def healthz() -> Health:
        """Whether the server answers."""
        return Health()

    threads = ThreadPoolExecutor(1, thread_name_prefix="trivium-ready")

    @get("/readyz", responses={403: forbidden, 503: unavailable})
    async def readyz() -> Response[Readiness]:
        """Whether the server can take traces."""
        found = await asyncio.get_running_loop().run_in_executor(threads, readiness, services)
        return Response(found, status_code=200 if found.status == "ready" else 503)

    return [healthz, readyz]
