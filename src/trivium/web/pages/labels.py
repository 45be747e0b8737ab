"""Labels: the queues, and the page on which a person labels one item after the other by keyboard.

The page is blind: it reads what :func:`trivium.labels.blind.material_of` gives, in which nothing is that
judges or other people said.
"""

import asyncio
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from litestar import Request, Response, Router, get, post
from litestar.params import FromPath
from litestar.response import Redirect
from sqlalchemy import and_, case, func, select

from trivium.errors import InputError
from trivium.labels.blind import Material, material_of
from trivium.labels.monitored import queue_of_alert, queue_of_monitor
from trivium.labels.people import typed_name
from trivium.labels.queue import LabelQueues
from trivium.labels.records import LONGEST_NAME, LabelQueue, QueueSettings, StoredLabel, Task
from trivium.labels.tasks import NOBODY
from trivium.reports.escape import one_line
from trivium.reports.html.fragments import folded
from trivium.reports.html.judgement import marked
from trivium.store import schema as tables
from trivium.store.connection import explain_errors
from trivium.store.live_alerts import marks_of
from trivium.store.store import Store
from trivium.suites.sanitize import sanitise
from trivium.web.errors import Refused
from trivium.web.labellers import labeller_of, token_of
from trivium.web.pages.case import level_of
from trivium.web.pages.refusals import typed_in
from trivium.web.pages.site import Site, run_of, segment, set_cookie
from trivium.web.sessions import check_form

__all__ = ["counts_of", "figure_in", "form_in", "labeller_in", "queue_called", "routes", "whole_in"]

LABELLER: Final = "trivium_labeller"
"""Cookie that holds the name that was typed into this browser, on a server that asks for no tokens."""

MOST_DAYS: Final = 7
"""Days of a monitor's samples that a queue asks about, if nothing was deployed since."""

