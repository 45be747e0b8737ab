"""``trivium run`` and ``trivium score``: evaluate a suite with an agent, or with recorded outputs."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from trivium.cli import options
from trivium.cli.logs import print_errors
from trivium.cli.options import prints_document, split_names
from trivium.cli.output import (
    Presentation,
    ProgressBar,
    command_line,
    exit_code,
    present,
    print_resume_hint,
    stored_summary,
    storing,
)
from trivium.errors import EncoderUnavailable, InputError, Problem, StoreError, StoreLost, TriviumError
from trivium.keywords import taken

if TYPE_CHECKING:
    from trivium.runs.run import Run
    from trivium.suites.settings import SettingKeywords
    from trivium.suites.suite import Suite


_against = options.together(
    options.option(
        "--against",
        metavar="RUN",
        help="With --until-decided: stop when the comparison with this stored run is decided; show it.",
    ),
    options.option(
        "--against-metric",
        metavar="NAME",
        help="Metric of --against (default: decide.by, else pass_rate, else composite).",
    ),
)
"""The options of a comparison that decides when a run stops."""

_confirm = options.together(
    options.option(
        "--confirm",
        type=click.IntRange(min=1),
        metavar="CALLS",
        help="With --against: then ask both agents again, at most so often, and show the comparison.",
    ),
    options.option("--base-agent", metavar="…", help="The agent of the --against run, for --confirm."),
)
"""The options of a run whose comparison is confirmed."""

_evaluation_options = options.together(
    options.metrics,
    options.config,
    options.encoder,
    options.certificate,
    options.version,
    options.store,
    options.resume,
    options.as_json,
    options.quiet,
    options.details,
    options.policy,
    options.by,
    options.reports,
)
"""The options that ``run`` and ``score`` share."""


@options.command(
    "trivium run suite.yaml --agent app.py:answer",
    "trivium run suite.yaml --agent app.py:answer --watch",
    "trivium run suite.yaml --agent http://localhost:8000/answer --repeats 3 --html report.html",
)
@click.argument("suite", shell_complete=options.file_names)
@options.option("--agent", metavar="PKG.MOD:NAME|URL|cmd:…", help="The agent to call (default: the suite's).")
@options.option("--repeats", type=click.IntRange(min=1), help="Attempts per case (default: the suite's).")
@options.option("--at-once", type=click.IntRange(min=1), help="Attempts in flight (default: the suite's).")
@options.option("--tag", metavar="TAG", help="Use only the cases with this tag.")
@options.option("--sample", type=click.IntRange(min=1), help="Use a sample of N cases (by the suite's seed).")
@options.option(
    "--until-decided",
    is_flag=True,
    help="Ask the cases in random order, and only until all gates (or --against) are decided.",
)
@_against
@_confirm
@options.option("--watch", is_flag=True, help="Run again when a file changes that the run reads.")
@_evaluation_options
def run(suite: str, **given: Any) -> int:
    """Call an agent on every case of SUITE, score its outputs and traces, store and print the results.

    SUITE is a suite file, cases (a file, a folder, or a pattern in quotes), or a source such as
    peerread:FOLDER. Every attempt is stored as soon as it returns; --resume continues an interrupted run.

    With --watch, the suite, the agent's code and every other file below the current folder that the run
    reads are watched: a change starts the next run, which is compared with the one before. Of an agent cmd:…
    the files that the command names are watched.
    """
    _check_against(given)
    if given["watch"]:
        for name in ("as_json", "resume", "against"):
            if given[name]:
                raise click.UsageError(f"--watch and --{name.removeprefix('as_')} exclude each other")
        from trivium.cli.watch import watch

        return watch(partial(_run_once, suite, given), partial(_compare, given["store"]))
    return evaluate_and_present(load_for_run(suite, given), given)


def _run_once(
    suite: str, given: dict[str, Any], previous: str | None, loaded: Callable[[], None]
) -> tuple[int, str | None]:
    """Run once for --watch: score the attempts of a previous run again if cases and repeats are the same."""
    from trivium.store.store import Store

    stored: list[str] = []

    def command() -> int:
        current = load_for_run(suite, given)
        loaded()
        source: dict[str, Any] = {}
        if previous is not None:
            with Store(given["store"], read_only=True) as opened:
                record = opened.run(previous)
            repeats = record.settings.repeats
            if record.suite == current.digest and repeats == current.settings.repeats:
                source = {"agent": None, "attempts_of": previous}
        run = evaluate_suite(current, given | source)
        stored.append(run.id)
        return present_run(run, given)

    code = print_errors(command)
    return code, stored[0] if stored else None


def _compare(store: str, base: str, head: str) -> None:
    """Print a comparison, as ``trivium compare`` does."""
    from trivium.cli.compare import run_compare

    print_errors(lambda: run_compare(base, head, {"store": store}))


def load_for_run(suite: str, given: Mapping[str, Any]) -> "Suite":
    """Load the suite of ``trivium run`` and apply its options."""
    try:
        loaded = load_suite(suite, given)
    except InputError:
        _check_no_traces(suite)
        raise
    if given["agent"] is None and loaded.settings.agent is None:
        raise click.UsageError("Missing option '--agent': the suite names no agent (agent: …) either")
    return loaded


@options.command(
    "trivium score suite.yaml --outputs outputs.jsonl",
    "trivium score suite.yaml --outputs outputs.csv --html report.html",
)
@click.argument("suite", shell_complete=options.file_names)
@options.option(
    "--outputs",
    metavar="FILE",
    shell_complete=options.file_names,
    help="The recorded outputs: a file, a folder, or a pattern in quotes; or traces.",
)
@options.option(
    "--attempts-of", metavar="RUN", help="Score a stored run's attempts again; no agent is called."
)
@options.workers
@options.engine
@options.option(
    "--partitions",
    metavar="FOLDER|URL",
    help="Write attempts and scores to Parquet files there, at which the store points (large runs).",
)
@options.option(
    "--until-decided",
    is_flag=True,
    help="Judge the outputs in random order, and only until all gates (or --against) are decided.",
)
@_against
@options.option(
    "--skip-invalid",
    is_flag=True,
    help="Leave out outputs with mistakes and unreadable files, count and name them, and score the rest.",
)
@options.option("--leave-one-out", is_flag=True, help="Score each human output against the other human ones.")
@_evaluation_options
def score(suite: str, **given: Any) -> int:
    """Score outputs of SUITE that were recorded elsewhere, store and print the results.

    SUITE is a suite file, cases (a file, a folder, or a pattern in quotes), or a source that holds both
    suite and outputs: tau-bench:FILE, agents-eval:FOLDER, or peerread:FOLDER with --leave-one-out.
    """
    _check_against(given)
    outputs = given["outputs"]
    if outputs is None and given["attempts_of"] is None:
        _check_no_traces(suite)
        if ":" not in suite:
            raise click.UsageError(
                "say what to score: --outputs FILE (SUITE again, if it holds them), or --attempts-of RUN"
            )
        outputs = suite
    if outputs is not None and given["attempts_of"] is not None:
        raise click.UsageError("--outputs and --attempts-of exclude each other")
    loaded = load_suite(suite, given)
    if given["until_decided"]:
        _check_saves(loaded, given)
    return evaluate_and_present(loaded, given | {"outputs": outputs})


def _check_against(given: Mapping[str, Any]) -> None:
    """Refuse --against without --until-decided or --confirm, and what belongs to these without it."""
    confirms = given.get("confirm") is not None
    if given["against"] is None and (confirms or given.get("base_agent") is not None):
        raise click.UsageError("--confirm CALLS needs --against RUN, the run to compare with")
    if confirms and given["until_decided"]:
        raise click.UsageError("--confirm and --until-decided exclude each other: confirm asks after the run")
    if given["against"] is not None and not (given["until_decided"] or confirms):
        raise click.UsageError(
            "--against says when --until-decided stops; give both. To compare whole runs: trivium compare "
            f"{given['against']} RUN"
        )


def _check_saves(suite: "Suite", given: Mapping[str, Any]) -> None:
    """Refuse --until-decided where it would save nothing."""
    for name in ("attempts_of", "leave_one_out"):
        if given[name]:
            raise click.UsageError(f"--until-decided and --{name.replace('_', '-')} exclude each other")
    if suite.settings.judge is None:
        raise click.UsageError("--until-decided saves judgements, and this suite has no judge")


def _check_no_traces(source: str) -> None:
    """Refuse traces where a suite is expected, and say how to score them."""
    from trivium.agents.recorded import TRACES
    from trivium.traces.readers.collection import trace_format

    path = source.removeprefix(TRACES)
    files = sorted(Path(path).iterdir()) if Path(path).is_dir() else [Path(path)]
    first = next((each for each in files if each.is_file()), None)
    if source.startswith(TRACES) or (first and trace_format(first, unless_key="case") is not None):
        raise click.UsageError(
            f"{path} holds traces, and no cases. To score them as they are: trivium traces score {path}. "
            f"To score them against a suite: trivium score SUITE --outputs {TRACES}{path}"
        )


def load_suite(source: str, given: Mapping[str, Any]) -> "Suite":
    """Load a suite and apply the options of the command line, as far as the command has them."""
    from trivium.suites.suite import Suite

    suite = Suite.load(source, config=given.get("config"))
    if (tag := given.get("tag")) is not None:
        suite = suite.filter(tag=tag)
    if (sample := given.get("sample")) is not None:
        suite = suite.sample(sample, seed=suite.settings.seed)
    changes = _changes(suite, given)
    return suite.with_settings(**changes) if changes else suite


def _changes(suite: "Suite", given: Mapping[str, Any]) -> "SettingKeywords":
    """Settings of a suite that the command line changes."""
    changes: SettingKeywords = {}
    if (encoder := given.get("encoder")) is not None:
        _check_encoder(encoder)
        changes["encoder"] = encoder
    if certificates := given.get("certificate"):
        changes["judge"] = {"certificate": list(certificates)}
    if (repeats := given.get("repeats")) is not None:
        changes["repeats"] = repeats
    if given.get("until_decided"):
        changes["until_decided"] = True
    if (policy := given.get("policy")) is not None:
        changes["decide"] = msgspec.structs.replace(suite.settings.decide, policy=policy)
    if (at_once := given.get("at_once")) is not None:
        changes["limits"] = msgspec.structs.replace(suite.settings.limits, attempts_at_once=at_once)
    return changes


def _check_encoder(name: str) -> None:
    """Refuse an encoder that cannot be loaded from a folder or from the hub."""
    from trivium.metrics.text.encoders.loading import load

    try:
        load(name)
    except EncoderUnavailable as error:
        raise InputError("", Problem("--encoder", str(error))) from None


def evaluate_and_present(suite: "Suite", given: dict[str, Any]) -> int:
    """Evaluate, print, write reports, and return the exit code; with --against, compare, too."""
    if given["against"] is None:
        return present_run(evaluate_suite(suite, given), given)
    from trivium.cli.compare import run_compare
    from trivium.runs.run import Run

    how = taken(("store", "policy"), given) | {"quiet": given["quiet"] or prints_document()}
    if given.get("confirm") is not None:
        Run.load(given["against"], store=given["store"])  # before anything is paid for
        how |= taken(("confirm", "agent", "base_agent", "version"), given)
        if how["agent"] is None:
            how["agent"] = suite.settings.agent
    run = evaluate_suite(suite, given if "confirm" not in how else given | {"against": None})
    code, compared = present_run(run, given), run_compare(given["against"], run.id, how)
    return code or compared


def evaluate_suite(suite: "Suite", given: Mapping[str, Any]) -> "Run":
    """Evaluate with a progress bar; if interrupted, print how to resume."""
    from trivium.runs.evaluate import EvaluationOptions, evaluate
    from trivium.suites.settings import Settings

    bar = ProgressBar(quiet=given["quiet"] or given["as_json"])
    # Settings are those of the suite, to which load_suite has applied the options.
    named = EvaluationOptions.__annotations__.keys() - (set(Settings.__struct_fields__) - {"agent"})
    chosen = {name: given[name] for name in named & given.keys()}
    try:
        with storing():
            return evaluate(suite, metrics=split_names(given["metrics"]), progress=bar, **chosen)
    except (KeyboardInterrupt, TriviumError, OSError, MemoryError) as error:
        if not isinstance(error, StoreLost):
            print_resume_hint(command_line(), bar.run, bar.done)
        if isinstance(error, OSError):  # such as too many open files
            raise InputError(str(error.filename or ""), error.strerror or str(error)) from error
        raise


def present_run(run: "Run", given: Mapping[str, Any]) -> int:
    """Print a run, write its reports, and return the exit code."""
    summary = stored_summary(run)
    then = ("trivium compare",) if _keep_answer(run, summary.attempts) else ()
    how = taken(Presentation, given) | {"slices": [run.slices(key) for key in given["by"]], "then": then}
    present(run, summary, Presentation(**how))
    return exit_code(summary)


COMPARED_AT_ONCE = 500
"""Most attempts of a run that is compared with the run before when it ends: it takes a second or less."""


def _keep_answer(run: "Run", attempts: int) -> bool:
    """Compare a run with the run before it, for lists of runs, and return whether there is one."""
    from trivium.store.browsing.before import before

    if not before(run.store, [run.id]):
        return False
    if attempts <= COMPARED_AT_ONCE and not run.store.read_only:
        from trivium.reports.before import answer_before

        with suppress(StoreError):  # this run is stored and shown, also where the run before cannot be read
            answer_before(run.store, run.id)
    return True
