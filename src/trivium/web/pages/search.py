"""The search over inputs, outputs and judges' reasons of all attempts."""

from collections.abc import Iterator
from typing import Annotated, Any, Final

from litestar import Request, Response, get
from litestar.params import QueryParameter
from litestar.response import Stream

from trivium.store.browsing.search import Hit, search
from trivium.store.records import RunRecord
from trivium.web.pages.site import Form, Site, run_of, table_export

__all__ = ["routes"]

ROWS = 20
"""Attempts on a page."""

EXPORTED = 10_000
"""Most attempts of an export: each is read from its texts."""

FIELD_WORDS: Final = {
    "output": "output",
    "input": "input",
    "reason": "judge's reason",
    "error": "error",
    "case": "case",
}

COLUMNS: Final = ("run", "suite", "case", "repeat", "passed", "composite", "field", "excerpt")

Text = Annotated[str, QueryParameter(max_length=10_000)]
Before = Annotated[str | None, QueryParameter(pattern="^[0-9]{1,19}$")]


def routes(site: Site) -> list[Any]:
    """The routes of the page."""

    @get("/search", include_in_schema=False, sync_to_thread=True)
    def find(
        request: Request[Any, Any, Any],
        q: Text = "",
        run: Annotated[str, QueryParameter(max_length=100)] = "",
        before: Before = None,
        format: Form = "html",  # noqa: A002 - its name in the address
    ) -> Response[str] | Stream:
        record = run_of(site.store, run) if run else None
        if format != "html":
            return table_export(_exported(site, q, record), COLUMNS, file="search", form=format)
        return site.page(
            request,
            "search.html",
            title=f"{q[:60]} · Search" if q else "Search",
            section="search",
            found=search(site.store, q, run=record, before=before, limit=ROWS),
            asked=bool(q.strip()),
            chosen={"q": q, "run": run},
            later=before is not None,
            exported=EXPORTED,
            field_words=FIELD_WORDS,
        )

    return [find]


def _exported(site: Site, q: str, run: RunRecord | None) -> Iterator[Hit]:
    """The attempts that were found, a page at a time."""
    before: str | None = None
    number = 0
    while number < EXPORTED:
        page = search(site.store, q, run=run, before=before, limit=100)
        yield from page.hits[: EXPORTED - number]
        number += len(page.hits)
        before = page.next
        if before is None:
            return
