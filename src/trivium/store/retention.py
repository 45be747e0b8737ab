"""Deletes old production data in small transactions, so that other writers hardly wait."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, delete, exists, func, select

from trivium.store import schema
from trivium.store.connection import explain_errors, fetched, writing
from trivium.store.live_counts import keep_spent, sum_old_counts
from trivium.store.store import Store
from trivium.suites.monitor_settings import RetentionSettings

DAY = 86_400.0

TRACES_AT_ONCE = 200
"""Number of traces or samples deleted in one transaction, while other writers wait."""

PAUSE_SECONDS = 0.01
"""Pause between two transactions, in which others can write."""

DAYS_OF_COUNTS = 400.0
"""Days to keep the audit log and hourly counts (older counts are summed): a year and one month more."""

_PAGES_AT_ONCE = 64
"""Number of 16 KiB pages that SQLite returns to the disk in one transaction."""


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """How much a call of :meth:`Retention.prune` deleted.

    Attributes:
        samples: Number of samples, with their scores.
        traces: Number of traces, with their spans.
        runs: Number of daily runs without remaining samples, with their attempts and evaluations.
        bytes: Size of the deleted traces.
        file_bytes: Bytes by which an SQLite file shrank; 0 for PostgreSQL, which reuses its free space.
    """

    samples: int = 0
    traces: int = 0
    runs: int = 0
    bytes: int = 0
    file_bytes: int = 0


class Retention:
    """Deletes production data that exceeds the age or size limits of the monitors.

    A trace that waits to be scored, or is incomplete, is never deleted. A trace that several monitors watch
    is kept for the longest of their periods.

    Args:
        store: The store.
        settings: Settings by monitor.
        pause: Called between two transactions with the seconds to wait.
    """

    def __init__(
        self,
        store: Store,
        settings: Mapping[str, RetentionSettings],
        *,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._store = store
        self._settings = dict(settings)
        self._pause = pause

    def prune(self, now: float) -> Pruned:
        """Delete the data that has expired at a Unix time.

        Raises:
            StoreError: If the store fails; transactions before that stay committed.
        """
        limits = self._settings.values()
        samples = sum(
            self._prune_samples(name, now - limit.days * DAY) for name, limit in self._settings.items()
        )
        runs = sum(
            self._prune_runs(name, now - (limit.days + 1) * DAY) for name, limit in self._settings.items()
        )
        traces = size = 0
        if limits:
            unsampled_days = max(limit.unsampled_days for limit in limits)
            traces, size = self._prune_traces(now - unsampled_days * DAY)
            max_bytes = max(limit.max_gb for limit in limits) * 1e9
            oldest, oldest_size = self._prune_to_size(max_bytes)
            traces, size = traces + oldest, size + oldest_size
        self._prune_rest(now)
        return Pruned(samples=samples, traces=traces, runs=runs, bytes=size, file_bytes=self._shrink())

    def _in_steps(self, step: Callable[[Connection], tuple[int, int]]) -> tuple[int, int]:
        """Repeat a step, each time in its own transaction, until it deletes nothing; return the sums."""
        number = size = 0
        while True:
            with writing(self._store.engine) as connection:  # a late span waits until its trace is deleted
                deleted, freed = step(connection)
            if not deleted:
                return number, size
            number, size = number + deleted, size + freed
            self._pause(PAUSE_SECONDS)

    def _prune_samples(self, monitor: str, before: float) -> int:
        samples, scores = schema.live_samples, schema.live_scores
        old = (
            select(samples.c.number)
            .where(samples.c.monitor == monitor, samples.c.time < before)
            .limit(TRACES_AT_ONCE)
        )
        deletion = delete(samples).where(samples.c.number.in_(old)).returning(samples.c.trace)
        same = (samples.c[name] == scores.c[name] for name in ("monitor", "trace", "version"))
        scored = exists().where(*same).correlate(scores)

        def step(connection: Connection) -> tuple[int, int]:
            traces = connection.execute(deletion).scalars().all()
            of_traces = (scores.c.monitor == monitor, scores.c.trace.in_(set(traces)))
            connection.execute(delete(scores).where(*of_traces, ~scored))
            return len(traces), 0

        return self._in_steps(step)[0]

    def _prune_runs(self, monitor: str, before: float) -> int:
        """Delete the daily runs that have no samples left."""
        runs, samples = schema.runs, schema.live_samples
        old = (
            select(runs.c.number, runs.c.suite)
            .where(runs.c.kind == "live", runs.c.suite_name == monitor, runs.c.created < before)
            .where(~exists().where(samples.c.run == runs.c.number))
            .limit(1)
        )

        def step(connection: Connection) -> tuple[int, int]:
            run = connection.execute(old).first()
            if run is None:
                return 0, 0
            number, suite = run
            connection.execute(delete(schema.cases).where(schema.cases.c.suite == suite))
            of_run = (schema.attempts, schema.evaluations, schema.case_scores, schema.advances)
            for table in of_run:
                connection.execute(delete(table).where(table.c.run == number))
            connection.execute(delete(runs).where(runs.c.number == number))
            spending = schema.spending
            spent = delete(spending).where(spending.c.run == number).returning(spending.c.cost_usd)
            keep_spent(connection, monitor, sum(connection.execute(spent).scalars()))
            return 1, 0

        return self._in_steps(step)[0]

    def _prune_traces(self, before: float) -> tuple[int, int]:
        """Delete complete traces without a sample whose last span came before a time."""
        traces = schema.live_traces
        old = self._deletable(sampled=False).where(traces.c.last < before).limit(TRACES_AT_ONCE)
        return self._in_steps(
            lambda connection: self._delete_traces(connection, connection.execute(old).all())
        )

    def _prune_to_size(self, limit: float) -> tuple[int, int]:
        """Delete the oldest complete traces until the rest fits a limit in bytes."""
        traces = schema.live_traces
        excess = float(fetched(self._store.engine, select(func.sum(traces.c.size))).scalar() or 0) - limit
        oldest = self._deletable(sampled=True).order_by(traces.c.last).limit(TRACES_AT_ONCE)

        def step(connection: Connection) -> tuple[int, int]:
            nonlocal excess
            if excess <= 0:
                return 0, 0
            chosen, size = [], 0
            for row in connection.execute(oldest):
                if size >= excess:
                    break
                chosen.append(row)
                size += row.size
            deleted = self._delete_traces(connection, chosen)
            excess -= deleted[1]
            return deleted

        return self._in_steps(step)

    @staticmethod
    def _deletable(*, sampled: bool) -> Select[Any]:
        traces, jobs, samples = schema.live_traces, schema.live_jobs, schema.live_samples
        waits = exists().where(jobs.c.trace == traces.c.trace, jobs.c.state.in_(("waiting", "scoring")))
        query = select(traces.c.number, traces.c.trace, traces.c.size).where(
            traces.c.state == "complete", ~waits
        )
        query = query.with_for_update(of=traces, skip_locked=True)  # a trace that a late span reopens is kept
        return query if sampled else query.where(~exists().where(samples.c.trace == traces.c.trace))

    @staticmethod
    def _delete_traces(connection: Connection, rows: Sequence[Any]) -> tuple[int, int]:
        names = [row.trace for row in rows]
        if names:
            numbers = [row.number for row in rows]
            connection.execute(delete(schema.live_spans).where(schema.live_spans.c.number.in_(numbers)))
            connection.execute(delete(schema.live_jobs).where(schema.live_jobs.c.trace.in_(names)))
            connection.execute(delete(schema.live_traces).where(schema.live_traces.c.number.in_(numbers)))
        return len(names), sum(row.size for row in rows)

    def _prune_rest(self, now: float) -> None:
        """Sum old hourly counts; delete resolved alerts with their deliveries, and the audit log."""
        days = max((each.days for each in self._settings.values()), default=DAYS_OF_COUNTS)
        alerts, deliveries = schema.live_alerts, schema.live_deliveries
        before = now - DAYS_OF_COUNTS * DAY
        resolved = select(alerts.c.number).where(alerts.c.resolved < now - max(days, DAYS_OF_COUNTS) * DAY)
        with explain_errors(self._store.engine), self._store.engine.begin() as connection:
            sum_old_counts(connection, before)
            connection.execute(delete(schema.audit).where(schema.audit.c.time < before))
            connection.execute(delete(deliveries).where(deliveries.c.alert.in_(resolved)))
            connection.execute(delete(alerts).where(alerts.c.number.in_(resolved)))

    def _shrink(self) -> int:
        """Return the free pages of an SQLite file to the disk, a few at a time; return their bytes."""
        engine = self._store.engine
        if engine.dialect.name != "sqlite":
            return 0
        freed = 0
        with explain_errors(engine), engine.connect() as connection:

            def pragma(name: str) -> int:
                return int(connection.exec_driver_sql(f"PRAGMA {name}").scalar() or 0)

            driver: Any = connection.connection.driver_connection
            size = pragma("page_size")
            if pragma("auto_vacuum") != 2:  # a store made by an older version
                return 0
            while free := pragma("freelist_count"):
                # Each page is a step of the statement; Python's execute() would take only the first.
                driver.executescript(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})")
                freed += (free - pragma("freelist_count")) * size
                self._pause(PAUSE_SECONDS)
        return freed
