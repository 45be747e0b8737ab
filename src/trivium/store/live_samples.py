"""Scored samples of production traffic: each is stored once, with its attempt, evaluation and scores."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, func, select

from trivium.agents.attempt import Attempt
from trivium.agents.response import masked
from trivium.metrics.evaluation import Evaluation
from trivium.safe_text import sanitise
from trivium.store import schema
from trivium.store.connection import explain_errors, fetched, insert_many
from trivium.store.live_counts import Counts, add_counts
from trivium.store.live_jobs import Job, mark_done
from trivium.store.records import Rows, RunRecord, StoredAttempt, StoredEvaluation, encode
from trivium.store.store import Store
from trivium.suites.case import Case

PREVIEW = 200
"""Characters of query and output that a sample shows."""


class Sample(msgspec.Struct, frozen=True):
    """A scored sample; its fields are in the order of the table's columns.

    Attributes:
        number: Rises with every sample of the store.
        monitor: Name of the monitor.
        trace: Id of the trace.
        version: Version of the trace: a span that came late made a new one.
        run: Number of the run that holds its attempt and evaluation.
        position: Its position in that run.
        time: Unix time at which the interaction began.
        scored: Unix time at which it was scored.
        probability: The probability with which it was sampled, in (0, 1].
        weight: Its weight in a betting sequence, in (0, 1].
        rule: The sampling rule; empty for the sample rate.
        score: Its composite, in [0, 1]; None without one.
        passed: Whether it passed; None if that cannot be said.
        confidence: Mean confidence of the judge, in [0, 1]; None without one.
        failed: Whether the interaction failed.
        seconds: How long the interaction took.
        query: First characters of the input.
        output: First characters of the output.
        session: Its session.
        facets: Its agents, tools, tags, models, version and service, and the tools of which a call failed.
        cost_usd: What it cost, in US dollars; None if that is unknown.
        scores: Values by metric, as far as they were asked for; metrics without a value are left out.
    """

    number: int
    monitor: str
    trace: str
    version: int
    run: int
    position: int
    time: float
    scored: float
    probability: float
    weight: float
    rule: str
    score: float | None
    passed: bool | None
    confidence: float | None
    failed: bool
    seconds: float | None
    query: str
    output: str
    session: str | None
    facets: Mapping[str, tuple[str, ...]]
    cost_usd: float | None = None
    scores: Mapping[str, float] = {}


class SamplePlace(msgspec.Struct, frozen=True):
    """Where the attempt and evaluation of a sample are.

    Attributes:
        run: Number of their run.
        position: Their position in it.
        weight: Weight of the sample in a betting sequence, in (0, 1].
        trace: Id of the trace.
    """

    run: int
    position: int
    weight: float
    trace: str


class SampleCase(msgspec.Struct, frozen=True):
    """A sample as a case of a run.

    Attributes:
        run: Id of the run.
        case: Id of the case.
        error: Why the interaction failed; None if it did not.
    """

    run: str
    case: str
    error: str | None


class JobScore(msgspec.Struct, frozen=True):
    """The outcome of a finished job.

    Attributes:
        score: Composite of its sample, in [0, 1]; None without one.
        passed: Whether it passed; None if that cannot be said.
        scored: Unix time at which it was scored.
        position: Its position in its run.
        run: Id of its run; None if it was deleted.
        cut: Number of spans that its trace lacks because it was too large; None if it was deleted.
    """

    score: float | None
    passed: bool | None
    scored: float
    position: int
    run: str | None
    cut: int | None


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """A sample that has just been scored.

    Attributes:
        job: Its job.
        case: The interaction as a case.
        attempt: The interaction as an attempt.
        evaluation: Its scores.
        time: Unix time at which the interaction began.
        failed: Whether the interaction failed.
        confidence: Mean confidence of the judge, in [0, 1]; None without one.
        session: Its session.
        facets: Its agents, tools, tags, models, version and service.
        fingerprints: Digest of the scorer of each metric.
        cost_usd: What the interaction cost, in US dollars; None if that is unknown.
        unjudged: Why a judge did not answer, for the counts; None if all answered, or none was asked.
    """

    job: Job
    case: Case
    attempt: Attempt
    evaluation: Evaluation
    time: float
    failed: bool
    confidence: float | None
    session: str | None
    facets: Mapping[str, Sequence[str]]
    fingerprints: Mapping[str, str]
    cost_usd: float | None = None
    unjudged: str | None = None


def case_of_trace(trace: str, version: int) -> str:
    """Id of the case of a trace: a late span gives it another one."""
    return trace if version == 1 else f"{trace}#{version}"


def save_scored(store: Store, run: RunRecord, scored: Sequence[Scored], now: float) -> int:
    """Store samples and mark their jobs done, in one transaction.

    A sample that is stored already, because another scorer was given its job after a lease had ended, is not
    stored again.

    Args:
        store: The store.
        run: The monitor's run of the day.
        scored: The samples.
        now: Unix time.

    Returns:
        Number of samples that were new.
    """
    with explain_errors(store.engine), store.engine.connect() as connection:
        _lock_run(connection, run)
        new = _new_samples(connection, scored)
        position = _next_position(connection, run)
        rows = Rows(run)
        cases, samples = [], []
        scores: list[dict[str, object]] = []
        for place, each in enumerate(new, position):
            id_ = case_of_trace(each.case.id, each.job.version)
            case = msgspec.structs.replace(each.case, id=id_)
            sampling = {"probability": each.job.probability, "rule": each.job.rule}
            metadata = {**each.attempt.metadata, "sampling": sampling}
            attempt = msgspec.structs.replace(each.attempt, case=id_, metadata=metadata)
            evaluated = msgspec.structs.replace(each.evaluation, case=id_)
            cases.append({"suite": run.suite, "position": place, "id": id_, "body": encode(case)})
            rows.add_attempt(StoredAttempt(position=place, attempt=attempt))
            rows.add_evaluation(StoredEvaluation(position=place, evaluation=evaluated))
            samples.append(_sample_row(each, run, place, now))
            scores += _score_rows(each)
        insert_many(connection, schema.cases, cases)
        insert_many(connection, schema.attempts, rows.attempts)
        insert_many(connection, schema.evaluations, rows.evaluations)
        insert_many(connection, schema.live_samples, samples)
        insert_many(connection, schema.live_scores, scores, unless_there=True)
        mark_done(connection, [each.job for each in scored])
        touched = schema.runs.update().where(schema.runs.c.number == run.number).values(touched=now)
        connection.execute(touched)
        counts = Counts()
        for each in new:
            counts[each.job.monitor, "scored", ""] += 1
            if each.unjudged is not None:
                counts[each.job.monitor, "unjudged", each.unjudged] += 1
        add_counts(connection, counts, now)
        connection.commit()
    return len(new)


def samples_of(
    store: Store,
    monitor: str,
    *,
    after: int = 0,
    figures: Sequence[str] = (),
    limit: int | None = None,
) -> list[Sample]:
    """The newest version of each scored trace, in the order in which they were scored.

    Args:
        store: The store.
        monitor: Name of the monitor.
        after: Number of a sample: only those scored after it.
        figures: Metrics whose values are wanted.
        limit: Only so many of the first ones.
    """
    number = schema.live_samples.c.number
    query = _newest_versions(monitor).where(number > after).order_by(number).limit(limit)
    return _read(store, monitor, query, figures)


def latest_samples(
    store: Store,
    monitor: str,
    number: int,
    *,
    before: int | None = None,
    since: float | None = None,
    until: float | None = None,
    figures: Sequence[str] = (),
) -> list[Sample]:
    """The newest version of the traces that were scored last, in the order in which they were scored.

    Args:
        store: The store.
        monitor: Name of the monitor.
        number: How many at most.
        before: Number of a sample: only those scored before it.
        since: Unix time: only interactions that began then or later.
        until: Unix time: only interactions that began before.
        figures: Metrics whose values are wanted.
    """
    table = schema.live_samples
    query = _newest_versions(monitor).order_by(table.c.number.desc()).limit(number)
    if before is not None:
        query = query.where(table.c.number < before)
    if since is not None:
        query = query.where(table.c.time >= since)
    if until is not None:
        query = query.where(table.c.time < until)
    return _read(store, monitor, query, figures)


class RecentSamples:
    """The samples of a monitor that were scored last; asked again, it reads only what is new since then.

    Retention deletes the samples of the oldest interactions: where the oldest that was kept is gone, all are
    read again.

    Args:
        store: The store.
        monitor: Name of the monitor.
    """

    def __init__(self, store: Store, monitor: str) -> None:
        self._store = store
        self._monitor = monitor
        self._last: tuple[tuple[int, float, tuple[str, ...]], list[Sample]] = (0, float("-inf"), ()), []

    def latest(self, number: int, *, since: float | None = None, figures: Sequence[str] = ()) -> list[Sample]:
        """What :func:`latest_samples` returns."""
        asked = number, float("-inf") if since is None else since, tuple(figures)
        (before, earliest, names), kept = self._last
        samples = None
        if kept and names == asked[2] and number <= before and earliest <= asked[1]:
            samples = self._with_new(kept, *asked)
        if samples is None:
            samples = latest_samples(self._store, self._monitor, number, since=since, figures=figures)
        self._last = asked, samples
        return samples

    def _with_new(
        self, kept: list[Sample], number: int, since: float, figures: Sequence[str]
    ) -> list[Sample] | None:
        """What is kept, with what is new; None if more has changed."""
        oldest = min(kept, key=lambda each: each.time).number
        query = select(schema.live_samples.c.number).where(schema.live_samples.c.number == oldest)
        if fetched(self._store.engine, query).first() is None:
            return None
        new = samples_of(self._store, self._monitor, after=kept[-1].number, figures=figures)
        replaced = {each.trace for each in new}
        samples = [each for each in kept if each.trace not in replaced] + new
        samples = [each for each in samples if each.time >= since][-number:]
        # Where there were as many as are read, others come in the place of those that are too old now.
        return None if len(samples) < number == len(kept) else samples


def _newest_versions(monitor: str) -> Select[Any]:
    table = schema.live_samples
    newer = table.alias("newer")
    same = (newer.c.monitor == table.c.monitor, newer.c.trace == table.c.trace)
    replaced = select(newer.c.number).where(*same, newer.c.version > table.c.version).exists()
    return select(table.c.number).where(table.c.monitor == monitor, ~replaced)


def _read(store: Store, monitor: str, numbers: Select[Any], figures: Sequence[str]) -> list[Sample]:
    """The samples with some numbers, in their order: whole rows would take twice as long to sort."""
    table = schema.live_samples
    query = select(table).where(table.c.number.in_(numbers)).order_by(table.c.number)
    with explain_errors(store.engine), store.engine.connect() as connection:
        rows = connection.execute(query).all()
        values = _values(connection, monitor, [row.trace for row in rows] if figures else (), figures)
    return [_sample(row, values.get((row.trace, row.version), {}) if figures else {}) for row in rows]


def sample_of_trace(store: Store, monitor: str, trace: str) -> Sample | None:
    """The newest sample of a trace; None if it has none."""
    table = schema.live_samples
    query = (
        select(table)
        .where(table.c.monitor == monitor, table.c.trace == trace)
        .order_by(table.c.version.desc())
        .limit(1)
    )
    row = fetched(store.engine, query).first()
    return None if row is None else _sample(row, {})


def cases_of_traces(store: Store, monitor: str, traces: Collection[str]) -> dict[str, SampleCase]:
    """The newest sample of each of a few traces as a case; a trace whose sample was deleted is left out."""
    table, runs = schema.live_samples, schema.runs
    query = (
        select(table.c.trace, table.c.version, table.c.position, runs.c.id)
        .join(runs, runs.c.number == table.c.run)
        .where(table.c.monitor == monitor, table.c.trace.in_(traces))
        .order_by(table.c.version)
    )
    newest = {row.trace: row for row in fetched(store.engine, query)}
    wanted: dict[str, dict[str, int]] = {}
    for row in newest.values():
        wanted.setdefault(row.id, {})[case_of_trace(row.trace, row.version)] = row.position
    errors = {
        (run, case.id): attempt.error
        for run, positions in wanted.items()
        for case, attempt, _ in store.views(store.run(run), positions=positions.values())
    }
    ids = {trace: (row.id, case_of_trace(trace, row.version)) for trace, row in newest.items()}
    return {trace: SampleCase(*id_, errors[id_]) for trace, id_ in ids.items() if id_ in errors}


def trace_of_case(store: Store, run: RunRecord, position: int) -> str | None:
    """Id of the trace of a sample's case; None if the sample was deleted."""
    table = schema.live_samples.c
    query = select(table.trace).where(table.run == run.number, table.position == position)
    return fetched(store.engine, query).scalar()


