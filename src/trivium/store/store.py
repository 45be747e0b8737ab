"""Stores and reads runs, cases, attempts and evaluations."""

import secrets
import time
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
from sqlalchemy import Integer, Row, and_, cast, delete, func, insert, or_, select, text, update

from trivium.agents.attempt import Attempt
from trivium.errors import StoreError, suggest
from trivium.metrics.evaluation import Evaluation
from trivium.metrics.metric import Score
from trivium.processes import has_certainly_ended, this_process
from trivium.safe_text import sanitise
from trivium.store import schema as tables
from trivium.store.connection import (
    DEFAULT_URL,
    LEASE_SECONDS,
    check_file_exists,
    dispose,
    explain_errors,
    fetched,
    insert_many,
    open_engine,
)
from trivium.store.partitions.file import Partition
from trivium.store.partitions.reader import Bodies, partitions_in
from trivium.store.records import (
    NAME_CHARS,
    AttemptOutline,
    AttemptRow,
    AttemptUsage,
    CaseOutline,
    EvaluationOutline,
    Provenance,
    Rows,
    RunKind,
    RunNames,
    RunRecord,
    RunState,
    StoredAttempt,
    StoredEvaluation,
    decode,
    decoded_attempt,
    encode,
    figures_of,
)
from trivium.suites.case import Case
from trivium.suites.selection import group_of
from trivium.suites.settings import Settings
from trivium.values import batched

T = TypeVar("T")

_ROWS_AT_ONCE = 500

NEWEST = frozenset({"latest", "newest", "last"})
"""Words that other tools take for the newest run."""

_case = msgspec.json.Decoder(Case)
_case_outline = msgspec.json.Decoder(CaseOutline)
_attempt = msgspec.json.Decoder(Attempt)
_attempt_outline = msgspec.json.Decoder(AttemptOutline)
_attempt_usage = msgspec.json.Decoder(AttemptUsage)
_evaluation = msgspec.json.Decoder(Evaluation)
_outline = msgspec.json.Decoder(EvaluationOutline)
_scores = msgspec.json.Decoder(dict[str, Score])
_object = msgspec.json.Decoder(dict[str, Any])
_settings = msgspec.json.Decoder(Settings, strict=False)
_provenance = msgspec.json.Decoder(Provenance)
_UNKNOWN = Provenance()


