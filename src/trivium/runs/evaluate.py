"""Evaluates a suite: calls an agent or reads recorded outputs, scores them and stores everything."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, Unpack

from trivium.agents.attempt import Attempt
from trivium.keywords import keywords
from trivium.runs.checks import prepared
from trivium.runs.engines.processes import Engine
from trivium.runs.event_loop import run_in_trivium_thread
from trivium.runs.execution import execute
from trivium.runs.origin import Origin, setting_and_factory
from trivium.runs.pipeline import NoProgress, Progress
from trivium.runs.run import Run
from trivium.runs.start import begin
from trivium.runs.until_decided.difference import StopWhen
from trivium.store.connection import DEFAULT_URL
from trivium.store.store import Store
from trivium.suites.settings import Gate, JudgeSettings, PassRule, Settings, SuccessRule
from trivium.suites.suite import Suite, SuiteSource

Agent = str | Callable[..., Any] | Any
"""``package.module:name``, an address, ``cmd:…``, a callable, or a PydanticAI agent."""

Outputs = str | PathLike[str] | Iterable[Mapping[str, Any] | Attempt] | Any
"""A file of outputs or a prefixed source, a list of mappings or Attempts, or a data frame."""


class EvaluationOptions(TypedDict, total=False):
    """Keywords of :func:`evaluate`.

    Attributes:
        agent: The agent to call: a callable, ``package.module:name``, an HTTP address, ``cmd:…``; by default
            the suite's.
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
        against_metric: The metric of that comparison; by default ``decide.by``, else the pass rate, else the
            composite.
        similarity: Weights of the parts of ``similarity``.
        encoder: Name or folder of the encoder for ``semantic``.
        group: Field or metadata key of a case that names its cluster.
        repeats: Number of attempts at each case.
        seed: Seed of all randomness.
        world: What the agent may change, made afresh for each attempt: a function that makes it,
            ``package.module:factory``, or ``{"json": …}``, ``{"sqlite": FILE}``, ``{"folder": FOLDER}``.
        leave_one_out: With ``outputs="peerread:…"``: score each human review against the others.
        skip_invalid: Leave out invalid recorded outputs, and files that cannot be read. Their attempts are
            missing, and a note of the run counts and names them.
        version: Name of the agent's version. A comparison counts the attempts of all runs of one version;
            without a name, the version is the state of the code in a git repository
            (docs/definitions/comparisons.md#version).
        store: The store, or its URL.
        resume: Id of an interrupted run to finish; stored attempts and evaluations are not made again.
        workers: Number of processes that score recorded outputs; None starts one for each core if the run is
            large enough to gain. With more than one, guard a script by ``if __name__ == "__main__":``.
        engine: Where these processes run: ``local``, or ``ray`` for a Ray cluster (that of ``RAY_ADDRESS``,
            or one on this machine), where ``workers=None`` starts one for each CPU of the cluster.
        partitions: Folder, or address such as ``s3://BUCKET/FOLDER``, to which a large run writes its scored
            attempts as Parquet files; the store refers to them.
        progress: Receives the progress of the run.
    """

    agent: Agent | None
    outputs: Outputs | None
    attempts_of: str | None
    metrics: Sequence[str] | None
    success: SuccessRule | Mapping[str, Any] | None
    passed: PassRule | Mapping[str, Any] | None
    judge: JudgeSettings | Mapping[str, Any] | None
    gates: Mapping[str, Gate | Mapping[str, Any]] | None
    until_decided: bool | None
    against: str | None
    against_metric: str | None
    similarity: Mapping[str, float] | None
    encoder: str | None
    group: str | None
    repeats: int | None
    seed: int | None
    world: Callable[..., Any] | str | Mapping[str, Any] | None
    leave_one_out: bool
    skip_invalid: bool
    version: str | None
    store: str | Path | Store
    resume: str | None
    workers: int | None
    engine: Engine
    partitions: str | None
    progress: Progress | None


_keywords = keywords(leave_one_out=False, skip_invalid=False, store=DEFAULT_URL, workers=1, engine="local")


@_keywords
def evaluate(suite: Suite | SuiteSource, **options: Unpack[EvaluationOptions]) -> Run:
    """Evaluate a suite and wait for the result; also works inside a running event loop (a notebook).

    Give at most one of ``agent``, ``outputs`` and ``attempts_of``. The evaluation runs on a separate thread
    with its own event loop, so that the host program's loop is neither patched nor blocked. Ctrl-C stores the
    finished attempts, then raises KeyboardInterrupt.

    Args:
        suite: The suite, or an argument of :meth:`Suite.load`: a file, a prefixed source, a list of cases, a
            mapping with the keys of a suite file, or a data frame.
        **options: See :class:`EvaluationOptions`.

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
    return run_in_trivium_thread(lambda: evaluate_async(suite, **options))


@_keywords
async def evaluate_async(suite: Suite | SuiteSource, **options: Unpack[EvaluationOptions]) -> Run:
    """Evaluate a suite inside a running event loop.

    Arguments, result and errors are those of :func:`evaluate`.
    """
    agent, outputs, attempts_of = options["agent"], options["outputs"], options["attempts_of"]
    if agent is None and outputs is None and attempts_of is None:
        suite = suite if isinstance(suite, Suite) else Suite.load(suite)
        agent = suite.settings.agent
    settings = set(Settings.__struct_fields__) - {"agent", "metrics"}
    given = {name: value for name, value in options.items() if name in settings}
    given["world"], factory = setting_and_factory(options["world"])
    origin = Origin(
        agent,
        outputs,
        attempts_of,
        leave_one_out=options["leave_one_out"],
        skip_invalid=options["skip_invalid"],
        factory=factory,
    )
    against = options["against"]
    wanted = prepared(suite, given, options["metrics"], saves=origin.saves, against=against is not None)
    stop = None if against is None else StopWhen(against, options["against_metric"])
    engine = options["engine"]
    begun = begin(
        wanted,
        origin,
        options["store"],
        engine=engine,
        partitions=options["partitions"],
        resume=options["resume"],
        stop=stop,
        version=options["version"],
    )
    progress = options["progress"] or NoProgress()
    return await execute(begun, workers=options["workers"], engine=engine, progress=progress)
