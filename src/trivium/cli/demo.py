"""``trivium demo``: runs the example reviewer on its papers, scores it and writes a report."""

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from trivium.cli import options
from trivium.errors import MissingExtra, TriviumError
from trivium.runs.summary import Figure

TEXT_METRICS = ("semantic", "cosine", "jaccard", "similarity")
"""Metrics of the human reviews, which have no traces."""

JUDGE_TOKEN_BUDGET = 500_000
"""The judge's budget; six reviews take about 40,000 tokens."""


@click.command()
@options.option(
    "--output",
    type=click.Path(dir_okay=False),
    default="trivium-demo.html",
    show_default=True,
    metavar="FILE",
    help="The report to write.",
)
@options.option(
    "--judge",
    metavar="MODEL",
    help="The judge model, such as ollama:llama3.  [default: OpenAI or Anthropic, whichever has a key]",
)
@options.demo_encoder
@options.store
@options.as_json
@options.quiet
def demo(
    output: str, judge: str | None, encoder: str | None, store: str, *, as_json: bool, quiet: bool
) -> int:
    """Run the example reviewer on its papers, score it, print the table and write a report.

    Four agents review six short papers. Their reviews are scored against the human reviews of each paper, and
    the human reviews against each other. With OPENAI_API_KEY or ANTHROPIC_API_KEY set, a model writes the
    reviews and another judges them, for a few cents at most. Without a key, rule-based agents write them and
    the judge stays off.
    """
    from trivium.cli.output import ProgressBar, exit_code, present, stored_summary
    from trivium.cli.run import load_suite
    from trivium.runs.evaluate import evaluate

    folder = example_folder()
    reviewer = _reviewer(folder)
    suite = load_suite(str(folder / "suite.yaml"), encoder=encoder)
    evaluate(
        suite,
        outputs=f"peerread:{folder / 'papers'}",
        leave_one_out=True,
        metrics=TEXT_METRICS,
        store=store,
    )
    judge, off = (judge, None) if judge is not None else _judge()
    if judge is not None:
        suite = suite.with_settings(judge={"models": [judge], "budget_tokens": JUDGE_TOKEN_BUDGET})
    run = evaluate(suite, agent=reviewer, store=store, progress=ProgressBar(quiet=quiet or as_json))
    summary = stored_summary(run)
    present(run, summary, as_json=as_json, quiet=quiet, html=output)
    if not (as_json or quiet):
        if off is not None:
            click.echo(f"The judge is off: {off}")
        for missing in _left_out(summary.metrics):
            click.echo(f"Left out: {missing}")
        click.echo(f"Open {output} in a browser: every review next to the human ones, with its trace.")
    return exit_code(summary, inconclusive=None)


def example_folder() -> Path:
    """Return the folder of the example, in the installed package or at the root of a checkout.

    Raises:
        TriviumError: If it is in neither.
    """
    package = Path(__file__).parents[1]
    for home in (package, package.parents[1]):
        folder = home / "examples" / "paper_review"
        if (folder / "suite.yaml").exists():
            return folder
    raise TriviumError("the example paper_review is not installed with this copy of Trivium")


def _reviewer(folder: Path) -> Any:
    sys.path.insert(0, str(folder.parent))
    try:
        return import_module("paper_review.reviewers").reviewer
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("paper_review"):
            raise
        raise MissingExtra("judge", "the demo's reviewer") from error
    finally:
        sys.path.remove(str(folder.parent))


def _judge() -> tuple[str | None, str | None]:
    """Return the model that judges, or None and the reason why none is available."""
    from trivium.cli.doctor import JUDGES
    from trivium.metrics.judge.client.model_factory import why_unavailable

    off = {model: why_unavailable(model) for model in JUDGES.values()}
    judge = next((model for model, why in off.items() if why is None), None)
    return judge, None if judge is not None else "; ".join(why for why in off.values() if why is not None)


def _left_out(metrics: Mapping[str, Figure]) -> Iterator[str]:
    semantic = metrics.get("semantic")
    if semantic is None or semantic.mean is None:
        yield "the semantic score, which needs an encoder: --encoder FOLDER, or a first run with a network"