class Store:
    """Runs, cases, attempts and evaluations in a database.

    One process at a time writes a run (see :meth:`acquire`); any number may read.

    Args:
        url: ``sqlite:///FILE``, ``postgresql://…`` or a bare path.
        create: Create the store if it does not exist.
        read_only: Create, change and migrate nothing; the folder may be read-only.

    Raises:
        StoreError: If it cannot be opened.
    """

    def __init__(
        self, url: str | Path = DEFAULT_URL, *, create: bool = True, read_only: bool = False
    ) -> None:
        self.url = str(url)
        self.read_only = read_only
        self.engine = open_engine(self.url, create=create, read_only=read_only)
        self.name = self.engine.url.render_as_string()
        self._bodies = Bodies(partial(partitions_in, self.engine), store=self.name)
        # Close the connections and files of a store that is never closed, of which Python warns.
        for close in (partial(dispose, self.engine), self._bodies.close):
            weakref.finalize(self, close).atexit = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the database."""
        self._bodies.close()
        dispose(self.engine)

    def check(self) -> None:
        """Raise StoreError if the store cannot be reached."""
        fetched(self.engine, text("SELECT 1 FROM alembic_version"))

    # Runs

    def new_run_id(self) -> str:
        """Return an unused run id: the UTC time to the second and four hexadecimal digits."""
        while True:
            new_id = time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + secrets.token_hex(2)
            existing = select(tables.runs.c.id).where(tables.runs.c.id == new_id)
            if fetched(self.engine, existing).first() is None:
                return new_id

    def new_run(
        self,
        *,
        id: str,  # noqa: A002 - the field's name in RunRecord
        suite_name: str,
        suite: str,
        kind: RunKind,
        settings: Settings,
        provenance: Provenance = _UNKNOWN,
        due: int | None = None,
        attempts_from: int | None = None,
    ) -> RunRecord:
        """Store a new run in state ``running``, owned by this process."""
        now = time.time()
        values = {
            "id": id,
            "suite_name": sanitise(suite_name)[0],
            "suite": suite,
            "kind": kind,
            "state": "running",
            "created": now,
            "touched": now,
            "owner": this_process(),
            "due": due,
            "attempts_from": attempts_from,
            "settings": encode(settings),
            **_origin(provenance),
        }
        with explain_errors(self.engine), self.engine.begin() as connection:
            connection.execute(insert(tables.runs).values(values))
        return self.run(id)

    def run(self, id: str | None = None, *, kind: RunKind | None = None) -> RunRecord:  # noqa: A002
        """Return the run with this id or id prefix, or the newest run.

        Args:
            id: The id, or an unambiguous prefix of it; None for the newest run. A monitor's runs, one a day,
                and runs that confirm another one count as the newest only if there are no others.
            kind: With ``id=None``, consider only runs of this kind.

        Raises:
            StoreError: If no run matches, or the prefix matches several.
        """
        # an id that is not valid text cannot be queried
        if id is None:
            matches = self._runs(kind=kind, tests=kind is None, limit=1) or self._runs(kind=kind, limit=1)
        else:
            name = sanitise(id)[0]
            # By the whole id first: to compare its beginning, every run is read.
            matches = self._runs(ids=[name], limit=1) or self._runs(prefix=name, limit=3)
        exact = [record for record in matches if record.id == id]
        if len(matches) == 1 or exact:
            return (exact or matches)[0]
        if id is None:
            raise StoreError(f"{self.name}: holds no run yet")
        if matches:
            ids = ", ".join(record.id for record in matches)
            raise StoreError(f'{self.name}: several runs begin with "{id}": {ids}')
        newest_first = [record.id for record in self._runs(limit=200)]
        hint = suggest(id, newest_first)
        if id.lower() in NEWEST and newest_first:
            hint = f" The newest is {newest_first[0]}."
        raise StoreError(f'{self.name}: no run is called "{id}".{hint} (`trivium list` names them)')

    def runs(self, *, limit: int | None = None, ids: Sequence[str] | None = None) -> list[RunRecord]:
        """Return the runs, newest first; at most so many, and only those with one of these ids."""
        return self._runs(limit=limit, ids=ids)

    def human_runs(self, suite: str) -> list[RunRecord]:
        """Return the finished runs of people's outputs on the suite with this digest, newest first."""
        return self._runs(kind="human", suite=suite, state="done")

    def live_runs(self, monitor: str) -> list[RunRecord]:
        """Return a monitor's runs, one a day, newest first."""
        return self._runs(kind="live", suite_name=monitor)

    def confirm_runs(self, suite_name: str) -> list[RunRecord]:
        """Return the runs that confirm other runs of the suite with this name, newest first."""
        return self._runs(suite_name=suite_name, kind="confirm")

    def finished_runs(self, suite_name: str) -> list[RunRecord]:
        """Return the finished runs of the suite with this name, newest first."""
        return self._runs(suite_name=suite_name, state="done")

    def runs_of_same_attempts(self, run: RunRecord) -> list[str]:
        """Return the ids of the runs that hold or score the same attempts, oldest first."""
        runs, owner = tables.runs.c, _attempts_run(run)
        query = select(runs.id).where(or_(runs.number == owner, runs.attempts_from == owner))
        return list(fetched(self.engine, query.order_by(runs.number)).scalars())

    def _runs(
        self,
        *,
        suite_name: str | None = None,
        prefix: str | None = None,
        kind: str | None = None,
        suite: str | None = None,
        state: str | None = None,
        tests: bool = False,
        ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        query = select(tables.runs).order_by(tables.runs.c.number.desc()).limit(limit)
        if ids is not None:
            query = query.where(tables.runs.c.id.in_(ids))
        if tests:
            query = query.where(tables.runs.c.kind.not_in(("live", "confirm")))
        if prefix is not None:
            query = query.where(tables.runs.c.id.startswith(prefix, autoescape=True))
        wanted_values = {"kind": kind, "suite": suite, "state": state, "suite_name": suite_name}
        for column, wanted in wanted_values.items():
            if wanted is not None:
                query = query.where(tables.runs.c[column] == wanted)
        return [self._run_record(row) for row in fetched(self.engine, query)]

    def acquire(self, run: RunRecord, *, provenance: Provenance | None = None) -> None:
        """Make this process the owner of a run.

        Args:
            run: The run.
            provenance: What it depends on from now on; None leaves it as it is.

        Raises:
            StoreError: If another process wrote to the run within ``LEASE_SECONDS`` and may be alive.
        """
        runs = tables.runs
        now = time.time()
        origin = _origin(run.provenance if provenance is None else provenance)
        with explain_errors(self.engine), self.engine.begin() as connection:
            owner, touched, state = connection.execute(
                select(runs.c.owner, runs.c.touched, runs.c.state).where(runs.c.number == run.number)
            ).one()
            has_other_owner = state == "running" and owner not in {None, this_process()}
            # A time in the future says only that a clock was set back, and would be waited for as long.
            recently = abs(now - touched) < LEASE_SECONDS
            if has_other_owner and not has_certainly_ended(owner) and recently:
                raise StoreError(
                    f"run {run.id} is being written by another process ({owner}). Stop that one first, or "
                    f"wait {LEASE_SECONDS} s if it is gone."
                )
            updated = connection.execute(
                update(runs)
                .where(runs.c.number == run.number, runs.c.touched == touched)
                .values(owner=this_process(), touched=now, state="running", **origin)
            )
            if updated.rowcount != 1:
                raise StoreError(f"another process has just started writing run {run.id}")

    def set_provenance(self, run: RunRecord, provenance: Provenance) -> None:
        """Replace what a run depends on."""
        where = tables.runs.c.number == run.number
        with explain_errors(self.engine), self.engine.begin() as connection:
            connection.execute(update(tables.runs).where(where).values(_origin(provenance)))

    def finish(
        self, run: RunRecord, state: RunState, *, summary: dict[str, Any] | None, due: int | None = None
    ) -> None:
        """Store the final state and summary of a run and give up its ownership."""
        now = time.time()
        values = {
            "state": state,
            "touched": now,
            "finished": now if state == "done" else None,
            "owner": None,
            "summary": None if summary is None else encode(summary),
            **figures_of(summary or {}),
        }
        if due is not None:
            values["due"] = due
        with explain_errors(self.engine), self.engine.begin() as connection:
            connection.execute(update(tables.runs).where(tables.runs.c.number == run.number).values(values))
        check_file_exists(self.engine)

    # Cases

    def save_cases(self, suite: str, cases: Iterable[Case]) -> None:
        """Store the cases of a suite, unless the cases of this digest are stored already."""
        with explain_errors(self.engine), self.engine.begin() as connection:
            stored = select(func.count()).where(tables.cases.c.suite == suite)
            if connection.execute(stored).scalar():
                return
            tags: set[str] = set()
            for chunk in batched(enumerate(cases), _ROWS_AT_ONCE):
                tags.update(sanitise(tag)[0][:NAME_CHARS] for _, case in chunk for tag in case.tags)
                insert_many(
                    connection,
                    tables.cases,
                    [
                        {"suite": suite, "position": position, "id": case.id, "body": encode(case)}
                        for position, case in chunk
                    ],
                    unless_there=True,  # a run of another process may begin with the same cases
                )
            of_suite = [{"tag": tag, "suite": suite} for tag in sorted(tags)]
            insert_many(connection, tables.suite_tags, of_suite, unless_there=True)

    def groups(self, suite: str, key: str | None) -> Iterator[str]:
        """Yield the cluster of each case, in suite order.

        Args:
            suite: Digest of the suite.
            key: ``settings.group``.
        """
        if key not in {None, "group"}:
            yield from (group_of(case, key) or case.id for case in self.cases(suite))
            return
        table = tables.cases
        query = select(table.c.body).where(table.c.suite == suite).order_by(table.c.position)
        for (body,) in self._stream(query):
            case = self._read(_case_outline, body)
            yield case.group or case.id

    def cases(self, suite: str) -> Iterator[Case]:
        """Yield the cases of a suite, in suite order."""
        table = tables.cases
        query = select(table.c.body).where(table.c.suite == suite).order_by(table.c.position)
        for (body,) in self._stream(query):
            yield self._read(_case, body)

    # Attempts and evaluations

    def save(
        self,
        run: RunRecord,
        *,
        attempts: Sequence[StoredAttempt] = (),
        evaluations: Sequence[StoredEvaluation] = (),
        own_cases: bool = False,
    ) -> None:
        """Write attempts and evaluations in one transaction.

        Args:
            run: The run, owned by this process.
            attempts: New attempts.
            evaluations: New evaluations.
            own_cases: Also store each attempt's case, because it differs from the suite's.

        Raises:
            StoreError: If one of them is stored already, or writing fails; then none is written.
        """
        rows = Rows(run)
        for attempt in attempts:
            rows.add_attempt(attempt, own_case=own_cases)
        for evaluation in evaluations:
            rows.add_evaluation(evaluation)
        self.write(rows)

    def write(self, rows: Rows, *, partition: Partition | None = None) -> None:
        """Write rows in one transaction (see :meth:`save`), and the partition that they point at."""
        with explain_errors(self.engine), self.engine.begin() as connection:
            if partition is not None:
                self._bodies.close()
                connection.execute(insert(tables.partitions).values(partition.row(rows.run.number)))
            insert_many(connection, tables.attempts, rows.attempts)
            insert_many(connection, tables.evaluations, rows.evaluations)
            connection.execute(
                update(tables.runs).where(tables.runs.c.number == rows.run.number).values(touched=time.time())
            )
        check_file_exists(self.engine)

    def attempt_keys(self, run: RunRecord, *, scored_only: bool = False) -> Iterator[tuple[int, int]]:
        """Yield (position, repeat) of every attempt of a run.

        Args:
            run: The run.
            scored_only: Only of attempts that have an evaluation.
        """
        table, number = (
            (tables.evaluations, run.number) if scored_only else (tables.attempts, _attempts_run(run))
        )
        query = select(table.c.position, table.c.repeat).where(table.c.run == number)
        yield from self._stream(query)

    def attempt(self, run: str, position: int, repeat: int) -> tuple[Case, Attempt] | None:
        """Return an attempt of the run with this id, and its case; None if there is none (any more)."""
        runs, cases, attempts = tables.runs, tables.cases, tables.attempts
        owner = func.coalesce(runs.c.attempts_from, runs.c.number)
        query = (
            select(owner, func.coalesce(attempts.c.case_body, cases.c.body), attempts.c.body)
            .select_from(runs)
            .join(attempts, and_(attempts.c.run == owner, attempts.c.position == position))
            .join(cases, and_(cases.c.suite == runs.c.suite, cases.c.position == position))
            .where(runs.c.id == run, attempts.c.repeat == repeat)
        )
        row = fetched(self.engine, query).first()
        if row is None:
            return None
        number, case, stored = row
        ((_, body),) = self._bodies.read(number, "attempt", [(None, stored)])
        return self._read(_case, case), self._read(_attempt, body)

    def attempts(self, run: RunRecord, *, unscored_only: bool = False) -> Iterator[StoredAttempt]:
        """Yield a run's attempts in suite order, all or those that have no evaluation."""
        for row in self.attempt_rows(run, unscored_only=unscored_only):
            yield decoded_attempt(row, store=self.name)

    def attempt_rows(self, run: RunRecord, *, unscored_only: bool = False) -> Iterator[AttemptRow]:
        """Yield a run's attempts undecoded, in suite order; see :meth:`attempts`."""
        table, scored = tables.attempts, tables.evaluations
        query = select(table.c.position, table.c.case_body, table.c.body).where(
            table.c.run == _attempts_run(run)
        )
        if unscored_only:
            same_attempt = and_(
                scored.c.run == run.number,
                scored.c.position == table.c.position,
                scored.c.repeat == table.c.repeat,
            )
            query = query.outerjoin(scored, same_attempt).where(scored.c.run.is_(None))
        found = self._stream(query.order_by(table.c.position, table.c.repeat))
        rows = (((position, case_body), body) for position, case_body, body in found)
        for (position, case_body), body in self._bodies.read(_attempts_run(run), "attempt", rows):
            yield position, case_body, body

    def attempt_outlines(self, run: RunRecord) -> Iterator[AttemptOutline]:
        """Yield a run's attempts without inputs and outputs, in suite order."""
        for body in self._attempt_bodies(run):
            yield self._read(_attempt_outline, body)

    def attempt_usages(self, run: RunRecord) -> Iterator[AttemptUsage]:
        """Yield seconds, usage and error of a run's attempts, in suite order."""
        for body in self._attempt_bodies(run):
            yield self._read(_attempt_usage, body)

    def _attempt_bodies(self, run: RunRecord) -> Iterator[str]:
        table, number = tables.attempts, _attempts_run(run)
        query = select(table.c.position, table.c.body).where(table.c.run == number)
        found = self._stream(query.order_by(table.c.position, table.c.repeat))
        yield from (body for _, body in self._bodies.read(number, "attempt", found))

    def evaluations(self, run: RunRecord) -> Iterator[StoredEvaluation]:
        """Yield a run's evaluations, in suite order."""
        for position, body in self._evaluation_bodies(run):
            yield StoredEvaluation(position=position, evaluation=self._read(_evaluation, body))

    def outlines(self, run: RunRecord) -> Iterator[tuple[int, EvaluationOutline]]:
        """Yield (position, evaluation without details), in suite order."""
        for position, body in self._evaluation_bodies(run):
            yield position, self._read(_outline, body)

    def verdicts(self, run: RunRecord) -> Iterator[tuple[str, int, int]]:
        """Yield the id of each case, its number of attempts with a verdict, and how many of them passed."""
        scored, case = tables.evaluations, tables.cases
        query = (
            select(case.c.id, func.count(), func.sum(cast(scored.c.passed, Integer)))
            .select_from(scored)
            .join(case, and_(case.c.suite == run.suite, case.c.position == scored.c.position))
            .where(scored.c.run == run.number, scored.c.passed.is_not(None))
            .group_by(scored.c.position, case.c.id)
        )
        yield from (tuple(row) for row in self._stream(query))

    def _evaluation_bodies(self, run: RunRecord) -> Iterator[tuple[int, str]]:
        table = tables.evaluations
        query = select(table.c.position, table.c.body).where(table.c.run == run.number)
        found = self._stream(query.order_by(table.c.position, table.c.repeat))
        return self._bodies.read(run.number, "evaluation", found)

    def views(
        self, run: RunRecord, *, worst_first: bool = False, positions: Collection[int] | None = None
    ) -> Iterator[tuple[Case, Attempt, Evaluation]]:
        """Yield each case with its attempt and evaluation.

        Args:
            run: The run.
            worst_first: Those that failed, the undecided ones, those that passed, each from the lowest
                composite up, those without one last; otherwise in suite order.
            positions: Only the cases at these positions of the suite, at most a few hundred.
        """
        case, attempt, scored = tables.cases, tables.attempts, tables.evaluations
        query = (
            select(func.coalesce(attempt.c.case_body, case.c.body), attempt.c.body, scored.c.body)
            .select_from(scored)
            .join(
                attempt,
                and_(
                    attempt.c.run == _attempts_run(run),
                    attempt.c.position == scored.c.position,
                    attempt.c.repeat == scored.c.repeat,
                ),
            )
            .join(case, and_(case.c.suite == run.suite, case.c.position == scored.c.position))
            .where(scored.c.run == run.number)
        )
        if positions is not None:
            query = query.where(scored.c.position.in_(positions))
        order: list[Any] = [scored.c.position, scored.c.repeat]
        if worst_first:
            verdict = [scored.c.passed.is_not(False), scored.c.passed.is_(True)]
            order = [*verdict, scored.c.composite.is_(None), scored.c.composite, *order]
        found = self._stream(query.order_by(*order))
        rows = (((case_body, body), attempt_body) for case_body, attempt_body, body in found)
        attempts = self._bodies.read(_attempts_run(run), "attempt", rows)
        pairs = (((case_body, attempt_body), body) for (case_body, body), attempt_body in attempts)
        for (case_body, attempt_body), body in self._bodies.read(run.number, "evaluation", pairs):
            yield (
                self._read(_case, case_body),
                self._read(_attempt, attempt_body),
                self._read(_evaluation, body),
            )

    def partitions(self, run: int) -> list[Partition]:
        """Return the partitions of the run with this number, in order."""
        return partitions_in(self.engine, run)

    # Scores of cases

    def save_case_scores(self, run: RunRecord, scores: Iterable[tuple[int, dict[str, Score]]]) -> None:
        """Store the scores that belong to cases rather than attempts, replacing earlier ones."""
        table = tables.case_scores
        with explain_errors(self.engine), self.engine.begin() as connection:
            connection.execute(delete(table).where(table.c.run == run.number))
            for chunk in batched(scores, _ROWS_AT_ONCE):
                rows = [{"run": run.number, "position": at, "body": encode(body)} for at, body in chunk]
                insert_many(connection, table, rows)

    def case_scores(self, run: RunRecord) -> Iterator[tuple[int, dict[str, Score]]]:
        """Yield (position, scores by name) of every case that has scores of its own."""
        table = tables.case_scores
        query = select(table.c.position, table.c.body).where(table.c.run == run.number)
        for position, body in self._stream(query.order_by(table.c.position)):
            yield position, self._read(_scores, body)

    def _stream(self, query: Any) -> Iterator[Any]:
        """Yield the rows of a query, fetched in batches so that memory stays bounded."""
        with explain_errors(self.engine), self.engine.connect() as connection:
            yield from connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(query)

    def _read(self, decoder: "msgspec.json.Decoder[T]", body: str) -> T:
        return decode(decoder, body, store=self.name)

    def _run_record(self, row: Row[Any]) -> RunRecord:
        mapping = row._mapping  # noqa: SLF001 - SQLAlchemy's public name for it
        fields = {str(name): value for name, value in mapping.items()}
        for name in ("touched", "owner"):
            fields.pop(name)
        if fields["summary"] is not None:
            fields["summary"] = self._read(_object, fields["summary"])
        fields["provenance"] = self._read(_provenance, fields["provenance"])
        fields["settings"] = self._read(_settings, fields["settings"])
        try:
            return msgspec.convert(fields, RunRecord)
        except msgspec.ValidationError as error:
            raise StoreError(f"{self.name}: is damaged: a run in it cannot be read ({error})") from error


def _origin(provenance: Provenance) -> dict[str, Any]:
    """What a run depends on, and what it is called by."""
    return {"provenance": encode(provenance)} | msgspec.structs.asdict(RunNames.of(provenance))


def _attempts_run(run: RunRecord) -> int:
    """Number of the run that the attempts were stored with."""
    return run.number if run.attempts_from is None else run.attempts_from
