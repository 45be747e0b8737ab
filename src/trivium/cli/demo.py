"""``trivium demo``: runs an example, scores it and writes its pages."""

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from trivium.cli import options
from trivium.errors import InputError, MissingExtra, TriviumError
from trivium.runs.summary import Figure

TEXT_METRICS = ("semantic", "cosine", "jaccard", "similarity")
"""Metrics of the people's reviews; there are no traces of how they were written."""

JUDGE_TOKEN_BUDGET = 500_000
"""Budget of the judge; six reviews take about 40,000 tokens, 120 answers about 200,000."""


@click.command(
    epilog=options.examples(
        "trivium demo",
        "trivium demo papers",
    )
)
@click.argument("example", type=options.Choice(["documents", "papers"]), default="documents")
@options.option(
    "--output",
    type=click.Path(),
    metavar="PATH",
    help="Where the pages go.  [default: the folder trivium-demo; of papers the file trivium-demo.html]",
)
@options.option(
    "--judge",
    metavar="MODEL",
    help="Who judges, such as ollama:llama3.  [default: OpenAI or Anthropic, whichever has a key]",
)
@options.demo_encoder
@options.store
@options.as_json
@options.quiet
def demo(
    example: str,
    output: str | None,
    judge: str | None,
    encoder: str | None,
    store: str,
    *,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run an EXAMPLE and write its pages: documents (the default) or papers.

    documents: two versions of an agent answer sixty questions about twelve documents. They are compared, and
    a judge is checked against people's labels. Without a key a rule-based stand-in judges.

    papers: four agents review six short papers; each review is compared with those that people wrote. With
    OPENAI_API_KEY or ANTHROPIC_API_KEY set, a language model does the work and another judges it; without,
    rules do it and the judge is off.

    A live judge costs a few cents at most.
    """
    settings: dict[str, Any] = {"judge": judge, "encoder": encoder, "store": store}
    if example == "papers":
        return _papers(output or "trivium-demo.html", **settings, as_json=as_json, quiet=quiet)
    return _documents(Path(output or "trivium-demo"), **settings, as_json=as_json, quiet=quiet)


def _documents(
    folder: Path, *, judge: str | None, encoder: str | None, store: str, as_json: bool, quiet: bool
) -> int:
    from trivium.cli import demo_documents as documents
    from trivium.cli.output import exit_code, print_json, stored_summary

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(str(folder), f"cannot be written: {error.strerror or error}") from error
    found = documents.run_documents(
        example_folder("document_qa"),
        judge=judge or available_judge()[0],
        budget_tokens=JUDGE_TOKEN_BUDGET,
        encoder=encoder,
        store=store,
        show_progress=not (quiet or as_json),
    )
    page, why_not = None, None
    try:
        page = documents.write_pages(found, folder)
    except MissingExtra as missing:  # the answer stands without them
        why_not = str(missing)
    except OSError as error:
        raise InputError(str(folder), f"cannot be written: {error.strerror or error}") from error
    if as_json:
        print_json(documents.as_document(found, page))
    elif not quiet:
        click.echo(documents.as_lines(documents.first_line(found), indent=0))
        click.echo()
        for line in documents.last_lines(found, str(page or why_not)):
            click.echo(documents.as_lines(line))
    return exit_code(stored_summary(found.b))


def _papers(
    output: str, *, judge: str | None, encoder: str | None, store: str, as_json: bool, quiet: bool
) -> int:
    """Run the example reviewer on its papers, score it, print the table and write a report."""
    from trivium.cli.output import Presentation, ProgressBar, exit_code, present, stored_summary
    from trivium.cli.run import load_suite
    from trivium.runs.evaluate import evaluate

    folder = example_folder("paper_review")
    reviewer = _reviewer(folder)
    suite = load_suite(str(folder / "suite.yaml"), {"encoder": encoder})
    evaluate(
        suite,
        outputs=f"peerread:{folder / 'papers'}",
        leave_one_out=True,
        metrics=TEXT_METRICS,
        store=store,
    )
    judge, off = (judge, None) if judge is not None else available_judge()
    if judge is not None:
        suite = suite.with_settings(judge={"models": [judge], "budget_tokens": JUDGE_TOKEN_BUDGET})
    run = evaluate(suite, agent=reviewer, store=store, progress=ProgressBar(quiet=quiet or as_json))
    summary = stored_summary(run)
    present(run, summary, Presentation(as_json=as_json, quiet=quiet, html=Path(output)))
    if not (as_json or quiet):
        if off is not None:
            click.echo(f"The judge is off: {off}")
        for missing in _left_out(summary.metrics):
            click.echo(f"Left out: {missing}")
        click.echo(f"Open {output} in a browser: every review next to the human ones, with its trace.")
    return exit_code(summary)


def example_folder(name: str) -> Path:
    """Where an example is: inside the installed package, or at the root of a checkout.

    Raises:
        TriviumError: If it is in neither.
    """
    package = Path(__file__).parents[1]
    for home in (package, package.parents[1]):
        folder = home / "examples" / name
        if (folder / "suite.yaml").exists():
            return folder
    raise TriviumError(f"the example {name} is not installed with this copy of Trivium")


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


def available_judge() -> tuple[str | None, str | None]:
    """Return the model that judges, or None and the reason why none is available."""
    from trivium.cli.doctor import JUDGES
    from trivium.metrics.judge.client.pydantic_ai_models import why_unavailable

    off = {model: why_unavailable(model) for model in JUDGES.values()}
    judge = next((model for model, why in off.items() if why is None), None)
    return judge, None if judge is not None else "; ".join(why for why in off.values() if why is not None)


def _left_out(metrics: Mapping[str, Figure]) -> Iterator[str]:
    semantic = metrics.get("semantic")
    if semantic is None or semantic.mean is None:
        yield "the semantic score, which needs an encoder: --encoder FOLDER, or a first run with a network"
