"""Labels of people and the queues that ask for them: their records, and all that is read and written.

A label is added once and never changed, apart from the time at which it was taken back. What belongs together
goes through one :class:`QueueTransaction`.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, and_, case, delete, func, insert, or_, select, update

from trivium.errors import InputError, suggest
from trivium.safe_text import sanitise
from trivium.store import schema
from trivium.store.audit import add_audit
from trivium.store.connection import begin_writing, explain_errors, fetched, writing
from trivium.store.records import encode
from trivium.store.store import Store
from trivium.trust.active_sampling import Draw
from trivium.values import resolved

Answer = Literal["label", "cannot_tell", "skip"]
How = Literal["uniform", "active", "volunteered", "imported", "adjudicated"]

NOBODY = "(nobody)"
"""Name under which answers are stored for items whose run was deleted."""


class Choice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer that a labeller can choose by a key.

    Attributes:
        key: The key, ``1`` to ``9``.
        value: The score that it stands for, in [0, 1].
        name: Its name, such as ``good``.
        means: What an output of this level looks like; empty if nothing is said.
    """

    key: str
    value: float
    name: str
    means: str = ""


@resolved
class QueueSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of a queue, which do not change after it is made.

    Attributes:
        overlap: Share of the items, in [0, 1], that ``people`` label instead of one.
        people: How many label an item of the overlap, at least 2.
        lease_seconds: For how long an item is reserved for the person who has it in hand.
        uncertainty: Name of the judge's confidence from which the uncertainty comes; None: all alike.
        uniform: Whether all items are equally likely throughout, so that a certificate can use every label.
        asks: What the labeller assesses.
        choices: Answers by key; other values can be given as numbers.
        by: Who made the queue.
        volunteered: Why its labels never enter an estimate; empty if they do.
    """

    overlap: float = 0.0
    people: int = 2
    lease_seconds: float = 900.0
    uncertainty: str | None = None
    uniform: bool = False
    asks: str = ""
    choices: tuple[Choice, ...] = ()
    by: str = ""
    volunteered: str = ""


class LabelQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue of labels.

    Attributes:
        number: Its key in the store.
        id: Id shown to users.
        run: Id of the run whose attempts it asks about, or None.
        monitor: Name of the monitor whose samples it asks about, or None.
        dimension: The dimension that is labelled.
        seed: Seed of the draws.
        population: Number of items that may be asked.
        created: Unix time.
        closed: Unix time, or None.
        settings: Its settings.
    """

    number: int
    id: str
    run: str | None
    monitor: str | None
    dimension: str
    seed: int
    population: int
    created: float
    closed: float | None
    settings: QueueSettings


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """An item that a person is asked to label.

    Attributes:
        queue: Id of the queue.
        place: Its place in the queue, from 1, in the order of drawing.
        run: Id of the run.
        case: Id of the case.
        position: Position of the case in the suite.
        repeat: Number of the repeat.
        dimension: The dimension to label.
        until: Unix time until which it is reserved for this person.
    """

    queue: str
    place: int
    run: str
    case: str
    position: int
    repeat: int
    dimension: str
    until: float


class DrawnItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a queue that was drawn.

    Attributes:
        item: Its position in the population.
        probability: Probability, just before the draw, with which it was drawn; in (0, 1].
        how: Which share of the probability chose it.
        wanted: Answers that it wants.
        missing: Answers that it still wants.
    """

    item: int
    probability: float
    how: Literal["uniform", "active"]
    wanted: int
    missing: int


class StoredLabel(msgspec.Struct, frozen=True, kw_only=True):
    """A person's label on a dimension of an attempt.

    Attributes:
        number: Its key in the store; rises with every label.
        run: Id of the run, which may have been deleted since.
        case: Id of the case.
        repeat: Number of the repeat.
        dimension: The dimension.
        answer: ``label``, ``cannot_tell`` or ``skip``.
        value: The score in [0, 1]; None unless the answer is ``label``.
        by: Name of the person.
        at: Unix time.
        how: How it was asked. Only uniform and active ones, and adjudications of them, enter an estimate; a
            volunteered one was not asked for.
        probability: Probability with which it was asked, just before the draw; None if it was not drawn.
        queue: Number of its queue, or None.
        place: Place of its task in the queue, or None.
        undone: Unix time at which it was taken back, or None.
        key: The same for every try to send it.
        note: What the person wrote beside it, or None.
    """

    number: int
    run: str
    case: str
    repeat: int
    dimension: str
    answer: Answer
    value: float | None
    by: str
    at: float
    how: How
    probability: float | None
    queue: int | None
    place: int | None
    undone: float | None
    key: str
    note: str | None


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """How far a queue has been answered.

    Attributes:
        items: Items with an answer.
        people: How many people gave them.
        complete: Items with all the answers that they were asked for.
    """

    items: int
    people: int
    complete: int


_queues, _tasks, _leases, _grants, _labels = (
    schema.label_queues,
    schema.label_tasks,
    schema.label_leases,
    schema.label_grants,
    schema.labels,
)
_QUEUE = [column for column in _queues.c if column.name != "packed"]
_ASKED = (_labels.c.answer != "skip", _labels.c.how != "adjudicated")
"""Of people's own answers: neither skips nor decisions on others' answers."""


class QueueTransaction:
    """A queue of labels within a transaction.

    Args:
        connection: In the transaction.
        queue: The queue.
    """

    def __init__(self, connection: Connection, queue: LabelQueue) -> None:
        self._connection = connection
        self.queue = queue

    def packed(self) -> bytes:
        """Its population, as it was stored."""
        query = select(_queues.c.packed).where(_queues.c.number == self.queue.number)
        return bytes(self._connection.execute(query).scalar_one())

    def close(self, by: str, now: float) -> None:
        """Note that it takes no more answers."""
        self._connection.execute(
            update(_queues).where(_queues.c.number == self.queue.number).values(closed=now)
        )
        add_audit(self._connection, by, "label queue closed", {"queue": self.queue.id}, now=now)

    # Attempts

    def has_run(self, run: str) -> bool:
        """Whether the run with this id is still in the store."""
        return self._run_number(run) is not None

    def has_attempt(self, task: Task) -> bool:
        """Whether the attempt of a task is still in the store."""
        number, scored = self._run_number(task.run), schema.evaluations.c
        if number is None:
            return False
        at = and_(scored.run == number, scored.position == task.position, scored.repeat == task.repeat)
        return self._connection.execute(select(scored.run).where(at)).first() is not None

    def _run_number(self, run: str) -> int | None:
        query = select(schema.runs.c.number).where(schema.runs.c.id == run)
        return self._connection.execute(query).scalar()

    # Items that were drawn

    def draws(self) -> tuple[Draw, ...]:
        """Its draws, in order."""
        query = select(_tasks.c.item, _tasks.c.probability, _tasks.c.how).where(self._of(_tasks))
        rows = self._connection.execute(query.order_by(_tasks.c.place))
        return tuple(Draw(item=item, probability=probability, how=how) for item, probability, how in rows)

    def drawn(self, place: int) -> DrawnItem:
        """The item that was drawn at a place.

        Raises:
            InputError: If it has not been drawn.
        """
        columns = (_tasks.c[name] for name in DrawnItem.__struct_fields__)
        query = select(*columns).where(self._of(_tasks, place))
        row = self._connection.execute(query).mappings().first() if 0 < place < 2**31 else None
        if row is None:
            raise InputError(f"queue {self.queue.id}", f"has given out no item {place}")
        return DrawnItem(**row)

    def add_drawn(self, place: int, draw: Draw, wanted: int, now: float) -> None:
        """Store that an item was drawn, and how many answers it needs."""
        values = {**msgspec.structs.asdict(draw), "queue": self.queue.number, "place": place}
        counts = {"wanted": wanted, "missing": wanted, "drawn": now}
        self._connection.execute(insert(_tasks).values(values | counts))

    def missing(self) -> dict[int, int]:
        """Count the answers that drawn items still need, by place, in order; complete items are left out."""
        query = select(_tasks.c.place, _tasks.c.missing).where(self._of(_tasks), _tasks.c.missing > 0)
        return {row[0]: row[1] for row in self._connection.execute(query.order_by(_tasks.c.place))}

    def set_missing(self, place: int, number: int) -> None:
        """Store how many answers an item still wants."""
        self._connection.execute(update(_tasks).where(self._of(_tasks, place)).values(missing=number))

    # Reservations

    def in_hand(self, by: str) -> int | None:
        """Return the place of the item reserved for a person, or None."""
        query = select(_leases.c.place).where(self._of(_leases, by=by))
        return self._connection.execute(query).scalar()

    def reserved(self, *, after: float | None = None) -> dict[int, int]:
        """Count the people who have reserved each item, by place.

        Args:
            after: Unix time: only reservations that end later.
        """
        query = select(_leases.c.place, func.count()).where(self._of(_leases)).group_by(_leases.c.place)
        if after is not None:
            query = query.where(_leases.c.until > after)
        return {row[0]: row[1] for row in self._connection.execute(query)}

    def was_given(self, place: int, by: str) -> bool:
        """Whether the item was ever reserved for this person."""
        query = select(_grants.c.place).where(self._of(_grants, place, by))
        return self._connection.execute(query).first() is not None

    def is_wanted_of(self, place: int, by: str) -> bool:
        """Whether an item wants an answer of this person: more than those that others have in hand."""
        others = select(func.count()).where(self._of(_leases, place), _leases.c.by != by)
        return self._connection.execute(others).scalar_one() < self.drawn(place).missing

    def reserve(self, place: int, by: str, now: float, until: float) -> None:
        """Reserve an item for a person, or extend the reservation of the one that they have in hand."""
        again = update(_grants).where(self._of(_grants, place, by)).values(until=until)
        if not self._connection.execute(again).rowcount:
            given = {"queue": self.queue.number, "place": place, "by": by, "given": now, "until": until}
            self._connection.execute(insert(_grants).values(given))
        extended = update(_leases).where(self._of(_leases, by=by)).values(until=until)
        if not self._connection.execute(extended).rowcount:
            taken = self._connection.execute(select(_leases.c.slot).where(self._of(_leases, place)))
            used = set(taken.scalars())
            slot = next(free for free in range(len(used) + 1) if free not in used)
            values = {"queue": self.queue.number, "by": by, "place": place, "slot": slot, "until": until}
            self._connection.execute(insert(_leases).values(values))

    def release(self, place: int | None = None, by: str | None = None) -> None:
        """End the reservations of an item, of a person, or of the item by the person."""
        self._connection.execute(delete(_leases).where(self._of(_leases, place, by)))

    def end_reservations(self, now: float) -> None:
        """End timed-out reservations, and those of people whose token was revoked or has expired."""
        tokens = schema.tokens.c
        ended = select(tokens.id).where(or_(tokens.revoked.is_not(None), tokens.expires <= now))
        of_ended = and_(_leases.c.by.startswith("token "), func.substr(_leases.c.by, 7, 8).in_(ended))
        over = or_(_leases.c.until <= now, of_ended)
        self._connection.execute(delete(_leases).where(self._of(_leases), over))

    # Labels

    def labels(self) -> list[StoredLabel]:
        """Its answers that were asked for and not taken back, in the order in which they came."""
        return list(_read_labels(self._connection, self._of(_labels), *_asked_for(self.queue)))

    def not_asked_for(self) -> dict[str, int]:
        """Count the answers that nobody asked for and that were not taken back, by person."""
        if self.queue.settings.volunteered:
            return {}
        mine = (self._of(_labels), _labels.c.how == "volunteered", _labels.c.undone.is_(None), *_ASKED)
        query = select(_labels.c.by, func.count()).where(*mine).group_by(_labels.c.by)
        return {row[0]: row[1] for row in self._connection.execute(query.order_by(_labels.c.by))}

    def count_crowded(self) -> int:
        """Count the items with more answers than were wanted, which older versions took of anybody."""
        at = (_labels.c.queue == _tasks.c.queue) & (_labels.c.place == _tasks.c.place)
        given = (self._of(_labels), _labels.c.undone.is_(None), *_ASKED, *_asked_for(self.queue))
        places = select(_tasks.c.place).join(_labels, at).where(*given)
        crowded = places.group_by(_tasks.c.place, _tasks.c.wanted).having(func.count() > _tasks.c.wanted)
        query = select(func.count()).select_from(crowded.subquery())
        return self._connection.execute(query).scalar_one()

    def answers_by(self, by: str) -> list[tuple[int, Answer]]:
        """Place and answer of a person's answers that were not taken back, oldest first."""
        query = select(_labels.c.place, _labels.c.answer).where(self._of(_labels, by=by))
        rows = self._connection.execute(query.where(_labels.c.undone.is_(None)).order_by(_labels.c.number))
        return [(row.place, row.answer) for row in rows]

    def last_label(self, by: str, *, decided: bool = False) -> StoredLabel | None:
        """A person's last answer that was not taken back, or None; with ``decided`` their last decision."""
        decision = _labels.c.how == "adjudicated"
        mine = and_(self._of(_labels, by=by), decision if decided else ~decision, _labels.c.undone.is_(None))
        query = select(_labels).where(mine).order_by(_labels.c.number.desc()).limit(1)
        return next(map(_label, self._connection.execute(query)), None)

    def label_with_key(self, key: str) -> StoredLabel | None:
        """The label that was stored with this key, or None."""
        query = select(_labels).where(_labels.c.key == key)
        return next(map(_label, self._connection.execute(query)), None)

    def count_answers(self, place: int) -> int:
        """How many answers to an item were asked for and not taken back."""
        return self._count(self._of(_labels, place), *_asked_for(self.queue))

    def has_answered(self, place: int, by: str) -> bool:
        """Whether a person has an answer to an item that was not taken back, asked for or not."""
        return self._count(self._of(_labels, place, by)) > 0

    def _count(self, *tests: Any) -> int:
        given = (*tests, _labels.c.undone.is_(None), *_ASKED)
        return self._connection.execute(select(func.count()).select_from(_labels).where(*given)).scalar_one()

    def add_label(self, task: Task, **values: Any) -> StoredLabel:
        """Store an answer to a task: the columns that the task does not give."""
        about = {name: getattr(task, name) for name in ("run", "case", "repeat", "dimension", "place")}
        return _add_label(self._connection, {"queue": self.queue.number} | about | values, None)

    def undo(self, label: StoredLabel, by: str, now: float) -> None:
        """Note that an answer was taken back."""
        self._connection.execute(update(_labels).where(_labels.c.number == label.number).values(undone=now))
        about = {"label": label.number, "queue": self.queue.id}
        add_audit(self._connection, by, "label undone", about, now=now)

    def _of(self, table: Any, place: int | None = None, by: str | None = None) -> Any:
        """Selects the rows of the queue, of one of its items and of a person, if given."""
        wanted = {"queue": self.queue.number, "place": place, "by": by}
        return and_(*(table.c[name] == value for name, value in wanted.items() if value is not None))


