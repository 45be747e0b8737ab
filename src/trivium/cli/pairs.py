"""``trivium pairs``: a judge says for each case which of two runs has the better output."""

from typing import TYPE_CHECKING, Any

import click
import msgspec

from trivium.cli import options
from trivium.cli.output import DONE, WITH_ERRORS, print_answer, write_report

if TYPE_CHECKING:
    from trivium.suites.settings import JudgeSettings


@options.command("trivium pairs 20261121-09 20261121-10 --models openai:gpt-4o-mini")
@click.argument("base")
@click.argument("head")
@options.option("--models", metavar="A,B,…", help="Judge models, instead of those of head's suite.")
@options.option(
    "--rubric", multiple=True, metavar="NAME|FILE", help="Rubric, instead of the suite's; may be repeated."
)
@options.option("--samples", type=click.IntRange(min=1), help="Answers asked for each order of a pair.")
@options.option("--panel", is_flag=True, help="Ask all models, not only the first that answers.")
@options.option(
    "--budget-usd",
    type=click.FloatRange(min=0),
    metavar="USD",
    help="Budget of this comparison, instead of the suite's budget_usd.",
)
@options.option(
    "--until-decided",
    is_flag=True,
    help="Judge in random order, and only until it is decided which run wins more.",
)
@options.output_file("--output", help="Write every pair here, one JSON document per line.")
@options.output_file("--markdown", help="Write Markdown, for a comment.")
@options.store
@options.as_json
@options.quiet
def pairs(base: str, head: str, store: str, as_json: bool, quiet: bool, **given: Any) -> int:
    """Let a judge say for each case whether the output of run HEAD is better than that of BASE.

    The judge sees every pair in both orders. Contradicting verdicts count as a tie and measure the judge's
    position bias. The cost is printed below the table; a comparison has its own budget, independent of the
    runs. Exit code 3: some pairs got no verdict.
    """
    from trivium.reports.pairwise import describe, render_markdown
    from trivium.runs.pairwise import judge_pairs
    from trivium.runs.run import Run

    newer = Run.load(head, store=store)
    judge = _judge_settings(newer.record.settings.judge, given)
    comparison = judge_pairs(
        Run.load(base, store=newer.store), newer, judge=judge, until_decided=given["until_decided"]
    )
    if as_json or not quiet:
        print_answer(comparison, lambda found: describe(found, "terminal"), as_json=as_json)
    elif comparison.errors:
        click.echo(
            f"{comparison.errors:,} of {len(comparison.pairs):,} pairs got no answer from any judge", err=True
        )
    if given["output"] is not None:
        write_report(given["output"], msgspec.json.Encoder().encode_lines(comparison.pairs))
    if given["markdown"] is not None:
        write_report(given["markdown"], [render_markdown(comparison)])
    return WITH_ERRORS if comparison.errors else DONE


def _judge_settings(judge: "JudgeSettings | None", given: dict[str, Any]) -> "JudgeSettings | None":
    """Return the suite's judge settings, changed by the options of the command line."""
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
