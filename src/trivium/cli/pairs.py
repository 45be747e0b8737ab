"""``trivium pairs``: has a judge say, case by case, which of two runs has the better output."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trivium.cli import options

if TYPE_CHECKING:
    from trivium.runs.pairwise_result import PairComparison
    from trivium.suites.settings import JudgeSettings

_PATH = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("base")
@click.argument("head")
@options.option("--models", metavar="A,B,…", help="Who judges, in place of the models of head's suite.")
@options.option(
    "--rubric", multiple=True, metavar="NAME|FILE", help="By what, in place of the suite's; may be repeated."
)
@options.option("--samples", type=click.IntRange(min=1), help="Answers asked for each order of a pair.")
@options.option("--panel", is_flag=True, help="Let all models judge, not the first that answers.")
@options.option(
    "--budget-usd",
    type=click.FloatRange(min=0),
    metavar="USD",
    help="Most that this comparison may spend, in place of the suite's budget_usd for a run.",
)
@options.option(
    "--output", type=_PATH, metavar="FILE", help="Write every pair here, one JSON document a line."
)
@options.option("--markdown", type=_PATH, metavar="FILE", help="Write Markdown, for a comment.")
@options.store
@options.as_json
@options.quiet
def pairs(base: str, head: str, store: str, as_json: bool, quiet: bool, **given: Any) -> int:
    """Let a judge say, case by case, whether the outputs of run HEAD are better than those of BASE.

    Every pair is shown in both orders; orders that contradict each other make a tie, and tell how much the
    judge goes by the place. What it costs is told below the table, of a budget that is the comparison's own,
    whatever the runs spent. Ends with 3 where pairs got no answer.
    """
    import msgspec

    from trivium.cli.output import DONE, WITH_ERRORS, print_json, write_report
    from trivium.runs.pairwise import judge_pairs
    from trivium.runs.run import Run
    from trivium.suites.settings import Settings

    newer = Run.load(head, store=store)
    judge = _judge_settings(msgspec.convert(newer.record.settings, Settings).judge, given)
    found = judge_pairs(Run.load(base, store=newer.store), newer, judge=judge)
    if as_json:
        print_json(found)
    elif not quiet:
        from trivium.cli.output import show
        from trivium.reports.pairwise import PairTable

        show(PairTable(found))
    elif found.errors:
        click.echo(f"{found.errors:,} of {len(found.pairs):,} pairs got no answer from any judge", err=True)
    if given["output"] is not None:
        write_report(given["output"], lambda path: path.write_bytes(_lines(found)))
    if given["markdown"] is not None:
        write_report(given["markdown"], lambda path: path.write_bytes(_markdown(found)))
    return WITH_ERRORS if found.errors else DONE


def _judge_settings(judge: "JudgeSettings | None", given: dict[str, Any]) -> "JudgeSettings | None":
    """The judge of the suite, changed by the options of the command line."""
    import msgspec

    from trivium.suites.rubrics.rubric import Rubric
    from trivium.suites.settings import JudgeSettings

    changes: dict[str, Any] = {}
    if (models := options.split_names(given["models"])) is not None:
        changes |= {"models": tuple(models), "models_by_complexity": {}}
    if given["rubric"]:
        changes["rubric"] = tuple(Rubric.load(each) for each in given["rubric"])
    changes |= {name: given[name] for name in ("samples", "budget_usd") if given[name] is not None}
    if given["panel"]:
        changes["panel"] = True
    if judge is None and "models" not in changes:
        return None
    return msgspec.structs.replace(judge or JudgeSettings(), **changes)


def _lines(found: "PairComparison") -> bytes:
    import msgspec

    return b"".join(msgspec.json.encode(pair) + b"\n" for pair in found.pairs)


def _markdown(found: "PairComparison") -> bytes:
    from trivium.reports.pairwise import render_markdown

    return render_markdown(found).encode()