@contextmanager
def queue_transaction(store: Store, id: str, *, writing: bool = False) -> Iterator[QueueTransaction]:  # noqa: A002
    """Open a transaction on a queue, which ends with the block; an error in it undoes what was written.

    Args:
        store: The store.
        id: Id of the queue.
        writing: Lock the queue, so that all that write to it wait for one another.

    Raises:
        InputError: If there is no such queue; names the nearest.
    """
    query = select(*_QUEUE).where(_queues.c.id == sanitise(id)[0])
    with explain_errors(store.engine), store.engine.begin() as connection:
        if writing:
            begin_writing(connection)
            query = query.with_for_update()
        row = connection.execute(query).first()
        if row is None:
            ids = connection.execute(select(_queues.c.id).order_by(_queues.c.number.desc()).limit(200))
            hint = suggest(id[:200], ids.scalars())
            raise InputError("", f'no queue of labels is called "{id[:200]}".{hint} (`trivium label list`)')
        yield QueueTransaction(connection, _queue(row))


def find_queues(
    store: Store, *, run: str | None = None, dimension: str | None = None, limit: int | None = None
) -> list[LabelQueue]:
    """Return the queues, newest first; only of a run or a dimension, if given."""
    query = select(*_QUEUE).order_by(_queues.c.number.desc()).limit(limit)
    for column, wanted in ((_queues.c.run, run), (_queues.c.dimension, dimension)):
        if wanted is not None:
            query = query.where(column == wanted)
    return [_queue(row) for row in fetched(store.engine, query)]


