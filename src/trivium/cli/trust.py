"""``trivium trust``: risk–coverage curves, calibration, certificates, agreement, imported judgements."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trivium.cli import options
from trivium.cli import trust_options as shared
from trivium.cli.main import LazyCommands
from trivium.cli.options import STANDARD_OUTPUT, Choice, option, output_file, split_names
from trivium.cli.output import Presentation, present, print_answer, resampling_bar, write_report
from trivium.cli.trust_options import NAMED_TWICE, load_calibrator, read_item_table
from trivium.errors import TrustError
from trivium.keywords import taken
from trivium.values import json_document

if TYPE_CHECKING:
    from trivium.reports.document.blocks import Block
    from trivium.runs.artifacts.judge import CertificateAnswer
    from trivium.runs.items.table import ItemTable
    from trivium.trust.cluster_bootstrap import BootstrapOptions, Method


COMMANDS = {
    "import": ("trivium.cli.trust:import_", "Add judgements recorded elsewhere to a run."),
    "curve": ("trivium.cli.trust:curve", "Risk and coverage of predictions that may abstain."),
    "calibrate": ("trivium.cli.trust:calibrate", "Turn a confidence into a probability of being right."),
    "certify": ("trivium.cli.trust:certify", "Find which judgements need no human review."),
    "agree": ("trivium.cli.trust:agree", "Measure how far a judge agrees with people."),
}

DEFAULT_COVERAGES = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9"


@click.group(cls=LazyCommands, table=COMMANDS)
def trust() -> None:
    """Say how far predictions and judges can be trusted.

    Each command reads items (JSONL, CSV, Parquet, or a run artifact), or joins a stored run's judgements
    with human labels.
    """


@options.command(
    "trivium trust curve items.jsonl --html curve.html",
    "trivium trust curve --dimension correctness --labels labels.csv",
)
@click.argument("items", required=False)
@option(
    "--input",
    "inputs",
    multiple=True,
    metavar="ITEMS",
    help="Items; give two to compare them.",
)
@option(
    "--mode", "modes", multiple=True, metavar="NAME", help="Predictor of a run artifact, one for each input."
)
@shared.dimension
@shared.labels
@shared.queue
@shared.unit
@options.store
@shared.confidence
@shared.calibration
@option(
    "--loss",
    type=Choice(["abs", "abs_norm", "zero_one"]),
    default="abs",
    help="Loss of a prediction.",
)
@shared.scale
@option(
    "--coverage-grid",
    type=shared.CoverageGrid(),
    default=DEFAULT_COVERAGES,
    help="Coverages at which the risk is reported.",
)
@option(
    "--area-coverage",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.5,
    help="Coverage up to which the truncated areas are computed.",
)
@option("--intersection-only", is_flag=True, help="Compare only the groups that both inputs have.")
@shared.resamples
@options.engine
@shared.seed
@option(
    "--rng",
    type=Choice(["pcg64", "legacy"]),
    default="pcg64",
    help="Random numbers: pcg64, or legacy (RandomState and plain percentiles, to reproduce old artifacts).",
)
@option(
    "--interval",
    type=Choice(["expanded", "percentile", "bca"]),
    default="expanded",
    help="Intervals: percentile, expanded (wider when groups are few), or bca (corrects bias and skew).",
)
@option(
    "--created-at",
    metavar="TIME",
    help="Time to write into the answer, so that equal inputs give equal bytes.",
)
@shared.answer
@output_file("--chart", help="Draw the curves (.png or .svg).")
@shared.html
def curve(items: str | None, **given: Any) -> int:
    """Report how wrong the predictions of ITEMS are, from the most confident to all of them.

    ITEMS is a file of items (JSONL, CSV, Parquet), a folder or a quoted pattern of such files, a run artifact
    (.json, with --mode), or with --dimension a stored run, whose scores are joined with human labels. Two
    --input compare the second with the first.
    """
    from msgspec.structs import replace

    from trivium.reports.drawings.svg import check_picture_name, write_picture
    from trivium.reports.trust.tables import curve_blocks
    from trivium.runs.artifacts.curve import CurveOptions, curve_artifact, resamples_of

    chart = given["chart"]
    if chart not in {None, STANDARD_OUTPUT}:
        check_picture_name(chart)
    tables = _tables(items, given)
    chosen = CurveOptions(
        **taken(CurveOptions, given),
        plan=_plan(given),
        grid=given["coverage_grid"],
        calibrator=load_calibrator(given["calibration"]),
        drawn=chart is not None or given["html"] is not None,
    )
    with (
        shared.chunk_map(given["engine"]) as chunk_map,
        resampling_bar(lambda: resamples_of(tables, chosen), quiet=given["as_json"]) as progress,
    ):
        plan = replace(chosen.plan, chunk_map=chunk_map, progress=progress)
        artifact = curve_artifact(tables, replace(chosen, plan=plan))
    _print_answer(artifact, curve_blocks, given)
    if chart is not None:
        from trivium.reports.trust.charts import draw_curves

        write_report(chart, lambda path: write_picture(path, draw_curves(artifact)))
    if given["html"] is not None:
        from trivium.reports.trust.page import curve_page

        write_report(given["html"], [curve_page(artifact)])
    return 0


def _tables(items: str | None, given: dict[str, Any]) -> "list[ItemTable]":
    """Read one table of items, or two to compare."""
    inputs, modes = list(given["inputs"]), list(given["modes"])
    if items is not None and inputs:
        raise click.UsageError(NAMED_TWICE)
    sources = inputs or [items]
    if len(sources) > 2:
        raise click.UsageError(f"found {len(sources)} inputs, expected one or two")
    if len(modes) > len(sources) and len(sources) == 1:
        sources *= len(modes)
    if len(modes) not in {0, len(sources)} or len(sources) > 2:
        raise click.UsageError(f"found {len(modes)} --mode for {len(sources)} inputs, expected one for each")
    return [
        read_item_table(source, mode, given)
        for source, mode in zip(sources, modes or [None] * len(sources), strict=True)
    ]


def _plan(given: dict[str, Any]) -> "BootstrapOptions":
    from trivium.trust.cluster_bootstrap import BootstrapOptions

    legacy = given["rng"] == "legacy"
    method: Method = "expanded percentile" if given["interval"] == "expanded" else given["interval"]
    return BootstrapOptions(
        resamples=given["bootstrap_resamples"],
        seed=given["seed"],
        rng=given["rng"],
        method="legacy" if legacy else method,
        empty_is_zero=legacy,
    )


def _print_answer(answer: Any, shown: "Callable[[Any], Iterator[Block]]", given: Mapping[str, Any]) -> None:
    """Print an answer; with --output, also write it as JSON."""
    if given["output"] is not None:
        write_report(given["output"], json_document(answer))
    print_answer(answer, shown, as_json=given["as_json"])


@options.command("trivium trust calibrate items.jsonl --output calibrator.json")
@shared.one_source
@option(
    "--method",
    type=Choice(["temperature", "isotonic", "logistic", "platt", "linear"]),
    default="temperature",
    help="Calibration method.",
)
@option("--features", metavar="A,B,…", help="Signals to fit on.")
@option("--confidence", metavar="NAME", help="The confidence to calibrate, instead of signals.")
@option(
    "--target",
    type=Choice(["correctness", "near_correct", "loss"]),
    default="correctness",
    help="What the calibrated number predicts (loss: 1 - error / range).",
)
@shared.scale
@shared.seed
@shared.answer
def calibrate(items: str | None, **given: Any) -> int:
    """Fit a calibrator on ITEMS: it turns a confidence or signals into the probability of being right.

    --output writes the calibrator, and `trivium trust curve|certify --calibration FILE` uses it. Its quality
    is reported for groups that it was not fitted on (cross-fitted).
    """
    from trivium.reports.trust.tables import calibrator_blocks
    from trivium.runs.artifacts.judge import calibrate as fit
    from trivium.runs.items.ranked import STATED

    table = read_item_table(items, given["mode"], given)
    features, confidence = split_names(given["features"]) or [], given["confidence"]
    if not features and confidence is None and table.states_confidence:
        confidence = STATED
    how = taken(("method", "target", "scale", "seed"), given)
    fitted = fit(table, features=features, confidence=confidence, **how)
    _print_answer(fitted.to_json(), lambda _: calibrator_blocks(fitted), given)
    return 0


@options.command("trivium trust certify --dimension correctness --labels labels.csv --epsilon 0.2")
@shared.one_source
@option(
    "--confidence",
    metavar="NAME",
    help="Confidence to use. Default: the one stated with the items, else the signal with the best AUROC.",
)
@shared.calibration
@option(
    "--epsilon",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.1,
    help="Largest error rate among the accepted predictions.",
)
@option(
    "--delta",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.1,
    help="Probability that the guarantee fails.",
)
@option(
    "--tolerance",
    type=click.FloatRange(0),
    default=0.0,
    help="Predictions farther than this from the truth count as wrong.",
)
@option("--group-size", type=click.IntRange(min=1), metavar="N", help="Most items that a group can have.")
@option(
    "--bound",
    type=Choice(["betting", "hoeffding"]),
    default="betting",
    help="Test to use if groups have several items.",
)
@shared.answer
@shared.html
def certify(items: str | None, **given: Any) -> int:
    """Find the lowest confidence from which on the predictions of ITEMS need no human review.

    With probability 1 - delta, at most a share epsilon of the predictions accepted later is wrong.
    Predictions below the threshold go to people. This holds if no group has more than --group-size items (by
    default the most in the run, else among the labelled items). If nothing can be certified, the exit code is
    1, and --output is not written.
    """
    from trivium.reports.trust.tables import certificate_blocks
    from trivium.runs.artifacts.judge import certificate

    table = read_item_table(items, given["mode"], given)
    promise = taken(("epsilon", "delta", "tolerance", "group_size", "bound"), given)
    calibrator = load_calibrator(given["calibration"])
    answer = certificate(table, given["confidence"], calibrator=calibrator, **promise)
    kept, certified = given["output"], answer.threshold is not None
    _print_answer(answer, certificate_blocks, given if certified else given | {"output": None})
    if given["html"] is not None:
        from trivium.reports.trust.page import certificate_page

        write_report(given["html"], [certificate_page(answer)])
    if not certified and kept is not None:
        was = "stays as it was" if kept.exists() else "is not written"
        click.echo(f"{kept} {was}: nothing is certified", err=True)
    return 0 if certified else 1


@options.command("trivium trust agree --dimension correctness --labels labels.csv")
@shared.one_source
@option(
    "--step",
    type=click.FloatRange(0, min_open=True),
    metavar="X",
    help="Distance between neighbouring labels (default: 1, on a narrower scale the smallest observed).",
)
@shared.scale
@shared.resamples
@options.engine
@shared.seed
@shared.answer
@shared.html
def agree(items: str | None, **given: Any) -> int:
    """Measure how far the predictions of ITEMS agree with human labels.

    For a run, the unlabelled scores also enter an estimate of the mean that people would give to all. The
    --html page also says from which confidence on a judge may decide (the default of trivium trust certify).
    """
    from trivium.reports.trust.tables import agreement_blocks
    from trivium.runs.artifacts.judge import agreement_answer

    table, resamples = read_item_table(items, given["mode"], given), given["bootstrap_resamples"]
    with (
        shared.chunk_map(given["engine"]) as chunk_map,
        resampling_bar(lambda: resamples, quiet=given["as_json"]) as progress,
    ):
        how = taken(("step", "scale", "seed"), given)
        answer = agreement_answer(table, resamples=resamples, chunk_map=chunk_map, progress=progress, **how)
    _print_answer(answer, agreement_blocks, given)
    if given["html"] is not None:
        from trivium.reports.trust.page import agreement_page

        write_report(given["html"], [agreement_page(answer, _certificate(table))])
    return 0


def _certificate(table: "ItemTable") -> "CertificateAnswer | str | None":
    """The default certificate of a judge's items, or why there is none; None if no judge predicted them."""
    from trivium.runs.artifacts.judge import certificate

    if table.sides[0] != "judge":
        return None
    try:
        return certificate(table, None)
    except TrustError as error:
        return str(error)


@options.command("trivium trust import 20261121-09 judgements.csv", name="import")
@click.argument("run")
@click.argument("judgements", type=click.Path(path_type=Path))
@options.certificate
@options.store
@options.as_json
@options.quiet
def import_(
    run: str, judgements: Path, certificate: tuple[str, ...], store: str, as_json: bool, quiet: bool
) -> int:
    """Add JUDGEMENTS recorded elsewhere (JSONL, CSV, Parquet) to the attempts of RUN.

    RUN stays as it is: a new run holds its scores and the judgements.
    """
    from trivium.runs.run import Run

    judged = Run.load(run, store=store).with_judgements(judgements, certificates=certificate)
    present(judged, judged.summary(), Presentation(as_json=as_json, quiet=quiet))
    return 0
