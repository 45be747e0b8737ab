"""Begins a run, or takes over one to resume, once its agent or outputs are known to be fine."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from trivium.agents.attempt import AgentAdapter
from trivium.agents.recorded import Recorded
from trivium.errors import InputError, TriviumError
from trivium.runs.engines.processes import Engine, check_engine
from trivium.runs.origin import Origin
from trivium.runs.pipeline import Prepared
from trivium.runs.provenance import changed_settings, provenance
from trivium.runs.until_decided.difference import ComparisonWith, StopWhen, comparison_with
from trivium.store.partitions.writer import PartitionWriter, check_folder, forget_lost
from trivium.store.records import Provenance, RunKind, RunRecord
from trivium.store.store import Store
from trivium.suites.agent_settings import AgentSettings
from trivium.suites.world_settings import start_digest


class Begun(NamedTuple):
    """A run that has begun, and what its attempts come from.

    Attributes:
        prepared: What it computes.
        store: The store.
        run: Its record, owned by this process.
        already: Number of attempts that are scored already.
        adapter: The agent, if one is called.
        recorded: The recorded outputs, if there are any.
        comparison: What decides when it stops, if that is a comparison.
        writer: Where its rows are stored, if not in the store itself.
        in_order: Whether attempts are scored once each, in suite order.
    """

    prepared: Prepared
    store: Store
    run: RunRecord
    already: int
    adapter: AgentAdapter | None
    recorded: Recorded | None
    comparison: ComparisonWith | None
    writer: PartitionWriter | None
    in_order: bool


def begin(
    prepared: Prepared,
    origin: Origin,
    store: str | Path | Store,
    *,
    engine: Engine = "local",
    partitions: str | None = None,
    resume: str | None = None,
    stop: StopWhen | None = None,
    version: str | None = None,
) -> Begun:
    """Open the agent or the outputs, and create a run or take over the one to resume.

    Args:
        prepared: What the run computes.
        origin: Where its attempts come from.
        store: The store, or its URL.
        engine: Where the attempts are scored.
        partitions: Folder for its partitions.
        resume: Id of an interrupted run to finish.
        stop: The comparison for which it stops early, if any.
        version: Name of the agent's version, if it has one.

    Raises:
        InputError: If agent, outputs or options are wrong; nothing is stored then.
    """
    prepared = prepared._replace(settings=origin.stored(prepared.settings))
    suite, settings = prepared.suite, prepared.settings
    adapter, recorded = origin.adapter(settings), origin.outputs_opened(suite, settings)
    check_engine(engine, recorded, settings, stored=origin.attempts_of is not None)
    if partitions is not None:
        if adapter is not None:
            raise InputError("", "--partitions needs recorded outputs or a stored run, and no agent")
        check_folder(partitions)
    opened = writable(store)
    scored_before = opened.run(origin.attempts_of) if origin.attempts_of is not None else None
    comparison = None
    if stop is not None:
        comparison = comparison_with(
            stop, opened, suite, settings, metrics=prepared.metrics, kind=origin.kind
        )
    of_version = origin.version(version, scored_before)
    record = _Record(prepared, opened, origin.kind, scored_before, recorded, comparison, of_version)
    name = origin.name(adapter, scored_before)
    if resume is None:
        run = record.new(name, partitions)
    else:
        # Functions in notebooks share names; only a name given on the command line identifies an agent.
        run = record.resumed(resume, name if isinstance(origin.agent, str | AgentSettings) else None)
    folder = partitions or run.provenance.partitions
    with interrupted_by_errors(opened, run):
        writer = None if folder is None else PartitionWriter(opened, run, folder)
    other_number = scored_before is not None and scored_before.due != len(suite) * settings.repeats
    return Begun(
        prepared,
        opened,
        run,
        record.already,
        adapter,
        recorded,
        comparison,
        writer,
        in_order=not (
            record.already
            or origin.leave_one_out
            or other_number
            or settings.until_decided
            or origin.kind == "confirm"
        ),
    )


@contextmanager
def interrupted_by_errors(store: Store, run: RunRecord) -> Iterator[None]:
    """Leave a run that ends with an error as interrupted, so that it can be resumed."""
    try:
        yield
    except (asyncio.CancelledError, TriviumError, OSError, MemoryError):
        with suppress(TriviumError):
            store.finish(run, "interrupted", summary=None)
        raise


def writable(store: str | Path | Store) -> Store:
    """Open a store for writing; the store of a loaded run is open for reading only."""
    if isinstance(store, Store):
        return Store(store.url) if store.read_only else store
    return Store(store)


class _Record:
    """Creates the record of a new run, or takes over the record of a run to resume."""

    def __init__(
        self,
        prepared: Prepared,
        store: Store,
        kind: RunKind,
        source: RunRecord | None,
        recorded: Recorded | None,
        comparison: ComparisonWith | None,
        version: Provenance,
    ) -> None:
        self._store = store
        self._suite, self._settings, _, self._metrics = prepared
        self._kind = kind
        self._source = source
        self._recorded = recorded
        self._version = version
        self._stopped_for = comparison and comparison.stopped_for
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
            due = None if self._kind == "confirm" else len(self._suite) * self._settings.repeats
        start, of_outputs = start_digest(self._settings.world), getattr(self._recorded, "notes", ())
        own = msgspec.structs.replace(
            self._version,
            until_decided=self._stopped_for,
            world={} if start is None else {"start": start},
            notes=(*self._version.notes, *self._suite.notes, *of_outputs, *self._success_note()),
            partitions=partitions,
        )
        return self._store.new_run(
            id=self._store.new_run_id(),
            suite_name=self._suite.name,
            suite=self._suite.digest,
            kind=self._kind,
            settings=self._settings,
            provenance=provenance(self._metrics, self._settings, source=source, own=own),
            due=due,
            attempts_from=None if self._source is None else self._source.attempts_from or self._source.number,
        )

    def _success_note(self) -> Iterator[str]:
        """A note on what success was inferred from, if the suite does not define it."""
        defined = self._suite.settings.success is not None or self._settings.success is None
        rule = self._settings.success
        if defined or rule is None or not any(metric.name == "success" for metric in self._metrics):
            return
        if rule.contains is not None:
            yield (
                "success is 1 where an output contains a reference: all of them are short, and the suite "
                "does not say what success is (success: …)"
            )
        if rule.metric == "turn_success" or rule.turns:
            yield (
                "success is 1 where every turn of a conversation is as its case expects: the suite does not "
                "say what success is (success: …)"
            )

    def resumed(self, id: str, agent_name: str | None) -> RunRecord:  # noqa: A002
        """Take over an interrupted run for this process.

        Args:
            id: Id of the run.
            agent_name: Name of the agent, if it identifies the agent; it must then be that of the run.
        """
        run = self._store.run(id)
        if run.suite != self._suite.digest:
            raise InputError(
                self._suite.name, f"its cases or their ids have changed since run {run.id} began"
            )
        changed = changed_settings(run.settings, self._settings)
        if changed:
            raise InputError(
                self._suite.name, f"its settings have changed since run {run.id} began: {', '.join(changed)}"
            )
        before = run.provenance.until_decided
        if before != self._stopped_for:
            how = f"against {before.against}, by {before.metric}" if before else "against no other run"
            raise InputError("", f"run {run.id} was begun {how}: go on with it in the same way")
        other_agent = agent_name is not None and run.provenance.agent != agent_name
        if run.kind != self._kind or other_agent:
            raise InputError("", f"run {run.id} is of {run.provenance.agent}: nothing else can go on with it")
        self._store.acquire(run, provenance=self._provenance_resumed(run))
        with interrupted_by_errors(self._store, run):
            forget_lost(self._store, run)
        self.already = sum(1 for _ in self._store.attempt_keys(run, scored_only=True))
        return run

    def _provenance_resumed(self, run: RunRecord) -> Provenance:
        """The provenance of a run to resume, without the fingerprint if the code is another one now."""
        before, now = run.provenance.version, self._version.version
        if now is not None and now != before:
            raise InputError("version", f"run {run.id} was begun as {before or 'unnamed'}, not as {now}")
        same = run.provenance.fingerprint == self._version.fingerprint
        return run.provenance if same else msgspec.structs.replace(run.provenance, fingerprint=None)
