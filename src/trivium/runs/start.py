"""Begins a run, or takes over one to resume, once its agent or outputs are known to be fine."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, get_args

import msgspec

from trivium.agents.attempt import AgentAdapter
from trivium.agents.recorded import Partitioned, Recorded
from trivium.errors import InputError, MissingExtra, TriviumError
from trivium.runs.engines.processes import Engine
from trivium.runs.origin import Origin
from trivium.runs.pipeline import Prepared
from trivium.runs.provenance import changed_settings, provenance
from trivium.runs.until_decided.difference import ComparisonWith, StopWhen
from trivium.store.partitions.writer import PartitionWriter, check_folder, forget_lost
from trivium.store.records import Provenance, RunKind, RunRecord
from trivium.store.store import Store
from trivium.suites.agent_settings import AgentSettings
from trivium.suites.settings import Settings
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
    suite, settings, kind = prepared.suite, prepared.settings, origin.kind
    adapter, recorded = origin.adapter(settings), origin.outputs_opened(suite, settings)
    _check_engine(engine, recorded, settings, stored=origin.attempts_of is not None)
    if partitions is not None:
        if adapter is not None:
            raise InputError("", "--partitions needs recorded outputs or a stored run, and no agent")
        check_folder(partitions)
    opened = writable(store)
    scored_before = opened.run(origin.attempts_of) if origin.attempts_of is not None else None
    comparison = None
    if stop is not None:
        comparison = ComparisonWith(stop, opened, suite, settings, metrics=prepared.metrics, kind=kind)
    name, own = origin.name(adapter, scored_before), origin.version(version, scored_before)
    own = msgspec.structs.replace(own, until_decided=comparison and comparison.stopped_for)
    if resume is None:
        start = None if settings.world is None else start_digest(settings.world)
        of_outputs = getattr(recorded, "notes", ())
        own = msgspec.structs.replace(
            own,
            world={} if start is None else {"start": start},
            notes=(*own.notes, *suite.notes, *of_outputs, *_success_note(prepared)),
            partitions=partitions,
        )
        own = provenance(prepared.metrics, settings, source=name, own=own)
        due: int | None = len(suite) * settings.repeats
        if kind in {"human", "confirm"}:  # some cases may have no outputs by people
            due = None if recorded is None else len(recorded)
        run = _new(prepared, opened, kind, own, due, scored_before)
    else:
        # Functions in notebooks share names; only a name given on the command line identifies an agent.
        agent = name if isinstance(origin.agent, str | AgentSettings) else None
        run = _resumed(prepared, opened, resume, kind, own, agent)
    already = 0 if resume is None else sum(1 for _ in opened.attempt_keys(run, scored_only=True))
    folder = partitions or run.provenance.partitions
    with interrupted_by_errors(opened, run):
        writer = None if folder is None else PartitionWriter(opened, run, folder)
    other_number = scored_before is not None and scored_before.due != len(suite) * settings.repeats
    in_order = not (already or other_number or settings.until_decided or kind in {"human", "confirm"})
    return Begun(prepared, opened, run, already, adapter, recorded, comparison, writer, in_order)


def _check_engine(engine: Engine, recorded: Recorded | None, settings: Settings, *, stored: bool) -> None:
    """Refuse what an engine cannot score.

    Args:
        engine: The engine.
        recorded: The recorded outputs of the run, if there are any.
        settings: Its settings.
        stored: Whether it scores the attempts of a stored run.

    Raises:
        InputError: If this needs the main process.
        MissingExtra: If Ray is not installed.
    """
    if engine not in get_args(Engine):
        raise InputError("engine", f'found "{engine}", expected {" or ".join(get_args(Engine))}')
    if engine == "local":
        return
    if recorded is None and not stored:
        problem = "scores recorded outputs only (--outputs)"
    elif not stored and not isinstance(recorded, Partitioned):
        problem = (
            "needs outputs in Trivium's own format: a .jsonl, .csv or .parquet file, several, or in memory"
        )
    elif settings.until_decided:
        problem = "scores many outputs at once, and --until-decided one after the other"
    else:
        if find_spec("ray") is None:
            raise MissingExtra("ray", "--engine ray")
        return
    raise InputError("", f"--engine ray {problem}")


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


def _new(
    prepared: Prepared,
    store: Store,
    kind: RunKind,
    own: Provenance,
    due: int | None,
    scored_before: RunRecord | None,
) -> RunRecord:
    """Store the cases and the record of a new run, which may score the attempts of a stored one."""
    suite = prepared.suite
    if scored_before is not None and scored_before.suite != suite.digest:
        raise InputError(suite.name, f"its cases differ from those of run {scored_before.id}")
    store.save_cases(suite.digest, suite)
    return store.new_run(
        id=store.new_run_id(),
        suite_name=suite.name,
        suite=suite.digest,
        kind=kind,
        settings=prepared.settings,
        provenance=own,
        due=due if scored_before is None else scored_before.due,
        attempts_from=None if scored_before is None else scored_before.attempts_from or scored_before.number,
    )


def _success_note(prepared: Prepared) -> Iterator[str]:
    """A note on what success was inferred from, if the suite does not define it."""
    rule = prepared.settings.success
    defined = prepared.suite.settings.success is not None
    if defined or rule is None or not any(metric.name == "success" for metric in prepared.metrics):
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


def _resumed(
    prepared: Prepared,
    store: Store,
    id: str,  # noqa: A002
    kind: RunKind,
    own: Provenance,
    agent_name: str | None,
) -> RunRecord:
    """Take over an interrupted run for this process.

    Args:
        prepared: What it is to compute.
        store: The store.
        id: Id of the run.
        kind: The kind that it must be of.
        own: The version, fingerprint and comparison that it is resumed with.
        agent_name: Name of the agent, if it identifies the agent; it must then be that of the run.
    """
    suite, run = prepared.suite, store.run(id)
    if run.suite != suite.digest:
        raise InputError(suite.name, f"its cases or their ids have changed since run {run.id} began")
    if changed := changed_settings(run.settings, prepared.settings):
        what = f"its settings have changed since run {run.id} began: {', '.join(changed)}"
        raise InputError(suite.name, what)
    began = run.provenance
    if (before := began.until_decided) != own.until_decided:
        how = f"against {before.against}, by {before.metric}" if before else "against no other run"
        raise InputError("", f"run {run.id} was begun {how}: go on with it in the same way")
    if run.kind != kind or agent_name not in {None, began.agent}:
        raise InputError("", f"run {run.id} is of {began.agent}: nothing else can go on with it")
    if own.version not in {None, began.version}:
        what = f"run {run.id} was begun as {began.version or 'unnamed'}, not as {own.version}"
        raise InputError("version", what)
    if began.fingerprint != own.fingerprint:  # the code is another one now
        began = msgspec.structs.replace(began, fingerprint=None)
    store.acquire(run, provenance=began)
    with interrupted_by_errors(store, run):
        forget_lost(store, run)
    return run
