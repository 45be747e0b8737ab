"""``trivium compare`` and ``confirm``: is a run worse than another? ``plan``: how many cases would tell?"""

import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trivium.cli import options
from trivium.cli.output import (
    DONE,
    WITH_ERRORS,
    ProgressBar,
    print_answer,
    show,
    storing,
    write_report,
    write_text,
)
from trivium.errors import StoreError
from trivium.keywords import taken

if TYPE_CHECKING:
    from trivium.runs.comparing.comparison import Comparison
    from trivium.runs.run import Run
    from trivium.store.store import Store


_EXIT_CODES = {"pass": 0, "fail": 1, "inconclusive": 4}


comparing = options.together(
    options.option(
        "--margin", type=float, help="The loss that does not matter (default: the suite's, 0.02)."
    ),
    options.option(
        "--level", type=float, help="Confidence level of the intervals (default: the suite's, 0.95)."
    ),
    options.option("--resamples", type=int, help="Bootstrap resamples (default: the suite's, 10000)."),
    options.option("--seed", type=int, help="Seed of the bootstrap (default: the suite's, 42)."),
    options.option("--graphs", is_flag=True, help="Also compare their traces: graph edges and times."),
    options.by,
    options.store,
    options.as_json,
    options.quiet,
    options.policy,
    options.about,
    options.option(
        "--cases",
        type=click.IntRange(min=0),
        help="Moved cases with outputs (default: 3; Markdown 5, JSON 100; the page always has all).",
    ),
    options.output_file("--html", help="Write one self-contained HTML page."),
    options.option("--base-page", metavar="FILE|URL", help="Page of BASE, to which the HTML page links."),
    options.option("--head-page", metavar="FILE|URL", help="Page of HEAD, to which the HTML page links."),
    options.output_file("--markdown", help="Write Markdown, for a comment."),
    options.output_file("--junit", help="Write JUnit XML, for CI: a case that broke is a failure."),
    options.output_file("--chart", help="Write the forest plot, as .svg or .png."),
    options.option(
        "--agent",
        metavar="PKG.MOD:NAME|URL|cmd:…|SUITE",
        help="HEAD's agent, to ask again (default: HEAD's own).",
    ),
    options.option(
        "--base-agent",
        metavar="…",
        help="BASE's agent, to ask again (default: BASE's own, if unchanged).",
    ),
    options.version,
)
"""The options of a comparison: how it is made, who may be asked again, and what is written."""


@options.command(
    "trivium compare                                    the two newest runs of the suite",
    "trivium compare 20261121-09 20261121-10 --cases 10",
    "trivium compare --html comparison.html --base-page before.html --head-page after.html",
    "trivium compare --markdown comment.md --policy strict --margin 0.05",
    "trivium compare --against-branch auto              in CI: with the run of the target branch",
)
@click.argument("base", required=False)
@click.argument("head", required=False)
@options.option(
    "--against-branch",
    metavar="BRANCH|auto",
    help="BASE is the run of where HEAD left this branch (auto: the pull request's target, else main).",
)
@options.option("--force", is_flag=True, help="Compare runs even if their settings differ.")
@options.option(
    "--confirm",
    type=click.IntRange(min=1),
    metavar="CALLS",
    help="First ask the agents again, at most so often: `trivium confirm`.",
)
@comparing
def compare(base: str | None, head: str | None, **given: Any) -> int:
    """Compare run HEAD with run BASE: is HEAD worse?

    HEAD defaults to the newest run, BASE to the previous run of the same suite. With --against-branch, git
    says which run is BASE, and the only argument is HEAD.

    Exit codes: 0 pass, 1 fail; 4 inconclusive (with --policy proof if nothing is proven, else if nothing was
    measured); 3 if judgements or other due results are missing or in error; 2 if the runs cannot be compared.
    """
    if given["confirm"] is None:
        for name in ("agent", "base_agent"):
            if given[name] is not None:
                option = name.replace("_", "-")
                raise click.UsageError(f"--{option} says who is asked again: it needs --confirm CALLS")
    return run_compare(base, head, given)


