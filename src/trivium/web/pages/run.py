"""The page of a run: its answer, its attempts with the worst first, figures, slices and caveats."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal

import msgspec
from litestar import Request, Response, get
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.response import Redirect, Stream

from trivium.errors import InputError
from trivium.reports.document.blocks import VERDICTS, Column, Lines, Table, Toned, table
from trivium.reports.html.overview import answer, sections
from trivium.reports.view import view_of
from trivium.reports.wording import attempt_name, headline, number
from trivium.runs.slices import Slices, slices_of
from trivium.runs.summarize import summarise
from trivium.runs.summary import Summary, summary_of
from trivium.safe_text import one_line
from trivium.store.browsing.attempts import (
    ATTEMPT_SORTS,
    MOST_COUNTED,
    AttemptSort,
    AttemptsPage,
    Cursor,
    Row,
    count_attempts,
    find_attempts,
)
from trivium.store.browsing.runs import RunFilters, find_runs
from trivium.store.records import RunRecord
from trivium.suites.settings import Settings
from trivium.web.errors import Refused
from trivium.web.pages.site import (
    Form,
    Site,
    called,
    case_address,
    here,
    redirected,
    run_of,
    segment,
    table_export,
)

__all__ = ["ListedAttempt", "cursor_of", "listed", "routes"]

ROWS = 25
"""Number of attempts on a page."""

SUMMARISED_AT_ONCE = 2_000
"""Largest number of attempts for which the page computes a summary that the store lacks."""

SORT_WORDS: Final[dict[AttemptSort, str]] = {"worst": "worst first", "best": "best first", "case": "by case"}

VERDICT_WORDS: Final = (("failed", "not passed"), ("undecided", "undecided"), ("passed", "passed"))

Text = Annotated[str, QueryParameter(max_length=10_000)]
VerdictQuery = FromQuery[Literal["failed", "undecided", "passed", ""]]


class ListedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt in a list.

    Attributes:
        case: Id of the case.
        repeat: Number of the repeat.
        verdict: error, failed, undecided or passed.
        composite: In [0, 1], or None.
        why: Why the attempt did not pass, or None.
        input: Beginning of the input.
        output: Beginning of the output.
        tags: Tags of the case.
    """

    case: str
    repeat: int
    verdict: str
    composite: float | None
    why: str | None
    input: str
    output: str
    tags: str


def routes(site: Site) -> list[Any]:
    """Return the routes of the page."""
    store = site.store

    @get("/runs/{run:str}", include_in_schema=False, sync_to_thread=True)
    def one_run(
        request: Request[Any, Any, Any],
        run: FromPath[str],
        q: Text = "",
        verdict: VerdictQuery = "",
        sort: FromQuery[AttemptSort] = "worst",
        after: Annotated[str, QueryParameter(max_length=200)] = "",
        by: Annotated[str, QueryParameter(max_length=200)] = "",
        format: Form = "html",  # noqa: A002 - its name in the address
    ) -> Response[str] | Stream | Redirect:
        record = run_of(store, run)
        if record.id != run:
            return redirected(request, f"/runs/{segment(record.id)}")
        settings = record.settings
        wanted = verdict or None
        find = partial(find_attempts, store, record, text=q, verdict=wanted, sort=sort)
        if format != "html":
            rows, columns = _exported(find, settings), ListedAttempt.__struct_fields__
            return table_export(rows, columns, file=record.id, form=format)
        page = find(after=cursor_of(after), limit=ROWS)
        context: dict[str, Any] = {
            "run": record,
            "attempts": _table([listed(row, settings) for row in page.rows], record, request),
            "next": None if page.next is None else msgspec.json.encode(page.next).decode(),
            "later": bool(after),
            "total": count_attempts(store, record, verdict=wanted, text=q),
            "most": MOST_COUNTED,
            "chosen": {"q": q, "verdict": verdict, "sort": sort, "by": by},
            "sorts": [(each, SORT_WORDS[each]) for each in ATTEMPT_SORTS],
            "verdicts": VERDICT_WORDS,
        }
        title = called(record)
        if request.headers.get("HX-Target") == "attempts":
            return site.page(request, "run.html", title=title, section="runs", **context)
        summary = _summary(site, record)
        slices, problem = _slices(site, record, by)
        others = [
            each
            for each in find_runs(store, RunFilters(suite=record.suite_name), limit=21).runs
            if each.run != run
        ]
        return site.page(
            request,
            "run.html",
            title=title,
            section="runs",
            **context,
            has_summary=summary is not None,
            headline="" if summary is None else headline(summary),
            answer=None if summary is None else answer(summary),
            figures=None if summary is None else sections(summary, record.provenance, slices=slices),
            slices_problem=problem,
            others=others[:20],
        )

    return [one_run]