def traces_scored_before(store: Store, monitor: str, traces: Collection[str], last: int) -> set[str]:
    """Those of a few hundred traces of which a sample has a number up to this one."""
    table = schema.live_samples.c
    query = select(table.trace).where(table.monitor == monitor, table.trace.in_(traces), table.number <= last)
    return set(fetched(store.engine, query).scalars())


def last_sample(store: Store, monitor: str) -> int:
    """Number of the last sample of a monitor; 0 without any."""
    table = schema.live_samples.c
    query = select(func.max(table.number)).where(table.monitor == monitor)
    return int(fetched(store.engine, query).scalar() or 0)


def sample_places(
    store: Store, monitor: str, *, since: float, until: float | None = None, worst: int | None = None
) -> list[SamplePlace]:
    """Where samples of interactions that did not fail are.

    Args:
        store: The store.
        monitor: Name of the monitor.
        since: Unix time: only interactions that began then or later.
        until: Unix time: only interactions that began then or before.
        worst: Only so many, from the lowest composite up, those without one last; None: all, in any order.
    """
    table = schema.live_samples.c
    query = select(*(table[name] for name in SamplePlace.__struct_fields__)).where(
        table.monitor == monitor, table.time >= since, table.failed.is_(False)
    )
    if until is not None:
        query = query.where(table.time <= until)
    if worst is not None:
        query = query.order_by(table.score.is_(None), table.score, table.number).limit(worst)
    return [SamplePlace(*row) for row in fetched(store.engine, query)]


