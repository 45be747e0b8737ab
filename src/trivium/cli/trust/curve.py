"""``trivium trust curve``: risk and coverage of predictions that may abstain."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trivium.cli import options
from trivium.cli.options import Words, option
from trivium.cli.trust import options as shared
from trivium.cli.trust.source import open_calibrator, open_items

if TYPE_CHECKING:
    from trivium.runs.items.table import ItemTable
    from trivium.trust.estimates import Method
    from trivium.trust.selective.resampled import Plan

GRID = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9"


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
    type=Words(["abs", "abs_norm", "zero_one"]),
    default="abs",
    show_default=True,
    help="How wrong a prediction is.",
)
@shared.scale
@option(
    "--coverage-grid",
    type=shared.Shares(),
    default=GRID,
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
    type=Words(["pcg64", "legacy"]),
    default="pcg64",
    show_default=True,
    help="Random numbers: pcg64, or legacy (RandomState and plain percentiles, to reproduce old artifacts).",
)
@option(
    "--interval",
    type=Words(["expanded", "percentile", "bca"]),
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
    from trivium.runs.artifacts.curve import CurveOptions, curve_artifact

    if given["chart"] is not None:
        from trivium.reports.trust.curve_chart import check_format

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
            calibrator=open_calibrator(given["calibration"]),
            intersection_only=given["intersection_only"],
            drawn=given["chart"] is not None or given["html"] is not None,
            created_at=given["created_at"],
        ),
    )
    _answer(artifact, given)
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
        open_items(
            source, mode=mode, dimension=given["dimension"], labels=given["labels"], store=given["store"]
        )
        for source, mode in zip(sources, modes or [None] * len(sources), strict=True)
    ]


def _plan(given: dict[str, Any]) -> "Plan":
    from trivium.trust.selective.resampled import Plan

    legacy = given["rng"] == "legacy"
    method: Method = "expanded percentile" if given["interval"] == "expanded" else given["interval"]
    return Plan(
        resamples=given["bootstrap_resamples"],
        seed=given["seed"],
        rng=given["rng"],
        method="legacy" if legacy else method,
        empty_is_zero=legacy,
    )


def _answer(artifact: dict[str, Any], given: dict[str, Any]) -> None:
    """Print the artifact, and write the files that were asked for."""
    if given["output"] is not None:
        shared.write(given["output"], shared.as_document(artifact))
    if given["as_json"]:
        click.echo(shared.as_document(artifact), nl=False)
    else:
        from trivium.cli.screen import show
        from trivium.reports.trust.curve_table import CurveTable

        show(CurveTable(artifact))
    if given["chart"] is not None:
        from trivium.reports.trust.curve_chart import draw_curves

        shared.write(given["chart"], draw_curves(artifact, given["chart"].suffix))
    if given["html"] is not None:
        from trivium.reports.trust.page import curve_page

        shared.write(given["html"], curve_page(artifact))
