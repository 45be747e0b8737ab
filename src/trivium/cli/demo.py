"""``trivium demo``: runs an example, scores it and writes its pages.

The example of the documents compares two versions of an agent, and checks the judge against people.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from trivium.cli import options
from trivium.cli.output import (
    Presentation,
    ProgressBar,
    exit_code,
    present,
    print_answer,
    run_page,
    stored_summary,
)
from trivium.errors import MissingExtra, TriviumError
from trivium.storage import writable

if TYPE_CHECKING:
    from trivium.reports.document.blocks import Block
    from trivium.runs.artifacts.curve import CurveArtifact
    from trivium.runs.artifacts.judge import AgreementAnswer, CertificateAnswer
    from trivium.runs.comparing.comparison import Comparison, MetricDelta
    from trivium.runs.run import Run
    from trivium.suites.suite import Suite


TEXT_METRICS = ("semantic", "cosine", "jaccard", "similarity")
"""Metrics of the people's reviews; there are no traces of how they were written."""

JUDGE_TOKEN_BUDGET = 500_000
"""Budget of the judge; six reviews take about 40,000 tokens, 120 answers about 200,000."""

STAND_IN = "python:document_qa.judge:stand_in"

DIMENSION = "correct"
"""The labels that people gave."""

EPSILON, DELTA = 0.2, 0.1
"""Of the certificate: the share of accepted judgements that may be wrong, and the chance that more are."""

NEED_AN_ENCODER = "semantic"


@options.command("trivium demo", "trivium demo papers")
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
    with writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
    example, judge = example_folder("document_qa"), judge or available_judge()[0] or STAND_IN
    suite = _suite(example, encoder)
    found = run_documents(example, suite, judge=judge, store=store, quiet=quiet or as_json)
    page, why_not = None, ""
    try:
        with writable(folder):
            page = write_pages(found, folder)
    except MissingExtra as missing:  # the answer stands without them
        why_not = str(missing)
    if as_json or not quiet:
        print_answer(as_document(found, page), lambda _: _shown(found, str(page or why_not)), as_json=as_json)
    return exit_code(stored_summary(found.b))


def _papers(
    output: str, *, judge: str | None, encoder: str | None, store: str, as_json: bool, quiet: bool
) -> int:
    """Run the example reviewer on its papers, score it, print the table and write a report."""
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
        suite = _judged_by(suite, judge)
    run = evaluate(suite, agent=reviewer, store=store, progress=ProgressBar(quiet=quiet or as_json))
    summary = stored_summary(run)
    present(run, summary, Presentation(as_json=as_json, quiet=quiet, html=Path(output)))
    if not (as_json or quiet):
        if off is not None:
            click.echo(f"The judge is off: {off}")
        semantic = summary.metrics.get("semantic")
        if semantic is None or semantic.mean is None:
            click.echo(f"Left out: {NO_SEMANTIC_SCORE}")
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
    try:
        with _importable(folder.parent):
            return import_module("paper_review.reviewers").reviewer
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("paper_review"):
            raise
        raise MissingExtra("judge", "the demo's reviewer") from error


def available_judge() -> tuple[str | None, str | None]:
    """Return the model that judges, or None and the reason why none is available."""
    from trivium.cli.doctor import JUDGES
    from trivium.metrics.judge.client.pydantic_ai_models import why_unavailable

    off = {model: why_unavailable(model) for model in JUDGES.values()}
    judge = next((model for model, why in off.items() if why is None), None)
    return judge, None if judge is not None else "; ".join(why for why in off.values() if why is not None)


NO_SEMANTIC_SCORE = (
    "the semantic score, which needs an encoder: --encoder FOLDER, or a first run with a network"
)


