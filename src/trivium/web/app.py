"""The application of ``trivium serve``: routes, errors, and the guard around them."""

import logging
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from litestar import Litestar, Request, Response, asgi
from litestar.exceptions import HTTPException, ValidationException
from litestar.types import Receive, Scope, Send

from trivium.errors import InputError, StoreError
from trivium.web.api import api_routes, openapi_config
from trivium.web.errors import OTLP_PATHS, RETRY_AFTER, STATUSES, Refused
from trivium.web.health import health_routes
from trivium.web.metrics import metrics_route
from trivium.web.otlp import Receiver
from trivium.web.pages import Site, page_routes
from trivium.web.pages.refusals import answer_refusal
from trivium.web.paths import with_slashes
from trivium.web.security import Access, Guard, is_http
from trivium.web.services import Services

log = logging.getLogger(__name__)

MOST_JSON_BYTES = 64 * 2**10
"""Largest body of a request to the JSON interface."""


def create_app(
    services: Services, access: Access | None = None, *, clock: Callable[[], float] = time.time
) -> Guard:
    """The application of a server.

    Args:
        services: What works behind it; the caller starts and stops it.
        access: Who may send requests.
        clock: Returns the Unix time.
    """
    receiver = Receiver(services.intake)
    counted: list[Counter[str]] = [receiver.refusals]

    @asgi(list(OTLP_PATHS), is_mount=False, copy_scope=True)
    async def otlp(scope: Scope, receive: Receive, send: Send) -> None:
        if is_http(scope):
            await receiver.answer(scope, receive, send)

    site = Site(services)
    intake = [otlp] if services.receiving else []
    app = Litestar(
        [
            *intake,
            *health_routes(services),
            *api_routes(services),
            metrics_route(services, counted),
            *page_routes(site),
        ],
        exception_handlers={Exception: partial(_error, site)},
        logging_config=None,
        openapi_config=openapi_config(),
        request_max_body_size=MOST_JSON_BYTES,
        on_shutdown=[receiver.close],
        middleware=[with_slashes],
    )
    refuse = partial(answer_refusal, site)
    guard = Guard(app, access or Access(), services.store, refuse=refuse, clock=clock)
    counted.append(guard.refusals)
    return guard


def _error(site: Site, request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """Return the response for an error: a page if the client asked for one, else JSON in the common shape."""
    refusal = _refusal(error)
    if site.is_page(request):
        return site.problem(request, refusal)
    return Response(refusal.body, status_code=refusal.status, headers=refusal.headers)


def _refusal(error: Exception) -> Refused:
    if isinstance(error, Refused):
        return error
    if isinstance(error, StoreError):
        log.warning("a request could not be answered: %s", error)
        return Refused(503, f"the store cannot be used now: {error}", headers=RETRY_AFTER)
    if isinstance(error, InputError):
        return Refused(400, str(error))
    if isinstance(error, HTTPException) and error.status_code < 500:
        status = error.status_code if error.status_code in STATUSES else 400
        return Refused(status, _message(error), headers=error.headers or {})
    log.error("a request could not be answered", exc_info=error)
    return Refused(500, "the server has failed: its log says why")


def _message(error: HTTPException) -> str:
    """One sentence, with what is wrong of each parameter."""
    message = error.detail.partition(" for ")[0] if isinstance(error, ValidationException) else error.detail
    extra = error.extra if isinstance(error.extra, list) else []
    parts = [f"{each.get('key', '')}: {each.get('message', '')}" for each in extra if isinstance(each, dict)]
    return "; ".join([message, *parts])[:2000]
