"""The list of runs: filter, search, sort, export."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, Final, Literal

from litestar import Request, Response, get
from litestar.di import NamedDependency, Provide
from litestar.params import FromQuery, QueryParameter
from litestar.response import Redirect, Stream

from trivium.store.browsing.runs import (
    RUN_SORTS,
    RunFilters,
    RunOutline,
    RunSort,
    RunsPage,
    find_runs,
    suite_names,
    tag_names,
    version_names,
)
from trivium.web.pages.site import Column, Form, Site, table_export

__all__ = ["routes"]

ROWS = 50
"""Runs on a page."""

_EXPORTED_AT_ONCE = 500

SORT_WORDS: Final[dict[RunSort, str]] = {
    "newest": "newest first",
    "oldest": "oldest first",
    "pass_rate": "lowest pass rate first",
    "composite": "lowest composite first",
    "suite": "by suite",
}

COLUMNS: Final = tuple(
    Column(name=name, field=name)
    for name in (
        "run",
        "suite",
        "kind",
        "state",
        "started",
        "finished",
        "attempts",
        "due",
        "pass_rate",
        "pass_rate_low",
        "pass_rate_high",
        "composite",
        "agent",
        "version",
        "git_commit",
        "git_subject",
    )
)

Text = Annotated[str, QueryParameter(max_length=10_000)]
Kind = FromQuery[Literal["agent", "recorded", "human", "live", "confirm", ""]]
State = Annotated[Literal["running", "done", "interrupted", ""], QueryParameter(name="state")]
Start = Annotated[int, QueryParameter(ge=0, le=10**9)]
Sort = FromQuery[RunSort]


def routes(site: Site) -> list[Any]:
    """The routes of the page."""

    @get("/", include_in_schema=False, sync_to_thread=False)
    def home() -> Redirect:
        return Redirect("/runs")

    @get(
        "/runs",
        include_in_schema=False,
        sync_to_thread=True,
        dependencies={"filters": Provide(_filters, sync_to_thread=False)},
    )
    def list_runs(
        request: Request[Any, Any, Any],
        filters: NamedDependency[RunFilters],
        sort: Sort = "newest",
        start: Start = 0,
        format: Form = "html",  # noqa: A002 - its name in the address
    ) -> Response[str] | Stream:
        find = partial(find_runs, site.store, filters, sort=sort)
        if format != "html":
            return table_export(_all(find), COLUMNS, file="runs", form=format)
        return site.page(
            request,
            "runs.html",
            title="Runs",
            section="runs",
            found=find(start=start, limit=ROWS),
            chosen=filters,
            suites=suite_names(site.store),
            versions=version_names(site.store),
            tags=tag_names(site.store),
            sort=sort,
            sorts=[(each, SORT_WORDS[each]) for each in RUN_SORTS],
            previous=max(0, start - ROWS) if start else None,
        )

    return [home, list_runs]


def _filters(
    q: Text = "",
    suite: Text = "",
    version: Text = "",
    tag: Text = "",
    kind: Kind = "",
    run_state: State = "",
) -> RunFilters:
    return RunFilters(text=q, suite=suite, version=version, tag=tag, kind=kind, state=run_state)


def _all(find: Callable[..., RunsPage]) -> Iterator[RunOutline]:
    """All runs that the filters select, a page at a time."""
    start: int | None = 0
    while start is not None:
        page = find(start=start, limit=_EXPORTED_AT_ONCE)
        yield from page.runs
        start = page.next
