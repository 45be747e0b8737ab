"""The JSON interface to labelling: the queues, the next item of a queue, an answer, and taking it back.

It does what the page of a queue does, with the same functions. Every request can be sent again: the item in
hand stays the same, an answer has a key, and taking back names the answer.
"""

from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, get, post
from litestar.params import JSONBody, PathParameter, QueryParameter
from msgspec import Meta

from trivium.labels.blind import material_of
from trivium.labels.people import LONGEST_NAME, LONGEST_NOTE, shown_names
from trivium.labels.queue import LabelQueues
from trivium.store.labels import Choice, How, LabelQueue, StoredLabel, Task
from trivium.traces.trace import Trace
from trivium.web.errors import refusals
from trivium.web.labellers import labeller_of
from trivium.web.pages.site import queue_called
from trivium.web.services import Services

__all__ = ["LABEL_BODIES", "label_routes"]

Limit = Annotated[int, QueryParameter(ge=1, le=200, description="Most records of the answer.")]
QueueId = Annotated[str, PathParameter(max_length=100, description="Id of a queue.")]
Name = Annotated[str, Meta(max_length=LONGEST_NAME)] | None
Number = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class Queues(msgspec.Struct, frozen=True, kw_only=True):
    """Queues of labels, newest first."""

    queues: tuple[LabelQueue, ...]


class Labeller(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who labels.

    Attributes:
        by: Name of the person where no token is asked for; with a token, which is the person, it is refused.
    """

    by: Name = None


class NewAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer to an item.

    Attributes:
        place: The field ``place`` of an item that was given to this person.
        answer: ``label``; ``cannot_tell``; or ``skip``, which leaves the item for others and for later.
        value: The score of a label.
        key: Any text, new for each answer and the same each time it is sent: it is then stored once.
        note: What there is to say about it.
        by: As for the next item.
    """

    place: Number
    answer: Literal["label", "cannot_tell", "skip"]
    key: Annotated[str, Meta(min_length=1, max_length=200)]
    value: Annotated[float, Meta(ge=0, le=1)] | None = None
    note: Annotated[str, Meta(max_length=LONGEST_NOTE)] | None = None
    by: Name = None


class TakenBack(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer to take back.

    Attributes:
        label: Its number. Only the person's last answer is taken back; anything else changes nothing.
        by: As for the next item.
    """

    label: Annotated[int, Meta(ge=1, le=2**53)]
    by: Name = None


LABEL_BODIES = (Labeller, NewAnswer, TakenBack)
"""Bodies of requests; they may have no other fields."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """An item that is reserved for a person, without what judges or other people said of it.

    Attributes:
        place: Its place in the queue.
        until: Unix time until which it is reserved.
        run: Id of the run.
        case: Id of the case.
        repeat: Number of the repeat.
        dimension: What to label.
        asks: The question, or an empty text.
        choices: The usual answers; any other number from 0 to 1 is taken too.
        input: What the agent was asked.
        source: The document that the case is about, or None.
        references: Good outputs.
        output: What the agent answered.
        trace: What it did, or None.
    """

    place: int
    until: float
    run: str
    case: str
    repeat: int
    dimension: str
    asks: str
    choices: tuple[Choice, ...]
    input: Any
    source: str | None
    references: tuple[str, ...]
    output: Any
    trace: Trace | None


class NextItem(msgspec.Struct, frozen=True, kw_only=True):
    """The item that is reserved for a person.

    Attributes:
        item: The item; None if nothing is left for this person.
        last: Number of the person's last answer, which can be taken back; None if there is none.
    """

    item: Item | None
    last: int | None


class OwnLabel(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as it is stored.

    Attributes:
        label: Its number.
        place: Place of the item.
        answer: ``label``, ``cannot_tell`` or ``skip``.
        value: The score, or None.
        note: What was said about it, or None.
        by: What is shown of the person.
        at: Unix time.
        undone: Unix time at which it was taken back, or None.
        how: How it was asked, such as ``uniform``. ``volunteered``: it is kept and enters no estimate; it
            came after the reservation, and the item had its answers or others had it in hand.
    """

    label: int
    place: int
    answer: str
    value: float | None
    note: str | None
    by: str
    at: float
    undone: float | None
    how: How


def label_routes(services: Services) -> list[Any]:
    """The routes."""
    store = services.store
    queues = LabelQueues(store, clock=services.clock)

    def in_hand(queue: LabelQueue, task: Task | None, by: str) -> NextItem:
        last = queues.last(queue.id, by)
        return NextItem(
            item=None if task is None else _item(services, queue, task),
            last=None if last is None else last.number,
        )

    @get("/labels/queues", sync_to_thread=True, responses=refusals())
    def list_queues(limit: Limit = 50) -> Queues:
        """Queues of labels."""
        return Queues(queues=tuple(queues.all(limit=limit)))

    @post("/labels/queues/{queue:str}/next", sync_to_thread=True, status_code=200, responses=_REFUSALS)
    def next_item(queue: QueueId, data: JSONBody[Labeller], request: Request[Any, Any, Any]) -> NextItem:
        """Reserve the next item of a queue; the one in hand first."""
        by, asked = labeller_of(request, data.by), queue_called(queues, queue)
        return in_hand(asked, queues.next(asked.id, by), by)

    @post("/labels/queues/{queue:str}/answers", sync_to_thread=True, status_code=200, responses=_REFUSALS)
    def answer_item(queue: QueueId, data: JSONBody[NewAnswer], request: Request[Any, Any, Any]) -> OwnLabel:
        """Store an answer to an item, once for each key."""
        by, asked = labeller_of(request, data.by), queue_called(queues, queue)
        label = queues.answer(asked.id, data.place, by, data.answer, data.value, key=data.key, note=data.note)
        return _own(label)

    @post("/labels/queues/{queue:str}/undo", sync_to_thread=True, status_code=200, responses=_REFUSALS)
    def take_back(queue: QueueId, data: JSONBody[TakenBack], request: Request[Any, Any, Any]) -> NextItem:
        """Take back the person's last answer, and have its item in hand again."""
        by, asked = labeller_of(request, data.by), queue_called(queues, queue)
        task = queues.undo(asked.id, by, label=data.label)
        return in_hand(asked, task or queues.next(asked.id, by), by)

    return [list_queues, next_item, answer_item, take_back]


_REFUSALS = refusals(404, 408, 413, 415)


def _item(services: Services, queue: LabelQueue, task: Task) -> Item:
    asked = {name: getattr(task, name) for name in ("place", "until", "run", "dimension")}
    asked |= {name: getattr(queue.settings, name) for name in ("asks", "choices")}
    return Item(**asked, **msgspec.structs.asdict(material_of(services.store, task)))


def _own(label: StoredLabel) -> OwnLabel:
    as_stored = {name: getattr(label, name) for name in ("answer", "value", "note", "at", "undone", "how")}
    by = shown_names([label.by])[label.by]
    return OwnLabel(label=label.number, place=label.place or 0, by=by, **as_stored)
