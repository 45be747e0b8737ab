"""Evaluates a suite: calls an agent or reads recorded outputs, scores them and stores everything."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from os import PathLike
from typing import Any

import msgspec

from trivium.agents.adapters.function import with_own_loop
from trivium.agents.attempt import AgentAdapter, Attempt
from trivium.agents.loading import load_agent
from trivium.agents.recorded import ReadyAttempts, Recorded
from trivium.errors import InputError, TriviumError
from trivium.masking import mask
from trivium.metrics.metric import Metric
from trivium.metrics.registry import CASE_FIGURES
from trivium.runs.certificates import Certificates, drift_before
from trivium.runs.checks import opened_outputs, prepared, saved_early
from trivium.runs.costs.judges import judges_attached
from trivium.runs.engines.agent import ask_and_score, calls_of
from trivium.runs.engines.processes import Engine, Scoring, check_engine
from trivium.runs.engines.recorded import RecordedAttempts, StoredAttempts
from trivium.runs.event_loop import (
    THRESHOLDS_WHILE_ASKING,
    THRESHOLDS_WHILE_SCORING,
    in_trivium_thread,
    in_worker_thread,
    reduced_garbage_collection,
    run_in_trivium_thread,
)
from trivium.runs.incremental_aggregation import IncrementalAggregation
from trivium.runs.pipeline import NoProgress, Pipeline, Progress
from trivium.runs.provenance import changed_settings, judge_provenance, provenance
from trivium.runs.run import Run
from trivium.runs.summarize import summarise
from trivium.runs.until_decided.asker import Asker
from trivium.runs.until_decided.difference import ComparisonWith, comparison_with
from trivium.runs.until_decided.gates import STOPPED_FOR
from trivium.store.connection import DEFAULT_URL
from trivium.store.partitions.writer import PartitionWriter, check_folder, forget_lost
from trivium.store.records import RunKind, RunRecord
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.suites.settings import Gate, JudgeSettings, PassRule, Settings, SuccessRule
from trivium.suites.suite import Suite, SuiteSource

log = logging.getLogger(__name__)

Agent = str | Callable[..., Any] | Any
"""``package.module:name``, an address, ``cmd:…``, a callable, or a PydanticAI agent."""

Outputs = str | PathLike[str] | Iterable[Mapping[str, Any] | Attempt] | Any
"""A file of outputs or a prefixed source, a list of mappings or Attempts, or a data frame."""


def evaluate(
    suite: Suite | SuiteSource,
    *,
    agent: Agent | None = None,
    outputs: Outputs | None = None,
    attempts_of: str | None = None,
    metrics: Sequence[str] | None = None,
    success: SuccessRule | Mapping[str, Any] | None = None,
    passed: PassRule | Mapping[str, Any] | None = None,
    judge: JudgeSettings | Mapping[str, Any] | None = None,
    gates: Mapping[str, Gate | Mapping[str, Any]] | None = None,
    until_decided: bool | None = None,
    against: str | None = None,
    against_metric: str = "composite",
    similarity: Mapping[str, float] | None = None,
    encoder: str | None = None,
    group: str | None = None,
    repeats: int | None = None,
    seed: int | None = None,
    leave_one_out: bool = False,
    skip_invalid: bool = False,
    store: str | Store = DEFAULT_URL,
    resume: str | None = None,
    workers: int | None = 1,
    engine: Engine = "local",
    partitions: str | None = None,
    progress: Progress | None = None,
) -> Run:
    """Evaluate a suite and wait for the result; also works inside a running event loop (a notebook).

    Give exactly one of ``agent``, ``outputs`` and ``attempts_of``. The evaluation runs on a separate thread
    with its own event loop, so that the host program's loop is neither patched nor blocked. Ctrl-C stores the
    finished attempts, then raises KeyboardInterrupt.

    Args:
        suite: The suite, or an argument of :meth:`Suite.load`: a file, a prefixed source, a list of cases, a
            mapping with the keys of a suite file, or a data frame.
        agent: The agent to call: a callable, ``package.module:name``, an HTTP address, ``cmd:…``.
        outputs: Attempts recorded elsewhere: a file, a prefixed source such as ``tau-bench:FILE``, a list of
            mappings, or a data frame, with the keys of a file of outputs (``case``, ``output``, …).
        attempts_of: Id of a stored run whose attempts are scored again; no agent is called.
        metrics: Metrics that replace the suite's.
        success: When an attempt counts as a success, such as ``{"contains": "any"}``. This and the settings
            below replace the suite's; :meth:`Suite.with_settings` changes all others.
        passed: When an attempt passes, such as ``{"metric": "jaccard", "at_least": 0.5}``.
        judge: The judge's models, rubrics and limits; a mapping changes only the keys that it has.
        gates: Thresholds for the means of metrics, by metric or ``pass_rate``.
        until_decided: Whether to ask cases in random order, and only until all gates are decided.
        against: Id of a stored run: with ``until_decided``, ask only until the comparison with it is decided,
            instead of the gates.
        against_metric: The metric of that comparison.
        similarity: Weights of the parts of ``similarity``.
        encoder: Name or folder of the encoder for ``semantic``.
        group: Field or metadata key of a case that names its cluster.
        repeats: Number of attempts at each case.
        seed: Seed of all randomness.
        leave_one_out: With ``outputs="peerread:…"``: score each human review against the others.
        skip_invalid: Leave out recorded outputs with mistakes, and files of them that cannot be read. Their
            attempts are missing, and a note of the run counts and names them.
        store: The store, or its URL.
        resume: Id of an interrupted run to finish; stored attempts and evaluations are not made again.
        workers: Number of processes that score recorded outputs; None for as many as there are cores, once
            that pays. With more than one, a script must be guarded by ``if __name__ == "__main__":``.
        engine: Where these processes run: ``local``, or ``ray`` for a Ray cluster (that of ``RAY_ADDRESS``,
            or one on this machine), where ``workers=None`` means as many as the cluster has CPUs.
        partitions: Folder, or address such as ``s3://BUCKET/FOLDER``, for the scored attempts of a large run:
            they are written to Parquet files there, at which the store points.
        progress: Receives the progress of the run.

    Returns:
        The finished run, its summary stored with it.

    Raises:
        InputError: If the suite, the agent, the outputs or the options are invalid.
        StoreError: If the store fails; everything stored before stays.

    Examples:
        >>> questions = [{"question": "2 + 2?", "answer": "4"}, {"question": "3 + 4?", "answer": "7"}]
        >>> run = evaluate(questions, agent=lambda question: "4", success={"exact": True})
        >>> run.summary().metrics["success"].mean
        0.5
    """
    return run_in_trivium_thread(
        lambda: evaluate_async(
            suite,
            agent=agent,
            outputs=outputs,
            attempts_of=attempts_of,
            metrics=metrics,
            success=success,
            passed=passed,
            judge=judge,
            gates=gates,
            until_decided=until_decided,
            against=against,
            against_metric=against_metric,
            similarity=similarity,
            encoder=encoder,
            group=group,
            repeats=repeats,
            seed=seed,
            leave_one_out=leave_one_out,
            skip_invalid=skip_invalid,
            store=store,
            resume=resume,
            workers=workers,
            engine=engine,
            partitions=partitions,
            progress=progress,
        )
    )


async def evaluate_async(
    suite: Suite | SuiteSource,
    *,
    agent: Agent | None = None,
    outputs: Outputs | None = None,
    attempts_of: str | None = None,
    metrics: Sequence[str] | None = None,
    success: SuccessRule | Mapping[str, Any] | None = None,
    passed: PassRule | Mapping[str, Any] | None = None,
    judge: JudgeSettings | Mapping[str, Any] | None = None,
    gates: Mapping[str, Gate | Mapping[str, Any]] | None = None,
    until_decided: bool | None = None,
    against: str | None = None,
    against_metric: str = "composite",
    similarity: Mapping[str, float] | None = None,
    encoder: str | None = None,
    group: str | None = None,
    repeats: int | None = None,
    seed: int | None = None,
    leave_one_out: bool = False,
    skip_invalid: bool = False,
    store: str | Store = DEFAULT_URL,
    resume: str | None = None,
    workers: int | None = 1,
    engine: Engine = "local",
    partitions: str | None = None,
    progress: Progress | None = None,
) -> Run:
    """Evaluate a suite inside a running event loop.

    Arguments, result and errors are those of :func:`evaluate`.
    """
    if sum(option is not None for option in (agent, outputs, attempts_of)) != 1:
        raise InputError("", "give exactly one of agent, outputs, attempts_of")
    given = {
        "success": success,
        "passed": passed,
        "judge": judge,
        "gates": gates,
        "similarity": similarity,
        "encoder": encoder,
        "group": group,
        "repeats": repeats,
        "seed": seed,
        "until_decided": until_decided,
    }
    loaded, settings, named, built = prepared(
        suite,
        given,
        metrics,
        saves=saved_early(agent, outputs, leave_one_out),
        against=against is not None,
    )
    # Check agent and outputs before anything is stored.
    adapter = load_agent(agent) if agent is not None else None
    if adapter is not None and in_trivium_thread():
        adapter = with_own_loop(adapter)
    recorded = opened_outputs(
        outputs, loaded, settings, leave_one_out=leave_one_out, skip_invalid=skip_invalid
    )
    check_engine(engine, recorded, settings, stored=attempts_of is not None)
    if partitions is not None:
        if adapter is not None:
            raise InputError("", "--partitions needs recorded outputs or a stored run, and no agent")
        check_folder(partitions)
    opened = _writable(store)
    kind: RunKind = "human" if leave_one_out else "recorded" if outputs is not None else "agent"
    scored_before = opened.run(attempts_of) if attempts_of is not None else None
    comparison = comparison_with(
        against, against_metric, store=opened, suite=loaded, settings=settings, metrics=built, kind=kind
    )
    start = _RunStart(opened, loaded, settings, built, kind, scored_before, recorded, comparison)
    source_name = _source_name(adapter, outputs, scored_before)
    agent_name = source_name if isinstance(agent, str) else None
    run = start.resumed(resume, agent_name) if resume is not None else start.new(source_name, partitions)
    writer = _partition_writer(opened, run, partitions or run.provenance.get("partitions"))
    progress = progress or NoProgress()
    other_number = scored_before is not None and scored_before.due != len(loaded) * settings.repeats
    incremental = IncrementalAggregation(
        settings,
        unordered=start.already > 0 or leave_one_out or other_number or settings.until_decided,
    )
    asker = Asker.of(run, loaded, settings, comparison)
    pipeline = Pipeline(
        store=opened,
        run=run,
        suite=loaded,
        metrics=built,
        settings=settings,
        progress=progress,
        incremental=incremental,
        certificates=Certificates(settings, run.provenance, before=drift_before(opened, settings)),
        asker=asker,
        partitions=writer,
    )
    with _interrupted_by_errors(opened, run):
        try:
            progress.begin(run=run.id, total=run.due, already=start.already)
            with reduced_garbage_collection(
                THRESHOLDS_WHILE_SCORING if adapter is None else THRESHOLDS_WHILE_ASKING
            ):
                async with judges_attached(run, opened, built), _finished(writer):
                    if asker is not None:
                        asker.take(opened.outlines(run))
                    scoring = Scoring(
                        built,
                        named,
                        suite=loaded,
                        settings=settings,
                        run=run,
                        pipeline=pipeline,
                        workers=workers,
                        engine=engine,
                        partitions=writer,
                    )
                    await _score_stored(opened, run, pipeline, scoring)
                    if adapter is not None:
                        await _ask(adapter, loaded, settings, opened, run, pipeline, asker)
                    elif recorded is not None:
                        attempts = RecordedAttempts(recorded, suite=loaded, store=opened, run=run)
                        await _score_recorded(attempts, settings, pipeline, scoring, asker)
        finally:
            await in_worker_thread(pipeline.close)
            progress.end()
        return _summarised(opened, run, settings, incremental, cases=len(loaded))


@contextmanager
def _interrupted_by_errors(store: Store, run: RunRecord) -> Iterator[None]:
    """Leave a run that ends with an error as interrupted, so that it can be resumed."""
    try:
        yield
    except (asyncio.CancelledError, TriviumError, OSError, MemoryError):
        with suppress(TriviumError):
            store.finish(run, "interrupted", summary=None)
        raise


def _partition_writer(store: Store, run: RunRecord, folder: str | None) -> PartitionWriter | None:
    with _interrupted_by_errors(store, run):
        return None if folder is None else PartitionWriter(store, run, folder)


@asynccontextmanager
async def _finished(writer: PartitionWriter | None) -> AsyncIterator[None]:
    """Complete the last partition, also of a run that fails or is interrupted."""
    try:
        yield
    finally:
        if writer is not None:
            await in_worker_thread(writer.finish)


def _writable(store: str | Store) -> Store:
    """Open a store for writing; the store of a loaded run is open for reading only."""
    if isinstance(store, Store):
        return Store(store.url) if store.read_only else store
    return Store(store)


class _RunStart:
    """Creates the record of a new run, or takes over the record of a run to resume."""

    def __init__(
        self,
        store: Store,
        suite: Suite,
        settings: Settings,
        metrics: list[Metric],
        kind: RunKind,
        source: RunRecord | None,
        recorded: Recorded | None,
        comparison: ComparisonWith | None,
    ) -> None:
        self._store = store
        self._suite = suite
        self._settings = settings
        self._metrics = metrics
        self._kind = kind
        self._source = source
        self._recorded = recorded
        self._stopped_for = {} if comparison is None else msgspec.to_builtins(comparison.stopped_for)
        self.already = 0

    def new(self, source: str, partitions: str | None) -> RunRecord:
        """Store the cases and the record of a new run.

        Args:
            source: Readable name of the agent or the outputs.
            partitions: Folder for its partitions.
        """
        if self._source is not None and self._source.suite != self._suite.digest:
            raise InputError(self._suite.name, f"its cases differ from those of run {self._source.id}")
        self._store.save_cases(self._suite.digest, self._suite)
        if self._source is not None:
            due = self._source.due
        elif self._kind == "human":  # some cases may have no outputs by people
            due = None if self._recorded is None else len(self._recorded)
        else:
            due = len(self._suite) * self._settings.repeats
        return self._store.new_run(
            id=self._store.new_run_id(),
            suite_name=self._suite.name,
            suite=self._suite.digest,
            kind=self._kind,
            settings=msgspec.to_builtins(self._settings),
            provenance=provenance(metrics=self._metrics, seed=self._settings.seed, source=source)
            | judge_provenance(self._metrics, self._settings)
            | ({STOPPED_FOR: self._stopped_for} if self._stopped_for else {})
            | ({"notes": notes} if (notes := self._notes()) else {})
            | ({} if partitions is None else {"partitions": partitions}),
            due=due,
            attempts_from=None if self._source is None else self._source.attempts_from or self._source.number,
        )

    def _notes(self) -> list[str]:
        return [*self._suite.notes, *getattr(self._recorded, "notes", ()), *self._success_note()]

    def _success_note(self) -> Iterator[str]:
        """A note that success was inferred from the references, if the suite does not define it."""
        defined = self._suite.settings.success is not None or self._settings.success is None
        if not defined and any(metric.name == "success" for metric in self._metrics):
            yield (
                "success is 1 where an output contains a reference: all of them are short, and the suite "
                "does not say what success is (success: …)"
            )

    def resumed(self, id: str, agent_name: str | None) -> RunRecord:  # noqa: A002
        """Take over an interrupted run for this process.

        Args:
            id: Id of the run.
            agent_name: Name of the agent, if it identifies the agent; it must then be that of the run.
        """
        run = self._store.run(id)
        if run.suite != self._suite.digest:
            raise InputError(self._suite.name, f"its cases have changed since run {run.id} began")
        changed = changed_settings(msgspec.convert(run.settings, Settings), self._settings)
        if changed:
            raise InputError(
                self._suite.name, f"its settings have changed since run {run.id} began: {', '.join(changed)}"
            )
        before = run.provenance.get(STOPPED_FOR, {})
        if before != self._stopped_for:
            how = f"against {before['against']}, by {before['metric']}" if before else "against no other run"
            raise InputError("", f"run {run.id} was begun {how}: go on with it in the same way")
        # Functions in notebooks share names; only a name given on the command line identifies an agent.
        other_agent = agent_name is not None and run.provenance["agent"] != agent_name
        if run.kind != self._kind or other_agent:
            raise InputError(
                "", f"run {run.id} is of {run.provenance['agent']}: nothing else can go on with it"
            )
        self._store.acquire(run)
        with _interrupted_by_errors(self._store, run):
            forget_lost(self._store, run)
        self.already = sum(1 for _ in self._store.attempt_keys(run, scored_only=True))
        return run


def _source_name(adapter: AgentAdapter | None, outputs: Outputs | None, source: RunRecord | None) -> str:
    """Readable name of the agent, the run or the outputs that the attempts come from."""
    if adapter is not None:
        return mask(adapter.name)
    if source is not None:
        return f"attempts of run {source.id}"
    if isinstance(outputs, ReadyAttempts):
        return outputs.name
    return str(outputs) if isinstance(outputs, str | PathLike) else "outputs in memory"


async def _score_stored(store: Store, run: RunRecord, pipeline: Pipeline, scoring: Scoring) -> None:
    """Score the stored attempts without evaluations: those of another run, or of before an interruption."""
    attempts = StoredAttempts(store, run)
    if run.attempts_from is None:
        await pipeline.score_all(attempts.left(), save=False)
    else:
        await scoring.score(attempts, save=False)


async def _score_recorded(
    attempts: RecordedAttempts,
    settings: Settings,
    pipeline: Pipeline,
    scoring: Scoring,
    asker: Asker | None,
) -> None:
    if asker is None:
        await scoring.score(attempts, save=True)
    else:
        await attempts.score_until_decided(asker, pipeline, repeats=settings.repeats)


async def _ask(
    adapter: AgentAdapter,
    suite: Suite,
    settings: Settings,
    store: Store,
    run: RunRecord,
    pipeline: Pipeline,
    asker: Asker | None,
) -> None:
    stored = set(store.attempt_keys(run))

    def remaining() -> Iterator[tuple[int, Case, int]]:
        for position, case in enumerate(suite):
            for repeat in range(settings.repeats):
                if (position, repeat) not in stored:
                    yield position, case, repeat

    try:
        concurrency = min(settings.limits.attempts_at_once, len(suite) * settings.repeats)
        attempts, room = (remaining(), None) if asker is None else (asker.remaining(stored), asker.room)
        await ask_and_score(
            attempts, calls_of(adapter, settings), pipeline, concurrency=concurrency, room=room
        )
    finally:
        await adapter.close()


def _summarised(
    store: Store, run: RunRecord, settings: Settings, incremental: IncrementalAggregation, *, cases: int
) -> Run:
    aggregation = incremental.aggregation(cases)
    needs_case_scores = settings.metrics is None or set(settings.metrics) & set(CASE_FIGURES)
    if needs_case_scores and incremental.repeats:
        from trivium.runs.aggregation import case_scores_of

        store.save_case_scores(run, case_scores_of(store, run, settings))
        aggregation = None
    summary = summarise(store, run, aggregation)
    due = summary.total_tests if settings.until_decided else None
    store.finish(run, "done", summary=msgspec.to_builtins(summary), due=due)
    return Run(store, store.run(run.id))