@options.command(
    "trivium confirm --calls 60",
    "trivium confirm 20261121-09 20261121-10 --calls 60 --base-agent ../before/app.py:answer",
)
@click.argument("base", required=False)
@click.argument("head", required=False)
@options.option(
    "--calls",
    type=click.IntRange(min=1),
    required=True,
    help="Most calls of the agents, of both sides together.",
)
@comparing
def confirm(base: str | None, head: str | None, **given: Any) -> int:
    """Decide whether run HEAD is worse than run BASE by asking their agents again, where that tells most.

    HEAD defaults to the newest run, BASE to the previous run of the same suite. The further attempts are
    stored, and a command that was interrupted goes on if it is given again.

    Exit codes: those of `trivium compare`.
    """
    return run_compare(base, head, given | {"confirm": given["calls"], "force": False})


def run_compare(base: str | None, head: str | None, given: Mapping[str, Any]) -> int:
    """Compare two runs, print and write what is asked for, and return the exit code.

    Args:
        base: Id of the baseline run; None for the previous run of the suite.
        head: Id of the candidate run; None for the newest.
        given: The store, and the options of ``trivium compare`` that are given.
    """
    from trivium.runs.comparing.compare import compare as compare_runs
    from trivium.runs.run import Run, previous_run
    from trivium.store.store import Store

    statistics = taken(signature(compare_runs).parameters.keys() & given.keys(), given)
    given = defaultdict(lambda: None, given)
    store = Store(given["store"], read_only=True)
    if (branch := given["against_branch"]) is not None:
        if head is not None:
            raise click.UsageError("--against-branch says which run is BASE: name HEAD alone")
        newer = Run.load(base, store=store)
        older = _run_of_branch(newer, branch, quiet=given["quiet"])
    else:
        newer = Run.load(head, store=store)
        older = previous_run(newer) if base is None else Run.load(base, store=store)
    if given["confirm"] is not None:
        _ask_again(older, newer, given)
    comparison = compare_runs(older, newer, **statistics)
    _present(comparison, as_json=given["as_json"], quiet=given["quiet"], cases=given["cases"])
    _write_reports(comparison, given)
    if comparison.missing and comparison.answer != "fail":
        if given["quiet"]:
            from trivium.reports.comparison import what_is_missing

            click.echo(what_is_missing(comparison), err=True)
        return WITH_ERRORS
    return _EXIT_CODES[comparison.answer]


def _run_of_branch(head: "Run", branch: str, *, quiet: bool) -> "Run":
    """Return the run of the commit at which head left a branch, and say which it is."""
    from trivium.runs.comparing.base_run import base_of_branch

    found = base_of_branch(head, branch, folder=Path.cwd(), environment=os.environ)
    if not quiet:
        click.echo(found.why, err=True)
    return found.run


def _present(comparison: "Comparison", *, as_json: bool, quiet: bool, cases: int | None) -> None:
    if as_json:
        from trivium.reports.moved_cases.document import CASES_WITH_TEXTS, comparison_json

        for part in comparison_json(comparison, cases=CASES_WITH_TEXTS if cases is None else cases):
            click.echo(part, nl=False)
        click.echo()
    elif not quiet:
        from trivium.reports.comparison import describe

        show(describe(comparison, "terminal", cases=cases))


def _write_reports(comparison: "Comparison", given: Mapping[str, Any]) -> None:
    from trivium.reports.comparison import render_markdown, write_chart, write_html
    from trivium.reports.junit import comparison_junit

    links = {
        name: _address(page, given["html"])
        for name in ("base", "head")
        if given["html"] is not None and (page := given[f"{name}_page"]) is not None
    }
    writers: dict[str, Callable[[Path], object]] = {
        "html": lambda path: write_html(path, comparison, links=links),
        "markdown": lambda path: write_text(path, [render_markdown(comparison, cases=given["cases"])]),
        "junit": lambda path: write_text(path, comparison_junit(comparison)),
        "chart": lambda path: write_chart(path, comparison),
    }
    for name, write in writers.items():
        if given[name] is not None:
            write_report(given[name], write)


def _address(page: str, path: Path) -> str:
    """The address of a page from another: a relative path for a file."""
    if page.startswith(("http:", "https:")):
        return page
    return Path(os.path.relpath(page, path.parent)).as_posix()