def _judged_by(suite: "Suite", model: str) -> "Suite":
    return suite.with_settings(judge={"models": [model], "budget_tokens": JUDGE_TOKEN_BUDGET})


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of the demo.

    Attributes:
        a: The run of the first version.
        b: The run of the second.
        comparison: b against a.
        judge: Who judged.
        agreement: Of the judge with people, on the answers of b.
        certificate: From which confidence on the judge may decide.
        curve: Risk and coverage of the judge.
    """

    a: "Run"
    b: "Run"
    comparison: "Comparison"
    judge: str
    agreement: "AgreementAnswer"
    certificate: "CertificateAnswer"
    curve: "CurveArtifact"

    @property
    def is_stand_in(self) -> bool:
        """Whether rules judged in the place of a language model."""
        return self.judge == STAND_IN


def run_documents(folder: Path, suite: "Suite", *, judge: str, store: str, quiet: bool) -> Result:
    """Run both versions, compare them, and check the judge against people's labels.

    Args:
        folder: Where the example is.
        suite: Its suite.
        judge: A model, or the stand-in.
        store: Where the runs go.
        quiet: Whether no bar is drawn.

    Raises:
        MissingExtra: If ``trivium[judge]`` is not installed, which the stand-in needs too.
    """
    from trivium.labels.files import import_labels
    from trivium.runs.artifacts.curve import CurveOptions, curve_artifact
    from trivium.runs.artifacts.judge import agreement_answer, certificate
    from trivium.runs.comparing.compare import compare
    from trivium.runs.evaluate import evaluate

    if judge != STAND_IN:
        suite = _judged_by(suite, judge)
    agents = {version: f"document_qa.agents:version_{version.lower()}" for version in "AB"}
    with _importable(folder.parent):
        a, b = (
            evaluate(suite, agent=agent, version=version, store=store, progress=ProgressBar(quiet=quiet))
            for version, agent in agents.items()
        )
        comparison = compare(a, b, graphs=True)
    labels = folder / "labels.csv"
    import_labels(b.store, b.record, labels, by="authors", now=time.time())
    items = b.items(dimension=DIMENSION, labels=labels)
    if judge == STAND_IN:  # its mistakes are drawn question by question
        items = items.one_by_one()
    sure = "verbalized"
    return Result(
        a=a,
        b=b,
        comparison=comparison,
        judge=judge,
        agreement=agreement_answer(items),
        certificate=certificate(items, sure, epsilon=EPSILON, delta=DELTA),
        curve=curve_artifact([items], CurveOptions(confidence=sure, drawn=True)),
    )


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let modules be found in a folder for a while."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _suite(folder: Path, encoder: str | None) -> "Suite":
    """The suite of the example; where there is no encoder, without the metrics that need one."""
    from trivium.cli.run import load_suite

    suite = load_suite(str(folder / "suite.yaml"), {"encoder": encoder})
    if suite.settings.encoder is not None:
        return suite
    named = [name for name in suite.settings.metrics or () if name != NEED_AN_ENCODER]
    return suite.with_settings(metrics=["cosine", *named])


def write_pages(result: Result, folder: Path) -> Path:
    """Write the comparison, both runs and the judge's curve as pages into a folder; return the first.

    Raises:
        InputError: If one cannot be written.
        MissingExtra: If ``trivium[report]`` is not installed.
    """
    from trivium.reports.comparison import write_html
    from trivium.reports.trust.page import curve_page

    for run, name in ((result.a, "a.html"), (result.b, "b.html")):
        run_page(run, folder / name)
    (folder / "judge.html").write_text(curve_page(result.curve), encoding="utf-8")
    first = folder / "index.html"
    write_html(
        first,
        result.comparison,
        links={"base": "a.html", "head": "b.html", "The judge against people": "judge.html"},
    )
    return first


def as_document(result: Result, page: Path | None) -> dict[str, Any]:
    """What ``--json`` prints."""
    return {
        "a": stored_summary(result.a),
        "b": stored_summary(result.b),
        "comparison": result.comparison,
        "judge": {
            "model": result.judge,
            "stand_in": result.is_stand_in,
            "agreement": result.agreement,
            "certificate": result.certificate,
        },
        "page": None if page is None else str(page),
    }


def _shown(result: Result, page: str) -> "Iterator[Block]":
    from trivium.reports.document.blocks import Facts, Paragraph
    from trivium.reports.wording import known_share

    who = "a rule-based stand-in, as no key is set" if result.is_stand_in else result.judge
    figure = result.comparison.metrics["pass_rate"]
    yield Paragraph((f"Two versions of an agent answered {figure.n} questions. Judge: {who}.",))
    difference = _difference(figure, result.comparison)
    rows = {"answer": f"{_whether_to_ship(result.comparison)} Pass rate: {difference}."}
    for version, run in (("A", result.a), ("B", result.b)):
        rate = stored_summary(run).pass_rate
        rows[version] = f"{known_share(rate.value, rate.ci95)} of the answers are right"
    rows["stand-in" if result.is_stand_in else "judge"] = _judge_against_people(result)
    rows |= {"page": page, "browse": "trivium view"}
    yield Facts(tuple(rows.items()))


def _difference(figure: "MetricDelta", comparison: "Comparison") -> str:
    from trivium.reports.wording import known_share

    if figure.delta is None:
        return "nothing to compare"
    delta, *ends = (f"{100 * each:+.0f}".replace("-", "−") for each in (figure.delta, *(figure.ci95 or ())))
    said = f"{delta} points" + (f" [{', '.join(ends)}]" if ends else "")
    if figure.answer != "inconclusive" or figure.probability is None:
        return f"{said}: {figure.answer}"
    margin = f"{100 * comparison.margin:g} points"
    loss = f"a loss of more than {margin} has a probability of {known_share(figure.probability)}"
    more = f"; about {figure.needs_cases:,} more questions would settle it" if figure.needs_cases else ""
    return f"{said}; {loss}{more}"


SHIP = {
    "pass": "B may ship",
    "fail": "B should not ship",
    "inconclusive": "nobody can tell yet whether B should ship",
}


def _whether_to_ship(comparison: "Comparison") -> str:
    from trivium.reports.comparison import verdict_words
    from trivium.runs.comparing.decision import listed

    aside = [name for name in comparison.failing if name not in comparison.decided_by]
    if aside:
        why = f"{listed(aside)} got worse beyond what chance explains"
    else:
        why = verdict_words(comparison).lower()
    return f"{SHIP[comparison.answer]}: {why}."


def _judge_against_people(result: Result) -> str:
    from trivium.reports.wording import known_share

    exact, found = result.agreement.exact, result.certificate
    if exact.value is None:
        return f"judged none of the {found.n_items} answers that people labelled; trivium show says why"
    said = f"agrees with people in {known_share(exact.value, exact.ci95)} of {result.agreement.n} answers; "
    if found.threshold is None:
        return f"{said}{found.shortfall} to let it decide alone"
    return (
        f"{said}may decide alone where it is most confident, {known_share(found.coverage)} of answers "
        f"(at most {known_share(EPSILON)} wrong, with probability {1 - DELTA:g})"
    )
