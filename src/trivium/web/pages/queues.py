"""The list of the queues of labels, and the form that makes one of what is stored."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from litestar import Request, Response, Router, get, post
from litestar.params import QueryParameter
from litestar.response import Redirect

from trivium.errors import InputError
from trivium.labels.joining import scores_in
from trivium.labels.monitored import queue_of_alert, queue_of_monitor, since_deployment
from trivium.labels.people import LONGEST_NAME
from trivium.labels.progress import state_of
from trivium.labels.queue import LabelQueues
from trivium.reports.document.blocks import Column, Toned, table
from trivium.reports.wording import moment
from trivium.safe_text import sanitise
from trivium.store.browsing.runs import RunFilters, find_runs
from trivium.store.labels import Answers, LabelQueue, QueueSettings, answers_in
from trivium.web.errors import Refused
from trivium.web.labellers import token_of, typed_in_browser
from trivium.web.pages.forms import figure_in, form_in, whole_in
from trivium.web.pages.site import Site, run_of, segment

__all__ = ["routes"]

QUEUES, RUNS = 100, 50
"""Queues that the page lists, and runs to make one of; both the newest."""


def routes(site: Site) -> list[Any]:
    """The routes of the page."""
    queues = LabelQueues(site.store, clock=site.clock)

    @get("/", include_in_schema=False, sync_to_thread=True)
    def list_queues(
        request: Request[Any, Any, Any],
        run: Annotated[str, QueryParameter(max_length=100)] = "",
        dimension: Annotated[str, QueryParameter(max_length=200)] = "",
    ) -> Response[str]:
        store = site.store
        rows = [(each, answers_in(store, each)) for each in queues.all(limit=QUEUES)]
        runs = list(find_runs(store, limit=RUNS).runs)
        chosen = run_of(store, run or runs[0].run) if run or runs else None
        if chosen is not None and chosen.id not in {each.run for each in runs}:
            runs += find_runs(store, RunFilters(text=chosen.id), limit=1).runs
        return site.page(
            request,
            "labels.html",
            title="Labels",
            section="labels",
            forms=True,
            queues=table(COLUMNS, rows, label="Queues") if rows else None,
            chosen=chosen,
            runs=runs,
            dimensions=[] if chosen is None else scores_in(store, chosen),
            dimension=sanitise(dimension)[0],
        )

    @post("/", include_in_schema=False, status_code=200)
    async def create(request: Request[Any, Any, Any]) -> Redirect:
        form = await form_in(request)
        try:
            queue = await asyncio.to_thread(_made, queues, form, _actor(request))
        except (InputError, ValueError) as error:
            raise Refused(400, str(error)) from None
        return Redirect(f"/labels/{segment(queue.id)}", status_code=303)

    return [Router("/labels", route_handlers=[list_queues, create])]


def _asked_of(row: tuple[LabelQueue, Answers]) -> Toned:
    """The run or the monitor whose items a queue has."""
    queue, _ = row
    if queue.run:
        return Toned(queue.run, link=f"/runs/{segment(queue.run)}")
    return Toned(queue.monitor or "", link=f"/monitors/{segment(queue.monitor or '')}")


COLUMNS: tuple[Column[tuple[LabelQueue, Answers]], ...] = (
    Column("dimension", lambda row: Toned(row[0].dimension, link=f"/labels/{segment(row[0].id)}"), "name"),
    Column("of", _asked_of, "text"),
    Column("made (UTC)", lambda row: moment(row[0].created), "interval"),
    Column("labelled", lambda row: f"{row[1].items:,}"),
    Column("items", lambda row: f"{row[0].population:,}"),
    Column("state", lambda row: Toned(state_of(row[0], row[1].complete)), "mark"),
)


def _made(queues: LabelQueues, form: Mapping[str, str], by: str) -> LabelQueue:
    """The queue that a form asks for: of a run, of a monitor's samples, or of the worst ones of an alert."""
    dimension = form.get("dimension", "")
    if "alert" in form:
        return queue_of_alert(queues, whole_in("the alert", form["alert"]), dimension, by=by)
    if monitor := form.get("monitor", ""):
        name = sanitise(monitor[:200])[0]
        return queue_of_monitor(
            queues,
            name,
            dimension,
            by=by,
            since=since_deployment(queues.store, name, queues.now()),
            settings=QueueSettings(uniform=True),
        )
    overlap = figure_in("the share that several people label", form.get("overlap") or "0") / 100
    run = run_of(queues.store, form.get("run", ""))
    settings = QueueSettings(overlap=overlap, uniform="uniform" in form)
    return queues.create(run, dimension, by=by, settings=settings)


def _actor(request: Request[Any, Any, Any]) -> str:
    actor = str(request.scope["state"]["actor"])[:LONGEST_NAME]
    return actor if token_of(request) else typed_in_browser(request) or actor
