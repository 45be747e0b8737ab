"""A queue of labels: draws items with known probability and gives them to people.

Definition: docs/definitions/agreement.md#active-draw.

``LabelQueues`` is the one way in, for a terminal and for pages:

    queues = LabelQueues(store)
    queue = queues.create(run, "clarity", by="ann", settings=QueueSettings(overlap=0.1))
    task = queues.next(queue.id, "ann")           # reserved for ann; None: nothing left for her
    queues.answer(task.queue, task.place, "ann", "label", 0.8, key=form_key)
    queues.undo(queue.id, "ann")                  # her last answer; she has the item in hand again

Calling ``next`` again gives the same item. An answer that is sent twice with one key is stored once. All
calls on one queue wait for one another, so that no item is given to two people unless it is in the overlap.
An item belongs to the people to whom it was given: the answer of anybody else is refused.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from trivium.errors import InputError
from trivium.labels.people import checked_name, key_of, noted, token_id
from trivium.labels.population import Population, choices_for, population_of, unpacked
from trivium.labels.tasks import count_missing, draw, mark_gone, reserve, task_of, waiting
from trivium.store.labels import (
    Answer,
    LabelQueue,
    QueueSettings,
    QueueTransaction,
    StoredLabel,
    Task,
    add_queue,
    answers_in,
    find_queues,
    queue_transaction,
)
from trivium.store.records import RunRecord
from trivium.store.store import Store

_GONE_AT_ONCE = 500
_SEEDS = 2**31


class LabelQueues:
    """The queues of a store.

    Args:
        store: The store.
        clock: Returns the Unix time.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self.store = store
        self._clock = clock

    def now(self) -> float:
        """The Unix time."""
        return self._clock()

    # Queues

    def create(
        self,
        run: RunRecord,
        dimension: str,
        *,
        by: str,
        seed: int | None = None,
        settings: QueueSettings | None = None,
    ) -> LabelQueue:
        """Make a queue for the attempts of a run and a dimension.

        Args:
            run: The run.
            dimension: The judged dimension, or any other metric.
            by: Who makes it.
            seed: Seed of the draws, at least 0; None for a random one.
            settings: Its settings; what the labeller assesses and may answer is taken from the run, and so is
                the judge's confidence unless it is named.

        Raises:
            InputError: If an option is wrong, or no attempt has such a score.
        """
        settings = settings or QueueSettings()
        return self.add([run], dimension, settings, by=by, run=run.id, seed=seed)

    def add(
        self,
        runs: Sequence[RunRecord],
        dimension: str,
        settings: QueueSettings,
        *,
        by: str,
        run: str | None = None,
        monitor: str | None = None,
        seed: int | None = None,
        only: Iterable[tuple[int, int]] | None = None,
    ) -> LabelQueue:
        """Store a queue for attempts of runs (:meth:`create` and ``monitored`` choose them).

        Raises:
            InputError: If a setting is wrong.
        """
        by = checked_name(by)
        if not 0 <= settings.overlap <= 1 or settings.people < 2 or not settings.lease_seconds > 0:
            raise InputError(
                "the queue",
                f"expected an overlap from 0 to 1, at least 2 people and a lease above 0 s; found "
                f"{settings.overlap:g}, {settings.people} and {settings.lease_seconds:g}",
            )
        if seed is not None and not 0 <= seed < 2**62:
            raise InputError("the queue", f"found the seed {seed}, expected at least 0")
        items, used = population_of(self.store, runs, dimension, uncertainty=settings.uncertainty, only=only)
        asks, choices = choices_for(runs[0], dimension)
        values = {
            "id": f"labels-{secrets.token_hex(4)}",
            "run": run,
            "monitor": monitor,
            "dimension": dimension,
            "seed": secrets.randbelow(_SEEDS) if seed is None else seed,
            "population": len(items),
            "created": self._clock(),
            "packed": items.packed(),
        }
        asked = msgspec.structs.replace(settings, by=by, uncertainty=used, asks=asks, choices=choices)
        add_queue(self.store, asked, values)
        return self.get(str(values["id"]))

    def get(self, id: str) -> LabelQueue:  # noqa: A002 - the field's name in the record
        """Return the queue with this id.

        Raises:
            InputError: If there is none; names the nearest.
        """
        with queue_transaction(self.store, id) as stored:
            return stored.queue

    def all(
        self, *, run: str | None = None, dimension: str | None = None, limit: int = 200
    ) -> list[LabelQueue]:
        """Return the queues, newest first; only of a run or a dimension, if given."""
        return find_queues(self.store, run=run, dimension=dimension, limit=limit)

    def close(self, id: str, by: str) -> LabelQueue:  # noqa: A002
        """End a queue: it gives out nothing more and takes no more answers; its labels stay."""
        with queue_transaction(self.store, id, writing=True) as stored:
            if stored.queue.closed is None:
                stored.close(checked_name(by), self._clock())
        return self.get(id)

    def population(self, queue: LabelQueue) -> Population:
        """Return the items of a queue, which never change."""
        with queue_transaction(self.store, queue.id) as stored:
            return unpacked(stored.packed())

    def left(self, queue: LabelQueue) -> int:
        """Count the items of a queue that still want answers; none of a closed one."""
        if queue.closed is not None:
            return 0
        return queue.population - answers_in(self.store, queue).complete

    # Tasks

    def next(self, id: str, by: str) -> Task | None:  # noqa: A002
        """Return the item reserved for a person, or reserve the next one.

        Returns:
            None if every item has been given out and nothing is left for this person.

        Raises:
            InputError: If the queue is closed, or its run was deleted.
        """
        by = checked_name(by)
        with self._open(id) as stored:
            items, run = unpacked(stored.packed()), stored.queue.run
            if run is not None and not stored.has_run(run):
                raise InputError(f"queue {id}", f"run {run} was deleted; the labels so far are kept")
            now = self._clock()
            stored.end_reservations(now)
            for _ in range(_GONE_AT_ONCE):
                place = stored.in_hand(by) or waiting(stored, by)
                if place is None:
                    place = draw(stored, items, now)
                if place is None:
                    place = waiting(stored, by, skipped=True)
                if place is None:
                    return None
                drawn = stored.drawn(place)
                task = task_of(stored, items, place, drawn)
                if stored.has_attempt(task):
                    return reserve(stored, task, by, now)
                mark_gone(stored, task, drawn, now)
            raise InputError(f"queue {id}", "the runs of most of its items were deleted: make a new queue")

    def answer(
        self,
        id: str,  # noqa: A002
        place: int,
        by: str,
        answer: Answer,
        value: float | None = None,
        *,
        key: str | None = None,
        note: str | None = None,
    ) -> StoredLabel:
        """Store a person's answer.

        An answer that comes after the reservation ended is stored too. It counts if the item still wants it:
        the item was drawn with a known probability whoever answers. If the item has its answers, or others
        have it in hand for all that are missing, the label is ``volunteered`` and enters no estimate. An
        answer whose run was deleted while the person read it is stored like any other.

        Args:
            id: Id of the queue.
            place: The task's place.
            by: Name of the person.
            answer: ``label``; ``cannot_tell``; or ``skip``, which leaves the item for others and for later.
            value: The score, in [0, 1], of a label.
            key: Made by the sender, the same for every try to send this answer; it is then stored once.
            note: Anything the person wants to say.

        Raises:
            InputError: If the queue is closed, the task unknown or never given to this person, the value
                wrong, or the person has answered it already.
        """
        by, now = checked_name(by), self._clock()
        value = _checked_value(answer, value)
        with queue_transaction(self.store, id, writing=True) as stored:
            queue = stored.queue
            digest = key_of(queue.id, by, secrets.token_hex(16) if key is None else key)
            before = stored.label_with_key(digest)
            if before is not None:
                return before
            if queue.closed is not None:
                raise InputError(f"queue {id}", "is closed and takes no more answers")
            drawn = stored.drawn(place)
            if not stored.was_given(place, by):
                raise InputError(
                    f"queue {id}",
                    f"item {place} was never given to {by}: ask for the next one (`trivium label`, the page "
                    "of the queue, or `next` of the JSON interface) and answer that",
                )
            if stored.has_answered(place, by):
                raise InputError(f"queue {id}", f"{by} has answered item {place} already: undo that first")
            stored.end_reservations(now)
            volunteered = bool(queue.settings.volunteered) or not stored.is_wanted_of(place, by)
            label = stored.add_label(
                task_of(stored, unpacked(stored.packed()), place, drawn),
                answer=answer,
                value=value,
                by=by,
                at=now,
                how="volunteered" if volunteered else drawn.how,
                probability=None if volunteered else drawn.probability,
                key=digest,
                note=noted(note),
            )
            count_missing(stored, place)
            stored.release(place, by)
            return label

    def last(self, id: str, by: str, *, decided: bool = False) -> StoredLabel | None:  # noqa: A002
        """A person's last answer in a queue that was not taken back, or None.

        Args:
            id: Id of the queue.
            by: The person.
            decided: Their last decision on others' answers instead.
        """
        with queue_transaction(self.store, id) as stored:
            return stored.last_label(checked_name(by), decided=decided)

    def undo(self, id: str, by: str, *, label: int | None = None) -> Task | None:  # noqa: A002
        """Take back a person's last answer in a queue, and reserve its item for them again.

        The answer stays in the store, marked as undone.

        Args:
            id: Id of the queue.
            by: The person.
            label: Number of the answer; if it is not the last one (any more), nothing is taken back, so
                that a request that is sent again does it once.

        Returns:
            The item; None if there is nothing to take back, or the item wants no other answer of this person.
        """
        by, now = checked_name(by), self._clock()
        with self._open(id) as stored:
            last = stored.last_label(by)
            if last is None or last.place is None or label not in {None, last.number}:
                return None
            stored.undo(last, by, now)
            count_missing(stored, last.place)
            if not stored.is_wanted_of(last.place, by):
                return None
            stored.release(by=by)
            task = task_of(stored, unpacked(stored.packed()), last.place, stored.drawn(last.place))
            return reserve(stored, task, by, now)

    def adjudicate(
        self,
        id: str,  # noqa: A002
        place: int,
        by: str,
        value: float,
        *,
        key: str | None = None,
        note: str | None = None,
    ) -> StoredLabel:
        """Decide on an item that several people answered; their own labels stay.

        A later decision replaces an earlier one. Nobody whose name is checked (that of a token) decides on an
        item that they labelled. ``agreement.disagreements_of`` lists what needs one.

        Raises:
            InputError: If fewer than two of the people who were asked have answered, an answer is still
                wanted, the person is one of them, or the value is wrong.
        """
        by = checked_name(by)
        _checked_value("label", value)
        with queue_transaction(self.store, id, writing=True) as stored:
            digest = key_of(stored.queue.id, by, "decided", secrets.token_hex(16) if key is None else key)
            before = stored.label_with_key(digest)
            if before is not None:
                return before
            drawn, given = stored.drawn(place), stored.count_answers(place)
            if given < 2 or drawn.missing:
                raise InputError(
                    f"queue {id}",
                    f"item {place} has {given} answers of people who were asked: two, and all wanted, first",
                )
            if token_id(by) is not None and stored.has_answered(place, by):
                raise InputError(f"queue {id}", f"{by} labelled item {place}: somebody else decides")
            return stored.add_label(
                task_of(stored, unpacked(stored.packed()), place, drawn),
                answer="label",
                value=value,
                by=by,
                at=self._clock(),
                how="adjudicated",
                probability=drawn.probability,
                key=digest,
                note=noted(note),
            )

    def undo_decision(self, id: str, by: str, *, label: int) -> bool:  # noqa: A002
        """Take back a person's last decision in a queue: an earlier one, or the median, counts again.

        Args:
            id: Id of the queue.
            by: The person.
            label: Number of the decision; if it is not the last one (any more), nothing is taken back.

        Returns:
            Whether it was taken back.
        """
        by = checked_name(by)
        with self._open(id) as stored:
            last = stored.last_label(by, decided=True)
            if last is None or last.number != label:
                return False
            stored.undo(last, by, self._clock())
            return True

    @contextmanager
    def _open(self, id: str) -> Iterator[QueueTransaction]:  # noqa: A002
        """A transaction that writes to a queue that is not closed."""
        with queue_transaction(self.store, id, writing=True) as stored:
            if stored.queue.closed is not None:
                raise InputError(f"queue {id}", "is closed")
            yield stored


def _checked_value(answer: Answer, value: float | None) -> float | None:
    """Return the value that belongs to an answer.

    Raises:
        InputError: If a label has no value in [0, 1].
    """
    if answer != "label":
        return None
    if value is None or not 0 <= value <= 1:
        found = "none" if value is None else f"{value:g}"
        raise InputError("the label", f"found the value {found}, expected a number from 0 to 1")
    return float(value)
