"""The JSON interface ``/api/v1``: its routes and description, the audit log and the search."""

from typing import Annotated, Any

import msgspec
from litestar import Request, Router, get
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.params import QueryParameter

from trivium.store.audit import AuditEntry, audit_log
from trivium.store.browsing.search import Found, search
from trivium.web.api_labels import LABEL_BODIES, label_routes
from trivium.web.api_monitors import Before, Limit, NewMark, live_routes
from trivium.web.api_runs import run_routes
from trivium.web.api_trust import trust_routes
from trivium.web.errors import refusals
from trivium.web.pages.site import run_of
from trivium.web.services import Services

PATH = "/api/v1"

Query = Annotated[
    str, QueryParameter(max_length=10_000, description="Words, and phrases in double quotes. No operators.")
]
InRun = Annotated[str, QueryParameter(max_length=100, description="Id of the run to search in; empty: all.")]
Further = Annotated[
    str | None,
    QueryParameter(pattern="^[0-9]{1,19}$", description="The field `next` of the page before this one."),
]
SearchLimit = Annotated[int, QueryParameter(ge=1, le=100, description="Most attempts of the answer.")]


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of the audit log, newest first.

    Attributes:
        entries: The entries.
        next: What ``before`` has to be for the next page; None on the last one.
    """

    entries: tuple[AuditEntry, ...]
    next: int | None = None


def api_routes(services: Services) -> list[Any]:
    """The routes."""
    return [
        Router(
            PATH,
            route_handlers=[
                *live_routes(services),
                _audit_route(services),
                _search_route(services),
                *run_routes(services),
                *label_routes(services),
                *trust_routes(services),
            ],
        )
    ]


def _audit_route(services: Services) -> Any:
    store = services.store

    @get("/audit", sync_to_thread=True, responses=refusals())
    def audit_entries(before: Before = None, limit: Limit = 100) -> AuditPage:
        """Who changed tokens and marks, and who sent wrong tokens, newest first (scope admin)."""
        found = audit_log(store, before=before, limit=limit)
        return AuditPage(entries=tuple(found), next=found[-1].number if len(found) == limit else None)

    return audit_entries


def _search_route(services: Services) -> Any:
    store = services.store

    @get("/search", sync_to_thread=True, responses=refusals(404))
    def search_attempts(q: Query, run: InRun = "", before: Further = None, limit: SearchLimit = 20) -> Found:
        """Attempts whose input, output, error, case id or judges' reasons have all words of a query."""
        return search(store, q, run=run_of(store, run) if run else None, before=before, limit=limit)

    return search_attempts


class _Description(JsonRenderPlugin):
    """Says also that a body may have no other fields, which Litestar leaves out."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        schemas = openapi_schema["components"]["schemas"]
        for body in (NewMark, *LABEL_BODIES):
            schemas[body.__name__]["additionalProperties"] = False
        return super().render(request, openapi_schema)


def openapi_config() -> OpenAPIConfig:
    """The description of the interface, which the server has at ``/api/v1/openapi.json``."""
    bearer = SecurityScheme(type="http", scheme="bearer", description="A token: `trivium token create`.")
    return OpenAPIConfig(
        title="Trivium",
        version="1",
        description="Runs, attempts and comparisons; queues of labels; monitors with samples, alerts "
        "and marks; a search over all attempts.",
        path=PATH,
        render_plugins=[_Description()],
        use_handler_docstrings=True,
        components=Components(security_schemes={"token": bearer}),
        security=[{"token": []}, {}],
    )
