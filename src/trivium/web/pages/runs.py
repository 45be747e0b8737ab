"""The list of runs: filter, search, sort, export."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Annotated, Any, Final, Literal

from litestar import MediaType, Request, Response, get
from litestar.di import NamedDependency, Provide
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.response import Redirect, Stream
from markupsafe import Markup

from trivium.reports.before import answer_before, figure_of
from trivium.reports.document.blocks import Choice, Column, Lines, Mark, Table, Toned, table
from trivium.reports.document.html import cell
from trivium.reports.drawings.trend import trend
from trivium.reports.wording import NOTHING, known_share, moment, number, run_name
from trivium.store.browsing.before import AgainstBefore, Before, before
from trivium.store.browsing.runs import (
    RUN_SORTS,
    RunFilters,
    RunOutline,
    RunSort,
    RunsPage,
    find_runs,
    latest_pass_rates,
    suite_names,
    tag_names,
    version_names,
)
from trivium.store.records import RunNames
from trivium.store.store import Store
from trivium.web.pages.site import Form, Site, run_of, segment, table_export
from trivium.web.threads import slowly

__all__ = ["routes"]

ROWS = 25
"""Runs on a page."""

TRENDS = 6
"""Suites of the page whose pass rates are drawn."""

_EXPORTED_AT_ONCE = 500

SORT_WORDS: Final[dict[RunSort, str]] = {
    "newest": "newest first",
    "oldest": "oldest first",
    "pass_rate": "lowest pass rate first",
    "composite": "lowest composite first",
    "suite": "by suite",
}

NAMES: Final = RunNames.__struct_fields__
COLUMNS: Final = (*(name for name in RunOutline.__struct_fields__ if name not in NAMES), *NAMES)

KINDS: Final = {"live": "production", "human": "people", "confirm": "confirming"}
"""What the list calls kinds of runs that are not the usual ones."""

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
        found = find(start=start, limit=ROWS)
        return site.page(
            request,
            "runs.html",
            title="Runs",
            section="runs",
            found=found,
            trends=list(_trends(site.store, dict.fromkeys(each.suite for each in found.runs))),
            runs=_table(found.runs, before(site.store, [each.run for each in found.runs])),
            chosen=filters,
            suites=suite_names(site.store),
            versions=version_names(site.store),
            tags=tag_names(site.store),
            sort=sort,
            sorts=[(each, SORT_WORDS[each]) for each in RUN_SORTS],
            previous=max(0, start - ROWS) if start else None,
        )

    @get("/runs/{run:str}/before", include_in_schema=False)
    @slowly
    def against_before(request: Request[Any, Any, Any], run: FromPath[str]) -> Response[str] | Redirect:
        """The answer of a run against the run before, for the list that lacks it."""
        found = run_of(site.store, run).id
        if "HX-Request" not in request.headers:
            pair = before(site.store, [found]).get(found)
            base = "" if pair is None else f"{segment(pair.base)}/"
            return Redirect(f"/compare/{base}{segment(run)}" if base else f"/runs/{segment(run)}")
        answer = answer_before(site.store, found)
        return Response(str(cell(_answer(run, answer))), media_type=MediaType.HTML)

    return [home, list_runs, against_before]


def _table(runs: Sequence[RunOutline], pairs: Mapping[str, Before]) -> Table:
    """The list of runs, each with a box that chooses it for a comparison."""

    def called(run: RunOutline) -> Lines:
        names = " · ".join(filter(None, (run.run, run.git_commit)))
        agent = run.agent if run.agent and ":" in run.agent else ""
        link = f"/runs/{segment(run.run)}"
        return Lines(
            (Toned(run_name(run.suite, run), link=link), Toned(names, "quiet"), Toned(agent, "quiet"))
        )

    def against_before(run: RunOutline) -> Lines:
        pair = pairs.get(run.run)
        if pair is None or pair.answer is not None:
            return _answer(run.run, pair.answer if pair else None)
        address = f"/compare/{segment(pair.base)}/{segment(run.run)}"
        return Lines((Toned("compare", "", address, f"/runs/{segment(run.run)}/before"),))

    def attempts(run: RunOutline) -> str:
        if run.attempts is None:
            return NOTHING
        lacking = run.due and run.due != run.attempts and run.kind != "live"
        return f"{run.attempts:,} of {run.due:,}" if lacking else f"{run.attempts:,}"

    def ends(run: RunOutline) -> str:
        if run.pass_rate_low is None or run.pass_rate_high is None:
            return ""
        return f"[{100 * run.pass_rate_low:.0f}, {100 * run.pass_rate_high:.0f}]"

    columns: list[Column[RunOutline]] = [
        Column("", lambda run: Choice("picked", "run", run.run, f"compare {run.run}"), "text", where="page"),
        Column("run", called, "name"),
        Column("kind", lambda run: Toned(KINDS.get(run.kind, "")), "mark", optional=True),
        Column("against the run before", against_before, "text"),
        Column("passed", lambda run: known_share(run.pass_rate)),
        Column("95 %", ends, "interval", optional=True),
        Column("started (UTC)", lambda run: moment(run.started), "interval"),
        Column("state", lambda run: Toned(run.state, "warn" if run.state == "interrupted" else ""), "mark"),
        Column("attempts", attempts),
        Column("composite", lambda run: number(run.composite), optional=True),
    ]
    return table(columns, runs, label="Runs")


def _answer(run: str, answer: AgainstBefore | None) -> Lines:
    """The answer of a run against the run before."""
    if answer is None:
        return Lines((Toned("no run before", "quiet"),))
    link = f"/compare/{segment(answer.base)}/{segment(run)}"
    if answer.verdict is None:
        return Lines((Toned("cannot be compared", "quiet", link),))
    mark = Mark(answer.answer or "", answer.words, link=link)
    return Lines((mark, Toned(figure_of(answer), "quiet")))


def _filters(
    q: Text = "",
    suite: Text = "",
    version: Text = "",
    tag: Text = "",
    kind: Kind = "",
    run_state: State = "",
) -> RunFilters:
    return RunFilters(text=q, suite=suite, version=version, tag=tag, kind=kind, state=run_state)


def _trends(store: Store, suites: Iterable[str]) -> Iterator[tuple[RunOutline, Markup]]:
    """The newest run of each of some suites, with the drawing of the pass rates up to it."""
    for suite in islice(suites, TRENDS):
        runs = latest_pass_rates(store, suite)
        if len(runs) > 1:
            rates = tuple((each.pass_rate or 0.0, each.pass_rate_low, each.pass_rate_high) for each in runs)
            yield runs[-1], Markup(trend(rates, suite=suite))  # noqa: S704 - escaped


def _all(find: Callable[..., RunsPage]) -> Iterator[RunOutline]:
    """All runs that the filters select, a page at a time."""
    start: int | None = 0
    while start is not None:
        page = find(start=start, limit=_EXPORTED_AT_ONCE)
        yield from page.runs
        start = page.next