def add_queue(store: Store, settings: QueueSettings, values: Mapping[str, Any]) -> None:
    """Store a new queue.

    Args:
        store: The store.
        settings: Its settings, with who makes it.
        values: The other columns.
    """
    encoded = encode(msgspec.to_builtins(settings))
    about = {"queue": values["id"], **{name: values[name] for name in ("run", "monitor", "dimension")}}
    with explain_errors(store.engine), store.engine.begin() as connection:
        connection.execute(insert(_queues).values(settings=encoded, **values))
        add_audit(connection, settings.by, "label queue created", about, now=values["created"])


def answers_in(store: Store, queue: LabelQueue) -> Answers:
    """Count the answers of a queue that were asked for, without reading them."""
    person = case((and_(_labels.c.how != "adjudicated", _labels.c.by != NOBODY), _labels.c.by))
    query = select(func.count(_labels.c.place.distinct()), func.count(person.distinct())).where(
        _labels.c.queue == queue.number,
        _labels.c.undone.is_(None),
        _labels.c.answer != "skip",
        *_asked_for(queue),
    )
    full = select(func.count()).where(_tasks.c.queue == queue.number, _tasks.c.missing == 0)
    with explain_errors(store.engine), store.engine.connect() as connection:
        items, people = connection.execute(query).one()
        complete = connection.execute(full).scalar_one()
    return Answers(items=items, people=people, complete=complete)