ANSWERS: Final = ("label", "cannot_tell", "skip")


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many items of a queue have an answer, and of how many people."""

    items: int
    people: int


def routes(site: Site) -> list[Any]:
    """The routes of the pages."""
    queues = LabelQueues(site.store, clock=site.clock)
    return [Router("/labels", route_handlers=[*_queue_routes(site, queues), *_label_routes(site, queues)])]


def _queue_routes(site: Site, queues: LabelQueues) -> list[Any]:
    """The list of queues, and making one."""

    @get("/", include_in_schema=False, sync_to_thread=True)
    def list_queues(request: Request[Any, Any, Any]) -> Response[str]:
        rows = [(each, counts_of(site.store, each)) for each in queues.all(limit=100)]
        return site.page(
            request,
            "labels.html",
            title="Labels",
            section="labels",
            forms=True,
            queues=rows,
        )

    @post("/", include_in_schema=False, status_code=200)
    async def create(request: Request[Any, Any, Any]) -> Redirect:
        form = await form_in(request)
        try:
            queue = await asyncio.to_thread(_made, site.store, queues, form, _actor(request))
        except (InputError, ValueError) as error:
            raise Refused(400, str(error)) from None
        return Redirect(f"/labels/{segment(queue.id)}", status_code=303)

    return [list_queues, create]


def _label_routes(site: Site, queues: LabelQueues) -> list[Any]:
    """The page of a queue, on which items are labelled."""

    @get("/{queue:str}", include_in_schema=False, sync_to_thread=True)
    def label(request: Request[Any, Any, Any], queue: FromPath[str]) -> Response[str]:
        asked = queue_called(queues, queue)
        by, name, may_label = labeller_in(request)
        task: Task | None = None
        last: StoredLabel | None = None
        material: Material | None = None
        problem = ""
        if by and asked.closed is None:
            try:
                task = queues.next(asked.id, by)
                last = queues.last(asked.id, by)
                material = None if task is None else material_of(site.store, task)
            except InputError as error:
                problem = str(error)
        return site.page(
            request,
            "label.html",
            title=f"Label {asked.dimension}",
            section="labels",
            forms=True,
            queue=asked,
            counts=counts_of(site.store, asked),
            name=name,
            checked=token_of(request) is not None,
            may_label=may_label,
            task=task,
            last=last,
            problem=problem,
            key=secrets.token_hex(16),
            **({} if material is None else _shown(material)),
        )

    @post("/{queue:str}", include_in_schema=False, status_code=200)
    async def answer(request: Request[Any, Any, Any], queue: FromPath[str]) -> Response[Any]:
        form = await form_in(request)
        asked = await asyncio.to_thread(queue_called, queues, queue)
        here = Redirect(f"/labels/{segment(asked.id)}", status_code=303)
        if "name" in form:
            name = labeller_of(request, sanitise(form["name"].strip())[0][:LONGEST_NAME])
            set_cookie(here, request, LABELLER, name.encode("utf-8").hex())
            return here
        by = labeller_of(request, "" if token_of(request) else _typed(request))
        try:
            if "undo" in form:
                number = whole_in("the answer", form["undo"])
                await asyncio.to_thread(queues.undo, asked.id, by, label=number)
            else:
                await asyncio.to_thread(_store, queues, asked.id, by, form)
        except (InputError, ValueError) as error:
            raise Refused(400, str(error), typed=typed_in(form)) from None
        return here

    return [label, answer]


def _made(store: Store, queues: LabelQueues, form: Mapping[str, str], by: str) -> LabelQueue:
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
            since=_since(store, name, queues.now()),
            settings=QueueSettings(uniform=True),
        )
    overlap = figure_in("the share that several people label", form.get("overlap") or "0") / 100
    run = run_of(store, form.get("run", ""))
    return queues.create(run, dimension, by=by, overlap=overlap, uniform="uniform" in form)


def _since(store: Store, monitor: str, now: float) -> float:
    """The last deployment or reset of a monitor, but at most ``MOST_DAYS`` ago."""
    with explain_errors(store.engine), store.engine.connect() as connection:
        marks = marks_of(connection, monitor, limit=1)
    return max([now - MOST_DAYS * 86_400, *(mark.time for mark in marks)])


def queue_called(queues: LabelQueues, queue: str) -> LabelQueue:
    """The queue with an id; refused with 404 if there is none."""
    try:
        return queues.get(queue[:100])
    except InputError as error:
        raise Refused(404, str(error)) from None


def counts_of(store: Store, queue: LabelQueue) -> Counts:
    """How far a queue is."""
    labels = tables.labels.c
    person = case((and_(labels.how != "adjudicated", labels.by != NOBODY), labels.by))
    query = select(func.count(labels.place.distinct()), func.count(person.distinct())).where(
        labels.queue == queue.number, labels.undone.is_(None), labels.answer != "skip"
    )
    with explain_errors(store.engine), store.engine.connect() as connection:
        items, people = connection.execute(query).one()
    return Counts(items=items, people=people)


def _store(queues: LabelQueues, queue: str, name: str, form: Mapping[str, str]) -> None:
    """Store an answer; the same form sent twice is stored once."""
    chosen, value = form.get("answer", ""), form.get("value", "")
    kind = chosen if chosen in ANSWERS else "label"
    given = chosen.removeprefix("value ") if chosen.startswith("value ") else value
    queues.answer(
        queue,
        whole_in("the item", form.get("place", "")),
        name,
        kind,  # type: ignore[arg-type]  # one of ANSWERS
        figure_in("the label", given) if kind == "label" else None,
        key=form.get("key") or None,
        note=form.get("note") or None,
    )


def whole_in(what: str, text: str) -> int:
    """A whole number of a form, of a size that a store can hold."""
    if not re.fullmatch("[0-9]{1,18}", text):
        raise InputError(what, f'found "{one_line(text, at_most=40)}", expected a whole number from 0 on')
    return int(text)


def figure_in(what: str, text: str) -> float:
    """A number of a form."""
    try:
        return float(text)
    except ValueError:
        raise InputError(what, f'found "{one_line(text, at_most=40)}", expected a number') from None


async def form_in(request: Request[Any, Any, Any]) -> dict[str, str]:
    """The fields of a form of this server."""
    form = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
    try:
        check_form(request.cookies, form.get("form"))
    except Refused as refusal:
        refusal.typed = typed_in(form)
        raise
    return form


def _typed(request: Request[Any, Any, Any]) -> str:
    """The name that was typed into this browser; empty before it was."""
    try:
        return typed_name(bytes.fromhex(request.cookies.get(LABELLER, "")).decode("utf-8")[:LONGEST_NAME])
    except (ValueError, InputError):
        return ""


def labeller_in(request: Request[Any, Any, Any]) -> tuple[str, str, bool]:
    """Who labels in this browser, the name that is shown, and whether they may; empty texts for nobody."""
    token = token_of(request)
    if token is None:
        return _typed(request), _typed(request), True
    return (token.actor, token.name, True) if token.allows("label") else ("", token.name, False)


def _actor(request: Request[Any, Any, Any]) -> str:
    actor = str(request.scope["state"]["actor"])[:LONGEST_NAME]
    return actor if token_of(request) else _typed(request) or actor


def _shown(material: Material) -> dict[str, Any]:
    """What the page shows of an item."""
    trace = material.trace
    return {
        "input": marked(material.input, []),
        "output": marked(material.output, []),
        "references": [marked(text, []) for text in material.references if text],
        "source": folded(material.source, at_most=200_000) if material.source else None,
        "level": None if trace is None else level_of(trace),
    }
