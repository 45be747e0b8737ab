"""The page of a queue of labels, on which a person labels one item after the other by keyboard.

The page is blind: it reads what :func:`trivium.labels.blind.material_of` gives, in which nothing is that
judges or other people said.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final

from litestar import Request, Response, Router, get, post
from litestar.params import FromPath
from litestar.response import Redirect

from trivium.errors import InputError
from trivium.labels.blind import Material, material_of
from trivium.labels.people import LONGEST_NAME
from trivium.labels.progress import certificate_hint, state_of
from trivium.labels.queue import LabelQueues
from trivium.reports.html.judgement import marked
from trivium.safe_text import sanitise
from trivium.store.labels import LabelQueue, StoredLabel, Task, answers_in
from trivium.web.errors import Refused
from trivium.web.labellers import LABELLER, labeller_in, labeller_of, token_of, typed_in_browser
from trivium.web.pages.case import level_of, spans_table
from trivium.web.pages.forms import figure_in, form_in, typed_in, whole_in
from trivium.web.pages.site import Site, queue_called, segment, set_cookie

__all__ = ["routes"]

ANSWERS: Final = ("label", "cannot_tell", "skip")


def routes(site: Site) -> list[Any]:
    """The routes of the page."""
    queues = LabelQueues(site.store, clock=site.clock)
    return [Router("/labels", route_handlers=_label_routes(site, queues))]


def _label_routes(site: Site, queues: LabelQueues) -> list[Any]:
    """The page of a queue, on which items are labelled."""

    @get("/{queue:str}", include_in_schema=False, sync_to_thread=True)
    def label(request: Request[Any, Any, Any], queue: FromPath[str]) -> Response[str]:
        asked = queue_called(queues, queue)
        by, name, may_label = labeller_in(request)
        task: Task | None = None
        last: StoredLabel | None = None
        material: Material | None = None
        problem, counts = "", answers_in(site.store, asked)
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
            counts=counts,
            state=state_of(asked, counts.complete),
            hint=certificate_hint(asked, counts.items),
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
        return await answered(request, queues, queue, store=_store, undo=queues.undo)

    return [label, answer]


async def answered(
    request: Request[Any, Any, Any],
    queues: LabelQueues,
    queue: str,
    page: str = "",
    *,
    store: Callable[[LabelQueues, LabelQueue, str, Mapping[str, str]], None],
    undo: Callable[..., object],
) -> Redirect:
    """Do what a form on a page of a queue says: keep a name, take an answer back, or store one.

    Args:
        request: The request.
        queues: The queues.
        queue: Id of the queue.
        page: Which of its pages the form is on.
        store: Stores the answer of a person that a form holds.
        undo: Takes back the answer of a person with a number.
    """
    form = await form_in(request)
    asked = await asyncio.to_thread(queue_called, queues, queue)
    here = Redirect(f"/labels/{segment(asked.id)}{page}", status_code=303)
    if "name" in form:
        name = labeller_of(request, sanitise(form["name"].strip())[0][:LONGEST_NAME])
        set_cookie(here, request, LABELLER, name.encode("utf-8").hex())
        return here
    try:
        by = labeller_of(request, "" if token_of(request) else typed_in_browser(request))
        if "undo" in form:
            number = whole_in("the answer", form["undo"])
            await asyncio.to_thread(undo, asked.id, by, label=number)
        else:
            await asyncio.to_thread(store, queues, asked, by, form)
    except (InputError, ValueError, Refused) as error:
        raise Refused(400, str(error), typed=typed_in(form)) from None
    return here


def _store(queues: LabelQueues, queue: LabelQueue, name: str, form: Mapping[str, str]) -> None:
    """Store an answer; the same form sent twice is stored once."""
    chosen, value = form.get("answer", ""), form.get("value", "")
    kind = chosen if chosen in ANSWERS else "label"
    given = chosen.removeprefix("value ") if chosen.startswith("value ") else value
    queues.answer(
        queue.id,
        whole_in("the item", form.get("place", "")),
        name,
        kind,  # type: ignore[arg-type]  # one of ANSWERS
        figure_in("the label", given) if kind == "label" else None,
        key=form.get("key") or None,
        note=form.get("note") or None,
    )


def _shown(material: Material) -> dict[str, Any]:
    """Convert an item to what the page shows."""
    trace = material.trace
    return {
        "input": marked(material.input_text),
        "output": marked(material.output),
        "references": [marked(text) for text in material.references if text],
        "source": marked(material.source, at_most=200_000),
        "spans": None if trace is None or not trace.spans else spans_table(level_of(trace).rows),
    }
