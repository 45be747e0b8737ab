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
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

import msgspec
from sqlalchemy import Connection, and_, delete, func, insert, select, update

from trivium.errors import InputError, suggest
from trivium.labels.population import choices_for, population_of
from trivium.labels.reading import (
    is_there,
    queue_of,
    run_number,
)
from trivium.labels.records import (
    Answer,
    LabelQueue,
    Population,
    QueueSettings,
    StoredLabel,
    Task,
    checked_value,
    unpacked,
)
from trivium.labels.tasks import (
    count_missing,
    draw,
    free_leases,
    held,
    last_label,
    mark_gone,
    reserve,
    task_at,
    waiting,
)
from trivium.labels.writing import checked_name, insert_label, key_of, label_with_key, noted
from trivium.store import schema
from trivium.store.audit import add_audit
from trivium.store.connection import begin_writing, explain_errors
from trivium.store.records import RunRecord, encode
from trivium.store.store import Store
from trivium.suites.sanitize import sanitise

__all__ = ["LabelQueues"]

_CACHED = 8
_GONE_AT_ONCE = 500
_SEEDS = 2**31


class LabelQueues:
    """The queues of a store.

    Args:
        store: The store.
        clock: Gives the Unix time.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self.store = store
        self._clock = clock
        self._populations: OrderedDict[int, Population] = OrderedDict()

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
        items, used = population_of(self.store, [run], dimension, uncertainty=settings.uncertainty)
        asks, choices = choices_for(run, dimension)
        settings = msgspec.structs.replace(settings, uncertainty=used, asks=asks, choices=choices)
        return self.add(items, dimension, settings, by=by, run=run.id, seed=seed)

    def add(
        self,
        items: Population,
        dimension: str,
        settings: QueueSettings,
        *,
        by: str,
        run: str | None = None,
        monitor: str | None = None,
        seed: int | None = None,
    ) -> LabelQueue:
        """Store a queue of these items (:meth:`create` and ``monitored`` choose them).

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
        now = self._clock()
        values = {
            "id": f"labels-{secrets.token_hex(4)}",
            "run": run,
            "monitor": monitor,
            "dimension": dimension,
            "seed": secrets.randbelow(_SEEDS) if seed is None else seed,
            "population": len(items),
            "created": now,
            "settings": encode(msgspec.to_builtins(msgspec.structs.replace(settings, by=by))),
            "packed": items.packed(),
        }
        with explain_errors(self.store.engine), self.store.engine.begin() as connection:
            connection.execute(insert(schema.label_queues).values(values))
            about = {"queue": values["id"], "run": run, "monitor": monitor, "dimension": dimension}
            add_audit(connection, by, "label queue created", about, now=now)
        return self.get(str(values["id"]))

    def get(self, id: str) -> LabelQueue:  # noqa: A002 - the field's name in the record
        """Return the queue with this id.

        Raises:
            InputError: If there is none; names the nearest.
        """
        with explain_errors(self.store.engine), self.store.engine.connect() as connection:
            return self._queue(connection, id)

    def all(
        self, *, run: str | None = None, dimension: str | None = None, limit: int = 200
    ) -> list[LabelQueue]:
        """Return the queues, newest first; only of a run or a dimension, if given."""
        table = schema.label_queues
        query = select(*_COLUMNS).order_by(table.c.number.desc()).limit(limit)
        if run is not None:
            query = query.where(table.c.run == run)
        if dimension is not None:
            query = query.where(table.c.dimension == dimension)
        with explain_errors(self.store.engine), self.store.engine.connect() as connection:
            return [queue_of(row) for row in connection.execute(query)]

    def close(self, id: str, by: str) -> LabelQueue:  # noqa: A002
        """End a queue: it gives out nothing more and takes no more answers; its labels stay."""
        now = self._clock()
        with explain_errors(self.store.engine), self.store.engine.begin() as connection:
            queue = self._queue(connection, id, writing=True)
            if queue.closed is None:
                table = schema.label_queues
                connection.execute(update(table).where(table.c.number == queue.number).values(closed=now))
                add_audit(connection, checked_name(by), "label queue closed", {"queue": id}, now=now)
        return self.get(id)

    def population(self, queue: LabelQueue) -> Population:
        """Return the items of a queue, which never change."""
        with explain_errors(self.store.engine), self.store.engine.connect() as connection:
            return self._population(connection, queue)

    # Tasks

    def next(self, id: str, by: str) -> Task | None:  # noqa: A002
        """Reserve the next item for a person, and return it; the one that the person has in hand first.

        Returns:
            None if every item has been given out and nothing is left for this person.

        Raises:
            InputError: If the queue is closed, or its run was deleted.
        """
        by = checked_name(by)
        with explain_errors(self.store.engine), self.store.engine.begin() as connection:
            queue = self._queue(connection, id, writing=True, open_only=True)
            items = self._population(connection, queue)
            if queue.run is not None and not run_number(connection, queue.run):
                raise InputError(f"queue {id}", f"run {queue.run} was deleted; the labels so far are kept")
            now = self._clock()
            free_leases(connection, queue, now)
            for _ in range(_GONE_AT_ONCE):
                place = held(connection, queue, by) or waiting(connection, queue, by)
                if place is None:
                    place = draw(connection, queue, items, now)
                if place is None:
                    place = waiting(connection, queue, by, skipped=True)
                if place is None:
                    return None
                task = task_at(connection, queue, items, place)
                if is_there(connection, task):
                    return reserve(connection, queue, task, by, now)
                mark_gone(connection, queue, task, now)
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

        An answer that comes after the reservation ended is stored too: the item was drawn with a known
        probability whoever answers. So is one whose run was deleted while the person read it.

        Args:
            id: Id of the queue.
            place: The task's place.
            by: Name of the person.
            answer: ``label``; ``cannot_tell``; or ``skip``, which leaves the item for others and for later.
            value: The score, in [0, 1], of a label.
            key: Made by the sender, the same for every try to send this answer; it is then stored once.
            note: Anything the person wants to say.

        Raises:
            InputError: If the queue is closed, the task unknown, the value wrong, or the person has
                answered it already.
        """
        by = checked_name(by)
        value = checked_value(answer, value)
        with explain_errors(self.store.engine), self.store.engine.begin() as connection:
            queue = self._queue(connection, id, writing=True)
            digest = key_of(queue.id, by, secrets.token_hex(16) if key is None else key)
            before = label_with_key(connection, digest)
            if before is not None:
                return before
            if queue.closed is not None:
                raise InputError(f"queue {id}", "is closed and takes no more answers")
            items = self._population(connection, queue)
            task = task_at(connection, queue, items, place)
            labels = schema.labels
            mine = and_(labels.c.queue == queue.number, labels.c.by == by, labels.c.place == place)
            earlier = connection.execute(
                select(labels.c.number)
                .where(mine, labels.c.undone.is_(None))
                .where(labels.c.answer != "skip", labels.c.how != "adjudicated")
            ).first()
            if earlier is not None:
                raise InputError(f"queue {id}", f"{by} has answered item {place} already: undo that first")
            tasks = schema.label_tasks
            at = and_(tasks.c.queue == queue.number, tasks.c.place == place)
            how, probability = connection.execute(select(tasks.c.how, tasks.c.probability).where(at)).one()
            label = insert_label(
                connection,
                run=task.run,
                case=task.case,
                repeat=task.repeat,
                dimension=queue.dimension,
                answer=answer,
                value=value,
                by=by,
                at=self._clock(),
                how="volunteered" if queue.settings.volunteered else how,
                probability=None if queue.settings.volunteered else probability,
                queue=queue.number,
                place=place,
                key=digest,
                note=noted(note),
            )
            count_missing(connection, queue, place)
            leases = schema.label_leases
            connection.execute(
                delete(leases).where(
                    leases.c.queue == queue.number, leases.c.by == by, leases.c.place == place
                )
            )
            return label

    def last(self, id: str, by: str) -> StoredLabel | None:  # noqa: A002
        """A person's last answer in a queue that was not taken back, or None."""
        with explain_errors(self.store.engine), self.store.engine.connect() as connection:
            return last_label(connection, self._queue(connection, id), checked_name(by))

    def undo(self, id: str, by: str, *, label: int | None = None) -> Task | None:  # noqa: A002
        """Take back a person's last answer in a queue, and reserve its item for them again.

        The answer stays in the store, marked as undone.

        Args:
            id: Id of the queue.
            by: The person.
            label: Number of the answer; if it is not the last one (any more), nothing is taken back, so
                that a request that is sent again does it once.

        Returns:
            The item; None if there is nothing to take back.
        """
        by = checked_name(by)
        labels, leases, now = schema.labels, schema.label_leases, self._clock()
        with explain_errors(self.store.engine), self.store.engine.begin() as connection:
            queue = self._queue(connection, id, writing=True, open_only=True)
            last = last_label(connection, queue, by)
            if last is None or last.place is None or label not in {None, last.number}:
                return None
            connection.execute(update(labels).where(labels.c.number == last.number).values(undone=now))
            add_audit(connection, by, "label undone", {"label": last.number, "queue": id}, now=now)
            count_missing(connection, queue, last.place)
            connection.execute(delete(leases).where(leases.c.queue == queue.number, leases.c.by == by))
            items = self._population(connection, queue)
            task = task_at(connection, queue, items, last.place)
            return reserve(connection, queue, task, by, now)

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

        A later decision replaces an earlier one. ``agreement.disagreements_of`` lists what needs one.

        Raises:
            InputError: If fewer than two people have answered, an answer is still wanted, or the value is
                wrong.
        """
        by = checked_name(by)
        checked_value("label", value)
        with explain_errors(self.store.engine), self.store.engine.begin() as connection:
            queue = self._queue(connection, id, writing=True)
            digest = key_of(queue.id, by, "decided", secrets.token_hex(16) if key is None else key)
            before = label_with_key(connection, digest)
            if before is not None:
                return before
            task = task_at(connection, queue, self._population(connection, queue), place)
            labels, tasks = schema.labels, schema.label_tasks
            given = connection.execute(
                select(func.count())
                .select_from(labels)
                .where(labels.c.queue == queue.number, labels.c.place == place, labels.c.undone.is_(None))
                .where(labels.c.answer != "skip", labels.c.how != "adjudicated")
            ).scalar_one()
            at = and_(tasks.c.queue == queue.number, tasks.c.place == place)
            row = connection.execute(select(tasks.c.missing, tasks.c.probability).where(at)).one()
            if given < 2 or row.missing:
                raise InputError(
                    f"queue {id}", f"item {place} has {given} answers: two people, and all wanted, come first"
                )
            return insert_label(
                connection,
                run=task.run,
                case=task.case,
                repeat=task.repeat,
                dimension=queue.dimension,
                answer="label",
                value=value,
                by=by,
                at=self._clock(),
                how="adjudicated",
                probability=row.probability,
                queue=queue.number,
                place=place,
                key=digest,
                note=noted(note),
            )

    # Within a transaction

    def _queue(
        self,
        connection: Connection,
        id: str,  # noqa: A002
        *,
        writing: bool = False,
        open_only: bool = False,
    ) -> LabelQueue:
        table = schema.label_queues
        query = select(*_COLUMNS).where(table.c.id == sanitise(id)[0])
        if writing:
            begin_writing(connection)
            query = query.with_for_update()
        row = connection.execute(query).first()
        if row is None:
            ids = connection.execute(select(table.c.id).order_by(table.c.number.desc()).limit(200))
            hint = suggest(id[:200], ids.scalars())
            raise InputError("", f'no queue of labels is called "{id[:200]}".{hint} (`trivium label list`)')
        queue = queue_of(row)
        if open_only and queue.closed is not None:
            raise InputError(f"queue {id}", "is closed")
        return queue

    def _population(self, connection: Connection, queue: LabelQueue) -> Population:
        found = self._populations.get(queue.number)
        if found is None:
            table = schema.label_queues
            body = connection.execute(
                select(table.c.packed).where(table.c.number == queue.number)
            ).scalar_one()
            found = self._populations[queue.number] = unpacked(body)
            while len(self._populations) > _CACHED:
                self._populations.popitem(last=False)
        return found


_COLUMNS = [column for column in schema.label_queues.c if column.name != "packed"]
