"""Options that the trust commands share; reads their items and writes their answers."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trivium.cli.options import Choice, as_json, option, output_file, store, together
from trivium.cli.output import reserved_stdout

if TYPE_CHECKING:
    from trivium.runs.items.table import ItemTable
    from trivium.trust.calibration.calibrator import Calibrator
    from trivium.trust.resampling import ChunkMap


NAMED_TWICE = "name the items either as ITEMS or with --input, not both"


class Range(click.ParamType):  # type: ignore[type-arg]
    """Two finite numbers ``LOW:HIGH``, the first below the second."""

    name = "LOW:HIGH"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        """Parse the two numbers."""
        if isinstance(value, tuple):
            return value
        low, _, high = str(value).partition(":")
        try:
            ends = float(low), float(high)
        except ValueError:
            self.fail(f'found "{value}", expected two numbers such as 0:3', param, ctx)
        if not ends[0] < ends[1] or ends[1] - ends[0] == float("inf"):
            self.fail(f'found "{value}", expected two finite numbers, the first below the second', param, ctx)
        return ends


class CoverageGrid(click.ParamType):  # type: ignore[type-arg]
    """Coverages in (0, 1], separated by commas."""

    name = "C,C,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """Parse the coverages."""
        if isinstance(value, tuple):
            return value
        try:
            shares = tuple(float(part) for part in str(value).split(",") if part.strip())
        except ValueError:
            self.fail(f'found "{value}", expected numbers separated by commas', param, ctx)
        for share in shares:
            if not 0 < share <= 1:
                self.fail(f"found {share:g}, expected a coverage above 0 and at most 1", param, ctx)
        return shares


dimension = option("--dimension", metavar="D", help="Read a run: join its scores of D with human labels.")
labels = option(
    "--labels",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Human labels (JSONL, CSV); without, those of the store.",
)
queue = option(
    "--queue", metavar="ID", help="Read a queue of labels, of a run or a monitor, with the judge's scores."
)
confidence = option(
    "--confidence",
    metavar="NAME,…|all|default",
    help="Confidence that ranks the predictions. Default: the one stated with the items, else the signal "
    "with the best AUROC.",
)
calibration = option(
    "--calibration",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A calibrator, for --confidence calibrated or calibrated:NAME.",
)
scale = option("--range", "scale", type=Range(), help="Lowest and highest possible value of pred and gt.")
resamples = option(
    "--bootstrap-resamples",
    type=click.IntRange(min=0, max=10_000_000),
    default=10_000,
    help="Bootstrap resamples of the groups.",
)
seed = option(
    "--seed",
    type=click.IntRange(min=0, max=2**32 - 1),
    default=42,
    help="Seed of the random numbers.",
)
output = output_file("--output", help="Also write the JSON answer here.")
html = output_file("--html", help="Write one self-contained HTML page.")


unit = option(
    "--unit",
    type=Choice(["group", "item"]),
    default="group",
    help="What is independent: the groups, or every item though it shares its group with others.",
)


one_source = together(
    click.argument("items", required=False),
    option("--input", metavar="ITEMS", help="The same as ITEMS."),
    option("--mode", metavar="NAME", help="Predictor of a run artifact."),
    dimension,
    labels,
    queue,
    unit,
    store,
)
"""The argument ITEMS and the options that choose the items of one source."""

answer = together(as_json, output)


def read_item_table(items: str | None, mode: str | None, given: Mapping[str, Any]) -> "ItemTable":
    """Read the items of a file, of a queue of labels or, with a dimension, of a run (default: the newest).

    Args:
        items: What is read.
        mode: Predictor of a run artifact.
        given: The options that choose items.

    Raises:
        InputError: If the items cannot be read.
        click.UsageError: If the options cannot be combined.
    """
    if items is not None and given.get("input") is not None:
        raise click.UsageError(NAMED_TWICE)
    found = _read(items or given.get("input"), mode, given)
    return found.one_by_one() if given["unit"] == "item" else found


def _read(source: str | None, mode: str | None, given: Mapping[str, Any]) -> "ItemTable":
    queue, dimension, labels = given["queue"], given["dimension"], given["labels"]
    if queue is not None:
        if any(each is not None for each in (source, mode, dimension, labels)):
            raise click.UsageError(
                "--queue says what is read: leave out ITEMS, --mode, --dimension and --labels"
            )
        from trivium.labels.joining import items_of_queue
        from trivium.store.store import Store

        return items_of_queue(Store(given["store"], read_only=True), queue)
    if dimension is None:
        if source is None:
            raise click.UsageError("name a file of items, or a run with --dimension D")
        if labels is not None:
            raise click.UsageError("--labels are joined with a run: add --dimension D")
        from trivium.runs.items.files import read_items

        return read_items(source, mode=mode)
    if mode is not None:
        raise click.UsageError("--mode is for a run artifact, --dimension for a stored run: give one of them")
    from trivium.labels.joining import labels_for
    from trivium.runs.run import Run

    run = Run.load(source, store=given["store"])
    joined = labels_for(run.store, run.record, dimension) if labels is None else labels
    return run.items(dimension=dimension, labels=joined)


@contextmanager
def chunk_map(engine: str) -> "Iterator[ChunkMap | None]":
    """Where resamples are computed; None for threads of this process.

    What Ray prints meanwhile, such as which node it lost, goes to standard error.
    """
    if engine == "local":
        yield None
        return
    from trivium.runs.engines.ray_resampling import on_ray

    with reserved_stdout(), on_ray() as found:
        yield found


def load_calibrator(path: Path | None) -> "Calibrator | None":
    """Load a calibrator from a file; None without a file.

    Raises:
        InputError: If the file holds no calibrator.
    """
    if path is None:
        return None
    from trivium.runs.items.files import read_calibrator

    return read_calibrator(path)
