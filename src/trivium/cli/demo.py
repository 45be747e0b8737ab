"""``trivium demo``: the example reviewer on its papers, from asking to report."""

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
"""What people's reviews are scored by: nobody recorded what the people did to write them."""


@click.command()
@options.option(
    "--output",
    type=click.Path(dir_okay=False),
    default="trivium-demo.html",
    show_default=True,
    metavar="FILE",
    help="The report to write.",
)
@options.encoder
@options.store
@options.as_json
@options.quiet
def demo(output: str, encoder: str | None, store: str, *, as_json: bool, quiet: bool) -> int:
    """Run the example reviewer on its papers, score it, print the table and write a report.

    Four agents review six short papers; each review is compared with the reviews that come with the paper,
    and those with one another. With OPENAI_API_KEY or ANTHROPIC_API_KEY set, a language model does the work;
    without, rules do.
    """
    from trivium.cli.evaluating import load_suite
    from trivium.cli.outcome import exit_code, just_made, present
    from trivium.cli.progress import ProgressBar
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
    run = evaluate(suite, agent=reviewer, store=store, progress=ProgressBar(quiet=quiet or as_json))
    summary = just_made(run)
    present(run, summary, as_json=as_json, quiet=quiet, html=output)
    if not (as_json or quiet):
        for missing in _left_out(summary.metrics):
            click.echo(f"Left out: {missing}")
        click.echo(f"Open {output} in a browser: every review beside the people's, and how it came about.")
    return exit_code(summary, inconclusive=None)


def example_folder() -> Path:
    """Where the example is: inside the installed package, or at the root of a checkout.

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


def _left_out(metrics: Mapping[str, Figure]) -> Iterator[str]:
    semantic, judged = metrics.get("semantic"), metrics.get("planning_rationality")
    if semantic is None or semantic.mean is None:
        yield "the semantic score, which needs an encoder: --encoder FOLDER, or a first run with a network"
    if judged is None or judged.mean is None:
        yield "planning_rationality, which needs a language model as judge"