def _table(
    attempts: Sequence[ListedAttempt], run: RunRecord, request: Request[Any, Any, Any]
) -> Table | None:
    """The list of attempts; each leads to its case, and from there back here."""

    def name(each: ListedAttempt) -> Toned:
        back = here(request) if request.query_params else ""
        address = case_address(run.id, each.case, each.repeat, back=back)
        return Toned(attempt_name(each.case, each.repeat), link=address)

    def composite(each: ListedAttempt) -> str:
        return number(each.composite) if run.settings.asks_for_composite else ""

    columns: list[Column[ListedAttempt]] = [
        Column("verdict", lambda each: VERDICTS[each.verdict], "mark"),
        Column("case", name, "name"),
        Column(
            "input, and why it did not pass",
            lambda each: Lines((Toned(each.input), Toned(each.why or "", "quiet"))),
            "text",
        ),
        Column("composite", composite, optional=True),
    ]
    return table(columns, attempts, label="Attempts") if attempts else None


def cursor_of(text: str) -> Cursor | None:
    """Decode the position in a list that the address of a page states.

    Raises:
        Refused: If it cannot be decoded.
    """
    if not text:
        return None
    try:
        cursor = msgspec.json.decode(text, type=Cursor)
    except msgspec.DecodeError:
        cursor = None
    if cursor is None or not all(0 <= n < 2**31 for n in (cursor.group, cursor.position, cursor.repeat)):
        raise Refused(400, "The address names no position in the list; begin at the first page.")
    return cursor


def _summary(site: Site, run: RunRecord) -> Summary | None:
    """Return the stored summary, or compute one of the attempts so far if they are few; else None."""
    if run.summary is not None:
        return summary_of(run)
    if 0 < count_attempts(site.store, run) <= SUMMARISED_AT_ONCE:
        return summarise(site.store, run)
    return None


def _slices(site: Site, run: RunRecord, by: str) -> tuple[list[Slices], str]:
    if not by:
        return [], ""
    try:
        return [slices_of(site.store, run, by)], ""
    except InputError as error:
        return [], str(error)


def listed(row: Row, settings: Settings) -> ListedAttempt:
    """Convert a row of the query to a row of the list."""
    case, attempt, evaluation = row
    view = view_of(row, settings)
    return ListedAttempt(
        case=case.id,
        repeat=attempt.repeat,
        verdict=view.verdict,
        composite=evaluation.composite.value,
        why=None if view.reason is None else one_line(view.reason),
        input=one_line(case.input_text, at_most=140),
        output="" if attempt.output is None else one_line(attempt.text, at_most=140),
        tags=", ".join(case.tags),
    )


def _exported(find: Callable[..., AttemptsPage], settings: Settings) -> Iterator[ListedAttempt]:
    """Yield all attempts that the filters select, reading a page at a time."""
    after: Cursor | None = None
    while True:
        page = find(after=after, limit=200)
        yield from (listed(row, settings) for row in page.rows)
        if page.next is None:
            return
        after = page.next
