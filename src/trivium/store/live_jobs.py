"""The queue of samples to score: it is bounded, leases each job to one scorer, and retries failed jobs."""

from collections.abc import Iterable, Sequence

import msgspec
from sqlalchemy import Connection, Select, Update, func, select, update

from trivium.safe_text import sanitise
from trivium.store import schema
from trivium.store.connection import explain_errors, fetched, writing
from trivium.store.live_counts import Counts, add_counts
from trivium.store.store import Store

MOST_TRIES = 5
"""Number of tries before a job counts as failed; a killed scorer uses one up."""

FIRST_WAIT_SECONDS = 10.0
"""Wait before the second try; each further one waits three times as long."""

LEASE_SECONDS = 600.0
"""Time after which a lease ends unless the scorer renews it."""

_DROPPED_AT_ONCE = 1000


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A sample in the scoring queue, with its state.

    Attributes:
        number: Its position in the queue.
        monitor: Name of the monitor.
        trace: Id of the trace.
        version: Version of the trace.
        probability: The probability with which it was sampled, in (0, 1].
        weight: Its weight in a betting sequence, in (0, 1].
        rule: The sampling rule; empty for the sample rate.
        state: waiting, scoring, done, dropped or failed.
        created: Unix time at which it was sampled.
        due: Unix time at which a scorer may take it, or at which its lease ends.
        tries: Number of tries so far.
        reason: Why it failed, waits for another try, or was dropped; None otherwise.
    """

    number: int
    monitor: str
    trace: str
    version: int
    probability: float
    weight: float
    rule: str
    state: str
    created: float
    due: float
    tries: int
    reason: str | None


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """The samples that wait to be scored, or are being scored.

    Attributes:
        waiting: Number of these samples.
        oldest: Unix time at which the oldest one was sampled; None if none waits.
    """

    waiting: int
    oldest: float | None


class LiveJobs:
    """The queue of one store. Several scorers, on several machines, may take jobs from it.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._engine = store.engine

    def lease(
        self,
        monitor: str,
        *,
        owner: str,
        now: float,
        limit: int,
        seconds: float = LEASE_SECONDS,
        trace: str | None = None,
    ) -> list[Job]:
        """Take the oldest jobs that are due, including those whose lease has ended.

        A job that has been tried ``MOST_TRIES`` times fails instead.

        Args:
            monitor: Name of the monitor.
            owner: Id of the scorer that takes the jobs.
            now: Unix time.
            limit: Maximum number of jobs.
            seconds: Length of the lease.
            trace: Only jobs of this trace.
        """
        table = schema.live_jobs
        query = (
            _jobs()
            .where(table.c.monitor == monitor, table.c.state.in_(("waiting", "scoring")), table.c.due <= now)
            .order_by(table.c.number)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        if trace is not None:
            query = query.where(table.c.trace == trace)
        with writing(self._engine) as connection:
            due = [_job(row) for row in connection.execute(query).mappings()]
            exhausted = [job for job in due if job.tries >= MOST_TRIES]
            taken = [job for job in due if job.tries < MOST_TRIES]
            if taken:
                connection.execute(
                    _these(taken).values(
                        state="scoring", owner=owner, due=now + seconds, tries=table.c.tries + 1
                    )
                )
            if exhausted:
                lost = func.coalesce(table.c.reason, "its scorers ended while they scored it")
                connection.execute(_these(exhausted).values(state="failed", owner=None, reason=lost))
                add_counts(connection, Counts({(monitor, "failed", "tries"): len(exhausted)}), now)
        return [msgspec.structs.replace(job, state="scoring", tries=job.tries + 1) for job in taken]

    def renew(self, jobs: Iterable[Job], *, owner: str, now: float, seconds: float = LEASE_SECONDS) -> None:
        """Renew the leases of jobs that are still being scored."""
        table = schema.live_jobs
        numbers = [job.number for job in jobs]
        with explain_errors(self._engine), self._engine.begin() as connection:
            connection.execute(
                update(table)
                .where(table.c.number.in_(numbers), table.c.owner == owner, table.c.state == "scoring")
                .values(due=now + seconds)
            )

    def give_back(self, jobs: Sequence[Job], *, now: float) -> None:
        """Return unscored jobs to the queue, without counting the try."""
        if jobs:
            with explain_errors(self._engine), self._engine.begin() as connection:
                for job in jobs:
                    values = {"state": "waiting", "owner": None, "due": now, "tries": job.tries - 1}
                    connection.execute(_held(job).values(values))

    def retry(self, job: Job, *, now: float, reason: str) -> None:
        """Queue a job for another try, or mark it as failed after ``MOST_TRIES`` tries."""
        reason = sanitise(reason)[0]  # it may quote what was recorded
        with explain_errors(self._engine), self._engine.begin() as connection:
            if job.tries < MOST_TRIES:
                wait = FIRST_WAIT_SECONDS * 3 ** (job.tries - 1)
                values = {"state": "waiting", "owner": None, "due": now + wait, "reason": reason}
                connection.execute(_held(job).values(values))
            else:
                failed = connection.execute(_held(job).values(state="failed", owner=None, reason=reason))
                add_counts(connection, Counts({(job.monitor, "failed", "error"): failed.rowcount}), now)

    def supersede(self, job: Job, *, now: float) -> None:
        """Drop a job whose trace has a newer version; if sampled, that version has another job."""
        with explain_errors(self._engine), self._engine.begin() as connection:
            reason = "spans came later: the newer version is scored"
            dropped = connection.execute(_held(job).values(state="dropped", owner=None, reason=reason))
            add_counts(connection, Counts({(job.monitor, "dropped", "superseded"): dropped.rowcount}), now)

    def drop_oldest(self, monitor: str, *, backlog: int, now: float) -> int:
        """Drop the oldest jobs if more wait than the backlog allows, and count them.

        Args:
            monitor: Name of the monitor.
            backlog: Maximum number of waiting jobs.
            now: Unix time.

        Returns:
            Number of dropped jobs.
        """
        table = schema.live_jobs
        waiting = (table.c.monitor == monitor, table.c.state == "waiting")
        dropped = 0
        excess = fetched(self._engine, select(func.count()).where(*waiting)).scalar_one() - backlog
        while excess > 0:
            limit = min(excess, _DROPPED_AT_ONCE)
            oldest = select(table.c.number).where(*waiting).order_by(table.c.number).limit(limit)
            reason = f"more than {backlog:,} samples waited to be scored; the oldest are dropped"
            with writing(self._engine) as connection:
                # Read first: in the update PostgreSQL may ask anew for each row, and drop all.
                these = connection.execute(oldest.with_for_update(skip_locked=True)).scalars().all()
                dropping = update(table).where(table.c.number.in_(these))
                connection.execute(dropping.values(state="dropped", reason=reason))
                add_counts(connection, Counts({(monitor, "dropped", "backlog"): len(these)}), now)
            dropped += len(these)
            excess -= limit
        return dropped

    def backlog(self, monitor: str) -> Backlog:
        """Return the number of samples of a monitor that are not scored yet, and the oldest."""
        table = schema.live_jobs
        query = select(func.count(), func.min(table.c.created)).where(
            table.c.monitor == monitor, table.c.state.in_(("waiting", "scoring"))
        )
        number, oldest = fetched(self._engine, query).one()
        return Backlog(waiting=number, oldest=oldest)

    def of_trace(self, trace: str) -> list[Job]:
        """Return the jobs of a trace, of every monitor and version, oldest first."""
        query = _jobs().where(schema.live_jobs.c.trace == trace).order_by(schema.live_jobs.c.number)
        return [_job(row) for row in fetched(self._engine, query).mappings()]


def mark_done(connection: Connection, jobs: Sequence[Job]) -> None:
    """Mark jobs as done, in the transaction that stores their scores."""
    if jobs:
        connection.execute(_these(jobs).values(state="done", owner=None, reason=None))


def _jobs() -> Select[tuple[object, ...]]:
    return select(*(schema.live_jobs.c[name] for name in Job.__struct_fields__))


def _job(row: object) -> Job:
    return Job(**dict(row))  # type: ignore[call-overload]


def _these(jobs: Iterable[Job]) -> Update:
    return update(schema.live_jobs).where(schema.live_jobs.c.number.in_([job.number for job in jobs]))


def _held(job: Job) -> Update:
    """Return an update of a job that has no effect if another scorer took it since: a lease adds a try."""
    table = schema.live_jobs
    return update(table).where(
        table.c.number == job.number, table.c.state == "scoring", table.c.tries == job.tries
    )