@options.command(
    "trivium plan --detect 0.05",
    "trivium plan suite.yaml --detect 0.05",
    "trivium plan 20261121-09 20261121-10 --detect 0.02 --metric composite",
)
@click.argument("base", required=False, metavar="[SUITE|BASE]")
@click.argument("head", required=False)
@options.option(
    "--detect",
    type=float,
    required=True,
    metavar="DIFFERENCE",
    help="The true difference that is to be found, such as 0.05.",
)
@options.option("--metric", metavar="NAME", help="The metric (default: pass_rate, else composite).")
@options.option("--power", type=float, default=0.8, help="Probability of finding it.")
@options.option("--level", type=float, help="Confidence level of the interval (default: the suite's, 0.95).")
@options.store
@options.as_json
def plan(base: str | None, head: str | None, **given: Any) -> int:
    """Say how many cases and repeats a comparison needs to detect a difference.

    The variance comes from runs BASE and HEAD, by default the two newest comparable ones of SUITE (a file
    or a name), or of the suite that was run last. One run alone (BASE without HEAD, or a suite with a
    single run) gives an upper bound.
    """
    from trivium.reports.plan import describe
    from trivium.runs.comparing.planning import plan as plan_comparison
    from trivium.runs.run import Run
    from trivium.store.store import Store

    store = Store(given["store"], read_only=True)
    if base is not None and head is not None:
        pilot: Run | tuple[Run, Run] = (Run.load(base, store=store), Run.load(head, store=store))
    elif base is None:
        pilot = _with_one_before(Run.load(None, store=store))
    elif (newest := _newest_of_suite(base, store)) is not None:
        pilot = _with_one_before(newest)
    else:
        pilot = Run.load(base, store=store)
    found = plan_comparison(pilot, **{name: given[name] for name in ("detect", "metric", "power", "level")})
    print_answer(found, describe, as_json=given["as_json"])
    return DONE


def _with_one_before(newest: "Run") -> "Run | tuple[Run, Run]":
    """A run with the last one before it that it can be compared with, if there is one."""
    from trivium.runs.comparing.decision import incomparabilities
    from trivium.runs.run import earlier_runs

    alike = (one for one in earlier_runs(newest) if not any(incomparabilities(one, newest)))
    before = next(alike, None)
    return newest if before is None else (before, newest)


def _newest_of_suite(suite: str, store: "Store") -> "Run | None":
    """The newest run of a suite, which is a file or a name; None if it is neither."""
    from trivium.runs.run import Run
    from trivium.suites.suite import Suite

    is_file = Path(suite).exists()
    name = Suite.load(suite).name if is_file else suite
    found = next((each for each in store.runs() if each.suite_name == name and each.kind != "confirm"), None)
    if found is None and is_file:
        raise StoreError(f'{store.name}: no run of suite "{name}" is stored: run it once, then plan')
    return None if found is None else Run(store, found)


def _ask_again(base: "Run", head: "Run", given: Mapping[str, Any]) -> None:
    """Make the attempts that confirm a comparison, with a progress bar; say what they cost at most."""
    from trivium.runs.confirming.confirm import ConfirmationOptions
    from trivium.runs.confirming.confirm import confirm as confirm_runs

    quiet, calls = given["quiet"] or given["as_json"], given["confirm"]
    if not quiet:
        click.echo(_beforehand(base, head, calls), err=True)
    bar = ProgressBar(quiet=quiet)
    try:
        with storing():
            found = confirm_runs(base, head, calls=calls, progress=bar, **taken(ConfirmationOptions, given))
        if found.confirmed is None and not quiet:
            click.echo("no call was made: none would change the answer", err=True)
    except KeyboardInterrupt:
        stored = f"{bar.done:,} of {calls:,} calls are stored"
        command = f"trivium confirm {base.id} {head.id} --calls {calls}"
        click.echo(f"\nInterrupted: {stored}. To go on, with the same options:\n  {command}", err=True)
        raise


def _beforehand(base: "Run", head: "Run", calls: int) -> str:
    from trivium.reports.comparison import cost_of
    from trivium.runs.comparing.earlier_runs import calls_of
    from trivium.values import counted

    text = f"asking again: at most {counted(calls, 'call')}"
    made = calls_of([base.record, head.record])
    if made.attempts and (cost := cost_of(made, times=calls / made.attempts)):
        text += f", about {cost} if a call costs what an attempt of these runs did"
    return text