def score_of_job(store: Store, job: Job) -> JobScore | None:
    """Return the scored sample of a job; None if it is not scored yet, or was deleted."""
    table, runs, traces = schema.live_samples, schema.runs, schema.live_traces
    columns = (table.c.score, table.c.passed, table.c.scored, table.c.position, runs.c.id, traces.c.cut)
    query = (
        select(*columns)
        .join(runs, runs.c.number == table.c.run, isouter=True)
        .join(traces, traces.c.trace == table.c.trace, isouter=True)
        .where(table.c.trace == job.trace, table.c.monitor == job.monitor, table.c.version == job.version)
    )
    row = fetched(store.engine, query).one_or_none()
    return None if row is None else JobScore(*row)


def recent_confidences(store: Store, monitor: str, *, latest: int) -> dict[str, float]:
    """Mean confidence of the judge in the latest samples of each agent that it was asked about.

    Args:
        store: The store.
        monitor: Name of the monitor.
        latest: Samples of an agent.
    """
    table = schema.live_samples
    query = (
        select(table.c.facets, table.c.confidence)
        .where(table.c.monitor == monitor, table.c.confidence.is_not(None))
        .order_by(table.c.number.desc())
        .limit(20 * latest)
    )
    found: dict[str, list[float]] = {}
    with explain_errors(store.engine), store.engine.connect() as connection:
        for facets, confidence in connection.execute(query):
            for agent in _facets(facets).get("agent", ()):
                values = found.setdefault(agent, [])
                if len(values) < latest:
                    values.append(confidence)
    return {agent: sum(values) / len(values) for agent, values in found.items()}


