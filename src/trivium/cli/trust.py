"""``trivium trust``: curve, calibrate, certify, agree, and the import of judgements."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trivium.cli import options
from trivium.cli import trust_options as shared
from trivium.cli.main import LazyCommands
from trivium.cli.options import Choice, option, split_names
from trivium.cli.trust_options import load_calibrator, read_item_table

if TYPE_CHECKING:
    from trivium.runs.items.table import ItemTable
    from trivium.trust.cluster_bootstrap import Method
    from trivium.trust.selective.inference import BootstrapOptions


COMMANDS = {
    "import": ("trivium.cli.trust:import_", "Bring judgements recorded elsewhere into a run."),
    "curve": ("trivium.cli.trust:curve", "Risk and coverage of predictions that may abstain."),
    "calibrate": ("trivium.cli.trust:calibrate", "Make a confidence true."),
    "certify": ("trivium.cli.trust:certify", "Which judgements may stand without a person."),
    "agree": ("trivium.cli.trust:agree", "How far a judge agrees with people."),
}


@click.group(cls=LazyCommands, table=COMMANDS)
def trust() -> None:
    """Say how far predictions and judges can be trusted.

    Each command reads items (JSONL, CSV, Parquet, or a run artifact), or joins a stored run's judgements
    with people's labels.
    """


DEFAULT_COVERAGES = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9"


@click.command()
@click.argument("items", required=False)
@option(
    "--input",
    "inputs",
    multiple=True,
    metavar="ITEMS",
    help="Items; twice to compare.",
)
@option("--mode", "modes", multiple=True, metavar="NAME", help="Predictor of a run artifact, one an input.")
@shared.dimension
@shared.labels
@options.store
@shared.confidence
@shared.calibration
@option(
    "--loss",
    type=Choice(["abs", "abs_norm", "zero_one"]),
    default="abs",
    show_default=True,
    help="How wrong a prediction is.",
)
@shared.scale
@option(
    "--coverage-grid",
    type=shared.CoverageGrid(),
    default=DEFAULT_COVERAGES,
    show_default=True,
    help="Coverages at which the risk is read.",
)
@option(
    "--area-coverage",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.5,
    show_default=True,
    help="Coverage up to which the truncated areas go.",
)
@option("--intersection-only", is_flag=True, help="Compare common groups, though an input has others too.")
@shared.resamples
@shared.seed
@option(
    "--rng",
    type=Choice(["pcg64", "legacy"]),
    default="pcg64",
    show_default=True,
    help="Random numbers: pcg64, or legacy (RandomState and plain percentiles, to reproduce old artifacts).",
)
@option(
    "--interval",
    type=Choice(["expanded", "percentile", "bca"]),
    default="expanded",
    show_default=True,
    help="Intervals: percentile, expanded (wider when groups are few), or bca (corrects bias and skew).",
)
@option("--created-at", metavar="TIME", help="Stands in the answer, so that equal inputs give equal bytes.")
@options.as_json
@shared.output
@option("--chart", type=click.Path(path_type=Path), metavar="FILE", help="Draw the curves (.png or .svg).")
@option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write one self-contained HTML page.")
def curve(items: str | None, **given: Any) -> int:
    """Risk and coverage of ITEMS: how wrong predictions are, the most confident first.

    ITEMS is a file of items (JSONL, CSV, Parquet), a run artifact (.json, with --mode), or with --dimension a
    stored run, whose scores are joined with people's labels. Two --input compare the second with the first.
    """
    from trivium.reports.trust.tables import CurveTable
    from trivium.runs.artifacts.curve import CurveOptions, curve_artifact

    if given["chart"] is not None:
        from trivium.reports.trust.charts import check_format

        check_format(given["chart"].suffix)
    artifact = curve_artifact(
        _tables(items, given),
        CurveOptions(
            confidence=given["confidence"],
            loss=given["loss"],
            plan=_plan(given),
            grid=given["coverage_grid"],
            area_coverage=given["area_coverage"],
            scale=given["scale"],
            calibrator=load_calibrator(given["calibration"]),
            intersection_only=given["intersection_only"],
            drawn=given["chart"] is not None or given["html"] is not None,
            created_at=given["created_at"],
        ),
    )
    _print_answer(artifact, CurveTable, given)
    if given["chart"] is not None:
        from trivium.reports.trust.charts import draw_curves

        shared.write_file(given["chart"], draw_curves(artifact, given["chart"].suffix))
    if given["html"] is not None:
        from trivium.reports.trust.page import curve_page

        shared.write_file(given["html"], curve_page(artifact))
    return 0


def _tables(items: str | None, given: dict[str, Any]) -> "list[ItemTable]":
    """One table, or two to compare."""
    inputs, modes = list(given["inputs"]), list(given["modes"])
    if items is not None and inputs:
        raise click.UsageError("name the items once: as ITEMS, or with --input")
    sources = inputs or [items]
    if len(sources) > 2:
        raise click.UsageError(f"one or two inputs can be read, found {len(sources)}")
    if len(modes) > len(sources) and len(sources) == 1:
        sources *= len(modes)
    if len(modes) not in {0, len(sources)} or len(sources) > 2:
        raise click.UsageError(f"found {len(modes)} --mode for {len(sources)} inputs: one for each")
    return [
        _item_table(source, mode, given)
        for source, mode in zip(sources, modes or [None] * len(sources), strict=True)
    ]


def _plan(given: dict[str, Any]) -> "BootstrapOptions":
    from trivium.trust.selective.inference import BootstrapOptions

    legacy = given["rng"] == "legacy"
    method: Method = "expanded percentile" if given["interval"] == "expanded" else given["interval"]
    return BootstrapOptions(
        resamples=given["bootstrap_resamples"],
        seed=given["seed"],
        rng=given["rng"],
        method="legacy" if legacy else method,
        empty_is_zero=legacy,
    )


def _item_table(source: str | None, mode: str | None, given: dict[str, Any]) -> "ItemTable":
    """The items of one source, by the options that the commands share."""
    return read_item_table(
        source, mode=mode, dimension=given["dimension"], labels=given["labels"], store=given["store"]
    )


def _print_answer(answer: Any, table: Callable[[Any], Any], given: dict[str, Any]) -> None:
    """Print an answer as a table or, with --json, as JSON; write it to --output."""
    document = shared.as_document(answer)
    if given["output"] is not None:
        shared.write_file(given["output"], document)
    if given["as_json"]:
        click.echo(document, nl=False)
        return
    from trivium.cli.output import show

    show(table(answer))


@click.command()
@click.argument("items", required=False)
@option("--mode", metavar="NAME", help="Predictor of a run artifact.")
@shared.dimension
@shared.labels
@options.store
@option(
    "--method",
    type=Choice(["temperature", "isotonic", "logistic", "platt", "linear"]),
    default="temperature",
    show_default=True,
    help="What is fitted.",
)
@option("--features", metavar="A,B,…", help="Signals to look at.")
@option("--confidence", metavar="NAME", help="The confidence to calibrate, in place of signals.")
@option(
    "--target",
    type=Choice(["correctness", "near_correct", "loss"]),
    default="correctness",
    show_default=True,
    help="What the calibrated number is the probability of (loss: 1 - error / range).",
)
@shared.scale
@shared.seed
@options.as_json
@shared.output
def calibrate(items: str | None, **given: Any) -> int:
    """Fit a calibrator on ITEMS: it turns a confidence, or signals, into how likely a prediction is right.

    The calibrator is written with --output and used by `trivium trust curve|certify --calibration FILE`. How
    good it is, is told for groups that it was not fitted on (cross-fitted).
    """
    from trivium.reports.trust.tables import CalibratorTable
    from trivium.runs.artifacts.judge import calibrate as fit
    from trivium.runs.items.ranked import STATED

    table = _item_table(items, given["mode"], given)
    features, confidence = split_names(given["features"]) or [], given["confidence"]
    if not features and confidence is None and table.states_confidence:
        confidence = STATED
    fitted = fit(
        table,
        method=given["method"],
        features=features,
        confidence=confidence,
        target=given["target"],
        scale=given["scale"],
        seed=given["seed"],
    )
    _print_answer(fitted.to_json(), CalibratorTable, given)
    return 0


@click.command()
@click.argument("items", required=False)
@option("--mode", metavar="NAME", help="Predictor of a run artifact.")
@shared.dimension
@shared.labels
@options.store
@option(
    "--confidence",
    metavar="NAME",
    help="Which confidence. By default the one stated with the items, else the signal with the best AUROC.",
)
@shared.calibration
@option(
    "--epsilon",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.1,
    show_default=True,
    help="Error among the accepted that is tolerated.",
)
@option(
    "--delta",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.1,
    show_default=True,
    help="Chance that the promise is broken.",
)
@option(
    "--tolerance",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="A prediction farther from the truth is wrong.",
)
@option("--group-size", type=click.IntRange(min=1), metavar="N", help="The most items that a group can have.")
@option(
    "--bound",
    type=Choice(["betting", "hoeffding"]),
    default="betting",
    show_default=True,
    help="The test where groups have several items.",
)
@options.as_json
@shared.output
def certify(items: str | None, **given: Any) -> int:
    """The lowest confidence from which on the predictions of ITEMS may stand without a person.

    With probability 1 - delta, at most the share epsilon of those accepted later is wrong. Everything below
    the threshold goes to people.
    """
    from trivium.reports.trust.tables import CertificateText
    from trivium.runs.artifacts.judge import certificate

    table = _item_table(items, given["mode"], given)
    answer = certificate(
        table,
        given["confidence"],
        epsilon=given["epsilon"],
        delta=given["delta"],
        tolerance=given["tolerance"],
        group_size=given["group_size"],
        bound=given["bound"],
        calibrator=load_calibrator(given["calibration"]),
    )
    _print_answer(answer, CertificateText, given)
    return 0


@click.command()
@click.argument("items", required=False)
@option("--mode", metavar="NAME", help="Predictor of a run artifact.")
@shared.dimension
@shared.labels
@options.store
@option(
    "--step",
    type=click.FloatRange(0, min_open=True),
    metavar="X",
    help="Distance between neighbouring labels; by default 1, on a narrower scale the least seen.",
)
@shared.scale
@shared.resamples
@shared.seed
@options.as_json
@shared.output
def agree(items: str | None, **given: Any) -> int:
    """How far the predictions of ITEMS agree with the truths that people gave.

    From a run, scores that nobody labelled help to tell what people's mean would be over all of them.
    """
    from trivium.reports.trust.tables import AgreementTable
    from trivium.runs.artifacts.judge import agreement_answer

    table = _item_table(items, given["mode"], given)
    answer = agreement_answer(
        table,
        step=given["step"],
        scale=given["scale"],
        resamples=given["bootstrap_resamples"],
        seed=given["seed"],
    )
    _print_answer(answer, AgreementTable, given)
    return 0


@click.command("import")
@click.argument("run")
@click.argument("judgements", type=click.Path(path_type=Path))
@options.certificate
@options.store
@options.as_json
@options.quiet
def import_(
    run: str, judgements: Path, certificate: tuple[str, ...], store: str, as_json: bool, quiet: bool
) -> int:
    """Bring JUDGEMENTS recorded elsewhere (JSONL, CSV, Parquet) to the attempts of RUN.

    RUN stays as it is: a new run holds its scores with the judgements beside them.
    """
    from trivium.cli.output import present
    from trivium.runs.run import Run

    judged = Run.load(run, store=store).with_judgements(judgements, certificates=certificate)
    present(judged, judged.summary(), as_json=as_json, quiet=quiet)
    return 0
