"""Two runs compared: the answer, what changed with both outputs, the figures, the graphs that changed."""

import asyncio
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Annotated, Any, Final

from litestar import Request, Response, get
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.response import Redirect, Stream

from trivium.errors import InputError
from trivium.reports.comparison import describe, verdict_words
from trivium.reports.document.blocks import Block, Case, Cases, Links
from trivium.reports.moved_cases.shown import page_cases
from trivium.reports.summary import rates
from trivium.runs.comparing.compare import compare
from trivium.runs.comparing.comparison import Comparison
from trivium.runs.comparing.moved_cases import MovedCase
from trivium.runs.run import Run
from trivium.runs.summary import summary_of
from trivium.store.records import RunRecord
from trivium.values import counted
from trivium.web.errors import Refused
from trivium.web.pages.site import (
    Form,
    Site,
    case_address,
    query,
    redirected,
    run_of,
    segment,
    table_export,
)
from trivium.web.threads import Remembered, started, waited

__all__ = ["Comparisons", "routes"]

CASES = 10
"""Moved cases on a page."""

REMEMBERED = 16
"""Comparisons that are kept: bootstrapping a large one takes seconds, and finished runs do not change."""

Start = Annotated[int, QueryParameter(ge=0, le=10**9)]

Ticked = Annotated[tuple[str, ...], QueryParameter(name="run", max_items=1_000)]

AT_ONCE = 200
"""Attempts of both runs together up to which the page waits for their comparison."""

FIGURES: Final = ("answer", "base", "head", "delta", "p", "p_holm", "n", "groups")
COLUMNS: Final = ("metric", "answer", "base", "head", "delta", "low", "high", "p", "p_holm", "n", "groups")


def routes(site: Site) -> list[Any]:
    """The routes of the page."""
    return [_choice(site), _comparison(site)]


def _choice(site: Site) -> Any:
    """The way from the forms that choose two runs."""

    @get("/compare", include_in_schema=False, sync_to_thread=True)
    def choose(base: FromQuery[str] = "", head: FromQuery[str] = "", run: Ticked = ()) -> Redirect:
        """Where the forms that choose two runs lead: by name, or ticked, of which the newer one is head."""
        if run and len(run) != 2:
            raise Refused(400, f"Tick two runs to compare them; {counted(len(run), 'run')} came.")
        if not run and not (base and head):
            raise Refused(400, "Name two runs: /compare?base=RUN&head=RUN")
        first, second = (run_of(site.store, each) for each in run or (base, head))
        if run and first.number > second.number:
            first, second = second, first
        return Redirect(f"/compare/{segment(first.id)}/{segment(second.id)}")

    return choose


def _comparison(site: Site) -> Any:
    """The page itself."""
    comparisons = Comparisons()

    @get("/compare/{base:str}/{head:str}", include_in_schema=False)
    async def compared(
        request: Request[Any, Any, Any],
        base: FromPath[str],
        head: FromPath[str],
        start: Start = 0,
        force: FromQuery[bool] = False,
        wait: FromQuery[bool] = False,
        format: Form = "html",  # noqa: A002 - its name in the address
    ) -> Response[str] | Stream | Redirect:
        first, second = await asyncio.to_thread(lambda: [run_of(site.store, each) for each in (base, head)])
        if (first.id, second.id) != (base, head):
            return redirected(request, f"/compare/{segment(first.id)}/{segment(second.id)}")
        coming = comparisons.of(Run(site.store, first), Run(site.store, second), force=force)
        few = None not in {first.due, second.due} and (first.due or 0) + (second.due or 0) <= AT_ONCE
        if not (coming.done() or few or wait or format != "html" or "HX-Request" in request.headers):
            return await asyncio.to_thread(_comparing, site, request, first, second)
        try:
            found = await waited(coming)
        except InputError as error:
            return site.page(
                request,
                "cannot_compare.html",
                title="Cannot be compared",
                section="runs",
                status_code=400,
                base=base,
                head=head,
                message=str(error),
            )
        if format != "html":
            return table_export(_rows(found), COLUMNS, file=f"{head} against {base}", form=format)
        cases = await asyncio.to_thread(comparisons.cases, found, start)
        return await asyncio.to_thread(
            site.page,
            request,
            "compared.html",
            title=f"{found.suite}: {verdict_words(found)}",
            section="runs",
            comparison=found,
            base=first,
            head=second,
            body=describe(found, "page", moved=_moved(cases, start, len(found.moved_cases), request)),
        )

    return compared