def _lock_run(connection: Connection, run: RunRecord) -> None:
    """Let one writer at a time number the samples of a monitor's run."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        # Of the monitor: around midnight samples go into two runs, and watchers read them by rising numbers.
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(run.suite_name))))


def _new_samples(connection: Connection, scored: Sequence[Scored]) -> list[Scored]:
    table = schema.live_samples
    traces = sorted({each.job.trace for each in scored})
    query = select(table.c.monitor, table.c.trace, table.c.version).where(table.c.trace.in_(traces))
    known = {tuple(row) for row in connection.execute(query)}
    new = []
    for each in scored:
        key = (each.job.monitor, each.job.trace, each.job.version)
        if key not in known:
            known.add(key)
            new.append(each)
    return new


def _next_position(connection: Connection, run: RunRecord) -> int:
    query = select(func.max(schema.attempts.c.position)).where(schema.attempts.c.run == run.number)
    last = connection.execute(query).scalar()
    return 0 if last is None else last + 1


def _sample_row(scored: Scored, run: RunRecord, position: int, now: float) -> dict[str, object]:
    attempt = masked(scored.attempt)
    as_sampled = ("monitor", "trace", "version", "probability", "weight", "rule")
    row = {name: getattr(scored.job, name) for name in as_sampled}
    row |= {name: getattr(scored, name) for name in ("time", "confidence", "failed", "cost_usd")}
    return row | {
        "run": run.number,
        "position": position,
        "scored": now,
        "score": scored.evaluation.composite.value,
        "passed": scored.evaluation.passed,
        "seconds": attempt.seconds,
        "query": _preview(scored.case.input_shown),
        "output": _preview(attempt.output),
        "session": sanitise(scored.session)[0],
        "facets": encode(scored.facets),
    }


def _score_rows(scored: Scored) -> Iterator[dict[str, object]]:
    job = scored.job
    for name, score in scored.evaluation.scores.items():
        yield {
            "monitor": job.monitor,
            "trace": job.trace,
            "version": job.version,
            "metric": name[:200],
            "fingerprint": scored.fingerprints.get(name, ""),
            "trial": 0,
            "status": score.status,
            # A failed interaction counts at its worst in windows and levels.
            "value": 0.0 if score.missing and scored.attempt.failed else score.value,
        }


def _preview(value: Any) -> str:
    text = value if isinstance(value, str) else "" if value is None else encode(value)
    return str(sanitise(text[:PREVIEW])[0])


def _values(
    connection: Connection, monitor: str, traces: Sequence[str], figures: Sequence[str]
) -> dict[tuple[str, int], dict[str, float]]:
    """Values of metrics by trace and version."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    table = schema.live_scores
    for first in range(0, len(traces) if figures else 0, 500):
        query = select(table.c.trace, table.c.version, table.c.metric, table.c.value).where(
            table.c.monitor == monitor,
            table.c.trace.in_(traces[first : first + 500]),
            table.c.metric.in_(figures),
            table.c.value.is_not(None),
        )
        for trace, version, metric, value in connection.execute(query):
            found.setdefault((trace, version), {})[metric] = value
    return found


def _sample(row: Sequence[Any], scores: Mapping[str, float]) -> Sample:
    *fields, facets, cost_usd = row
    return Sample(*(*fields, _facets(facets), cost_usd, scores))


@lru_cache(maxsize=4_096)
def _facets(text: str) -> Mapping[str, tuple[str, ...]]:
    """Decoded once for all samples that have the same ones, as most have."""
    return _decoder.decode(text)


_decoder = msgspec.json.Decoder(dict[str, tuple[str, ...]])