def stored_labels(
    store: Store, *, run: str | None = None, dimension: str | None = None, queue: int | None = None
) -> Iterator[StoredLabel]:
    """Yield the labels that were not taken back, oldest first, without those that were only skipped.

    Args:
        store: The store.
        run: Only of the run with this id.
        dimension: Only of this dimension.
        queue: Only of the queue with this number.
    """
    wanted = {"run": run, "dimension": dimension, "queue": queue}
    tests = (_labels.c[name] == value for name, value in wanted.items() if value is not None)
    with explain_errors(store.engine), store.engine.connect() as connection:
        connection.execution_options(yield_per=500)
        yield from _read_labels(connection, _labels.c.answer != "skip", *tests)


def labelled_dimensions(store: Store, runs: Iterable[str]) -> list[str]:
    """The dimensions of which attempts of some runs have a label, in the order of their first labels."""
    dimension = _labels.c.dimension
    query = select(dimension).where(
        _labels.c.run.in_(list(runs)), _labels.c.undone.is_(None), _labels.c.answer != "skip"
    )
    ordered = query.group_by(dimension).order_by(func.min(_labels.c.number))
    return list(fetched(store.engine, ordered).scalars())


def add_labels(store: Store, labels: Iterable[Mapping[str, Any]], *, actor: str) -> int:
    """Store labels of no queue, all of them or none; leaves out those whose key is stored already.

    Args:
        store: The store.
        labels: Their columns.
        actor: Who stores them, for the audit log.

    Returns:
        How many were new.
    """
    new = 0
    with writing(store.engine) as connection:
        for values in labels:
            same = select(_labels.c.number).where(_labels.c.key == values["key"])
            if connection.execute(same).first() is None:
                _add_label(connection, values, actor)
                new += 1
    return new


def _asked_for(queue: LabelQueue) -> tuple[Any, ...]:
    """Of answers that were asked for: all those of a queue whose labels are volunteered as a whole."""
    return () if queue.settings.volunteered else (_labels.c.how != "volunteered",)


def _add_label(connection: Connection, values: Mapping[str, Any], actor: str | None) -> StoredLabel:
    """Store a label, and who gave it, or stored it for somebody else, in the audit log."""
    number = connection.execute(insert(_labels).values(values).returning(_labels.c.number)).scalar_one()
    about = {name: values[name] for name in ("run", "case", "repeat", "dimension", "answer", "value", "how")}
    if actor is not None:
        about["by"] = values["by"]
    add_audit(connection, actor or values["by"], "label given", {"label": number, **about}, now=values["at"])
    return StoredLabel(number=number, undone=None, **values)


def _read_labels(connection: Connection, *tests: Any) -> Iterator[StoredLabel]:
    query = select(_labels).where(_labels.c.undone.is_(None), *tests).order_by(_labels.c.number)
    return map(_label, connection.execute(query))


def _label(row: Any) -> StoredLabel:
    return StoredLabel(**row._mapping)  # noqa: SLF001 - SQLAlchemy's public name for it


def _queue(row: Any) -> LabelQueue:
    fields = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name for it
    return LabelQueue(**fields | {"settings": msgspec.json.decode(fields["settings"], type=QueueSettings)})
