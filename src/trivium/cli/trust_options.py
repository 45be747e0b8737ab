"""Options that the trust commands share, and reading their items."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trivium.cli.options import DEFAULT_STORE, option

if TYPE_CHECKING:
    from trivium.runs.items.table import ItemTable
    from trivium.trust.calibration.calibrator import Calibrator


F = TypeVar("F", bound=Callable[..., Any])


class Range(click.ParamType):  # type: ignore[type-arg]
    """``LOW:HIGH``, two rising numbers."""

    name = "LOW:HIGH"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        """The two ends."""
        if isinstance(value, tuple):
            return value
        low, _, high = str(value).partition(":")
        try:
            ends = float(low), float(high)
        except ValueError:
            self.fail(f'found "{value}", expected two numbers such as 0:3', param, ctx)
        if not ends[0] < ends[1] or ends[1] - ends[0] == float("inf"):
            self.fail(f'found "{value}", expected two finite numbers that rise', param, ctx)
        return ends


class CoverageGrid(click.ParamType):  # type: ignore[type-arg]
    """Coverages in (0, 1] with commas between."""

    name = "C,C,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """The coverages."""
        if isinstance(value, tuple):
            return value
        try:
            shares = tuple(float(part) for part in str(value).split(",") if part.strip())
        except ValueError:
            self.fail(f'found "{value}", expected numbers with commas between', param, ctx)
        for share in shares:
            if not 0 < share <= 1:
                self.fail(f"found {share:g}, expected a coverage above 0 and at most 1", param, ctx)
        return shares


dimension = option("--dimension", metavar="D", help="Read a run: join its scores of D with people's labels.")
labels = option(
    "--labels", type=click.Path(path_type=Path), metavar="FILE", help="People's labels (JSONL, CSV)."
)
confidence = option(
    "--confidence",
    metavar="NAME,…|all|default",
    help="Which confidence ranks the predictions. By default the one stated with the items, else the signal "
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
    show_default=True,
    help="Resamples of the groups.",
)
seed = option(
    "--seed",
    type=click.IntRange(min=0, max=2**32 - 1),
    default=42,
    show_default=True,
    help="Of the resamples.",
)
output = option(
    "--output", type=click.Path(path_type=Path), metavar="FILE", help="Also write the JSON answer here."
)


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file and say so on standard error.

    Raises:
        InputError: If it cannot be written.
    """
    from trivium.errors import InputError

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise InputError(str(path), f"cannot be written: {error.strerror}") from error
    click.echo(f"wrote {path}", err=True)


def as_document(answer: Any) -> bytes:
    """Encode an answer as one JSON document in UTF-8; NaN and infinity become null."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(answer), indent=2) + b"\n"


def read_item_table(
    source: str | None,
    *,
    mode: str | None = None,
    dimension: str | None = None,
    labels: Path | None = None,
    store: str = DEFAULT_STORE,
) -> "ItemTable":
    """Read the items of a file or, with a dimension, of a run (the newest if none is named).

    Raises:
        InputError: If the items cannot be read, or the options do not go together.
    """
    if dimension is None:
        if source is None:
            raise click.UsageError("name a file of items, or a run with --dimension D")
        if labels is not None:
            raise click.UsageError("--labels are joined with a run: say which --dimension D")
        from trivium.runs.items.reading import read_items

        return read_items(source, mode=mode)
    if mode is not None:
        raise click.UsageError("--mode chooses in a run artifact, --dimension in a stored run: not both")
    if labels is None:
        raise click.UsageError("a run's scores are joined with people's labels: --labels FILE")
    from trivium.runs.run import Run

    return Run.load(source, store=store).items(dimension=dimension, labels=labels)


def load_calibrator(path: Path | None) -> "Calibrator | None":
    """Load a calibrator from a file; None without a file.

    Raises:
        InputError: If the file holds no calibrator.
    """
    if path is None:
        return None
    from trivium.runs.items.files import read_calibrator

    return read_calibrator(path)
