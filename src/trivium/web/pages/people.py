"""The page on how far the people of a queue agree, with the items that need a decision."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, get, post
from litestar.params import FromPath, QueryParameter
from litestar.response import Redirect

from trivium.errors import InputError
from trivium.labels.agreement import SAME, Disagreement, Pair, agreement_of, disagreements_of
from trivium.labels.blind import Material, material_at
from trivium.labels.people import shown_names, token_id
from trivium.labels.queue import LabelQueues
from trivium.reports.document.blocks import Column, Table, table
from trivium.reports.html.judgement import Marked, marked
from trivium.store.browsing.attempts import position_of
from trivium.store.labels import LabelQueue
from trivium.web.errors import Refused
from trivium.web.labellers import labeller_in
from trivium.web.pages.forms import figure_in, whole_in
from trivium.web.pages.labels import answered
from trivium.web.pages.site import Site, queue_called, run_of
from trivium.web.threads import slowly

__all__ = ["routes"]

LISTED = 10
"""Items on a page; those that wait for a decision come first."""

TEXT_CHARS = 1_200
"""Most characters of an input, an output and a reference."""

Start = Annotated[int, QueryParameter(ge=0, le=10**9)]


class _Item(msgspec.Struct, frozen=True, kw_only=True):
    """An item on which people disagree, as the page shows it.

    Attributes:
        found: The disagreement.
        texts: Input, output and first reference, without what any judge said; empty if it was deleted.
        labels: Shown name, answer in words and note of each person.
        decided: The decision in words, or None.
        may_decide: Whether the person at the page may decide: nobody decides on an item that they labelled.
    """

    found: Disagreement
    texts: dict[str, Marked | None]
    labels: tuple[tuple[str, str, str], ...]
    decided: str | None
    may_decide: bool


def routes(site: Site) -> list[Any]:
    """The routes of the page."""
    queues = LabelQueues(site.store, clock=site.clock)

    @get("/", include_in_schema=False)
    @slowly
    def people(request: Request[Any, Any, Any], queue: FromPath[str], start: Start = 0) -> Response[str]:
        asked = queue_called(queues, queue)
        apart = disagreements_of(queues, asked.id)
        found = agreement_of(queues, asked.id)
        by, name, may_label = labeller_in(request)
        mine = "" if token_id(by) is None else by  # names that nobody checks may decide, too
        shown = apart[start : start + LISTED]
        last = queues.last(asked.id, by, decided=True) if by else None
        names = shown_names(
            [
                *(person for pair in found.pairs for person in pair.people),
                *(person for each in shown for person in (*each.values, each.by or "")),
            ]
        )
        return site.page(
            request,
            "people.html",
            title=f"People on {asked.dimension}",
            section="labels",
            forms=True,
            queue=asked,
            found=found,
            pairs=_pairs(found.pairs, names),
            items=list(_items(site, asked, shown, names, mine)),
            total=len(apart),
            start=start,
            next=start + LISTED if start + LISTED < len(apart) else None,
            last=last,
            last_said="" if last is None else said(asked, last.value),
            names=names,
            name=name,
            may_decide=may_label and bool(by) and asked.closed is None,
            may_label=may_label,
        )

    @post("/", include_in_schema=False, status_code=200)
    async def decide(request: Request[Any, Any, Any], queue: FromPath[str]) -> Redirect:
        undo = queues.undo_decision
        return await answered(request, queues, queue, "/people#apart", store=_decide, undo=undo)

    return [Router("/labels/{queue:str}/people", route_handlers=[people, decide])]


def _pairs(pairs: Sequence[Pair], names: Mapping[str, str]) -> Table:
    """How far two people agree each."""

    def figure(pair: Pair, name: str, form: str) -> str:
        value = pair.agreement.figures[name].value
        return "undefined" if value is None else f"{value:{form}}".replace("%", " %")

    def ends(pair: Pair) -> str:
        found = pair.agreement.figures["exact"].interval
        return "" if found is None else f"[{100 * found.low:.0f}, {100 * found.high:.0f}]"

    columns: list[Column[Pair]] = [
        Column("people", lambda pair: " and ".join(names[each] for each in pair.people), "name"),
        Column("items", lambda pair: f"{pair.agreement.n:,}"),
        Column("same label", lambda pair: figure(pair, "exact", ".0%")),
        Column("95 % interval", ends, "interval", optional=True),
        Column("quadratic κ", lambda pair: figure(pair, "kappa_quadratic", ".2f")),
    ]
    return table(columns, pairs, label="Pairs of people")


def said(queue: LabelQueue, value: float | None) -> str:
    """A label in the words of the queue's answers, such as ``right (1)``."""
    if value is None:
        return "cannot tell"
    for choice in queue.settings.choices:
        if abs(choice.value - value) <= SAME:
            return f"{choice.name} ({value:g})"
    return f"{value:g}"


def _items(
    site: Site, queue: LabelQueue, shown: Iterable[Disagreement], names: Mapping[str, str], me: str
) -> Iterator[_Item]:
    record = cache(partial(run_of, site.store))  # most items are of one run
    for each in shown:
        try:
            position = position_of(site.store, record(each.run), each.case)
            texts = (
                {} if position is None else _texts(material_at(site.store, each.run, position, each.repeat))
            )
        except (Refused, InputError):
            texts = {}
        yield _Item(
            found=each,
            texts=texts,
            labels=tuple(
                (names[person], said(queue, value), each.notes.get(person, ""))
                for person, value in each.values.items()
            ),
            decided=None if each.decided is None else said(queue, each.decided),
            may_decide=me not in each.values,
        )


def _texts(found: Material) -> dict[str, Marked | None]:
    """Input, output and first reference of an item, without what any judge said."""
    texts = {"Input": found.input_text, "Output": found.output_text}
    texts |= {"Reference": found.references[0]} if found.references else {}
    return {name: marked(text, at_most=TEXT_CHARS) for name, text in texts.items()}


def _decide(queues: LabelQueues, queue: LabelQueue, by: str, form: Mapping[str, str]) -> None:
    """Store a decision about an item on which people disagree."""
    place = whole_in("the item", form.get("place", ""))
    if place not in {each.place for each in disagreements_of(queues, queue.id)}:
        raise InputError(f"item {place}", "nobody disagrees on it, or somebody has still to answer")
    value = figure_in("the label", form.get("answer", "").removeprefix("value ") or form.get("value", ""))
    queues.adjudicate(queue.id, place, by, value, key=form.get("key") or None, note=form.get("note") or None)