def _comparing(
    site: Site, request: Request[Any, Any, Any], base: RunRecord, head: RunRecord
) -> Response[str]:
    """What is there of both runs; the page asks for their comparison, and shows it when it has come."""
    summaries = [(side, summary_of(run)) for side, run in (("head", head), ("base", base))]
    return site.page(
        request,
        "comparing.html",
        title=f"{head.suite_name}: being compared",
        comes_later=True,
        section="runs",
        base=base,
        head=head,
        runs=[(side, rates(found)) for side, found in summaries if found is not None],
    )


class Comparisons:
    """The last comparisons; each is made once, also if several requests ask for it at the same time."""

    def __init__(self) -> None:
        self._known: Remembered[tuple[object, ...], Future[Comparison]] = Remembered(REMEMBERED)
        self._shown: Remembered[tuple[int, int], tuple[Comparison, tuple[Case, ...]]] = Remembered(REMEMBERED)

    def of(self, base: Run, head: Run, *, force: bool) -> Future[Comparison]:
        """The comparison of two runs as they are now, which begins unless it is under way or known."""
        kept = base.record.state == head.record.state == "done"
        with self._known.lock:
            return self._known.of(
                (*_version(base), *_version(head), force),
                lambda: started(compare, base, head, force=force, graphs=True),
                holds=lambda found: not found.done() or (kept and not found.exception()),
            )

    def cases(self, comparison: Comparison, start: int) -> tuple[Case, ...]:
        """The moved cases from a place on; comparing their texts takes most of the page's time."""
        _, cases = self._shown.of(
            (id(comparison), start),
            lambda: (comparison, tuple(_cases(comparison.moved_cases[start : start + CASES], comparison))),
            holds=lambda known: known[0] is comparison,  # not another one at the same address
        )
        return cases


def _version(run: Run) -> tuple[object, ...]:
    return run.record.number, run.record.finished


def _cases(cases: Iterable[MovedCase], comparison: Comparison) -> Iterator[Case]:
    def pages_of(case: str, repeat: int) -> dict[str, str]:
        runs = {"base": comparison.base, "head": comparison.head}
        back = f"/compare/{segment(comparison.base)}/{segment(comparison.head)}"
        return {side: case_address(run, case, repeat, back=back) for side, run in runs.items()}

    return page_cases(cases, pages_of)


def _moved(
    cases: tuple[Case, ...], start: int, total: int, request: Request[Any, Any, Any]
) -> Iterator[Block]:
    """The moved cases of a page, with links to those before and after."""
    if cases:
        yield Cases(cases=cases, total=total)
    if total > CASES:
        end = min(start + CASES, total)
        links = [("Previous", max(0, start - CASES))] if start else []
        links += [("Next", end)] if end < total else []
        yield Links(
            f"Cases {start + 1:,}–{end:,} of {total:,} that changed",
            tuple(
                (word, f"{query(request.query_params.multi_items(), start=place or None)}#moved")
                for word, place in links
            ),
        )


def _rows(comparison: Comparison) -> Iterable[dict[str, Any]]:
    for name, figure in comparison.metrics.items():
        low, high = figure.ci95 or (None, None)
        yield {"metric": name, "low": low, "high": high} | {key: getattr(figure, key) for key in FIGURES}
