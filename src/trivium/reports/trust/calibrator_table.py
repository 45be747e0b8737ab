"""A fitted calibrator for the terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from trivium.reports.untrusted import one_line
from trivium.reports.wording import counted

MEASURES = {
    "ece": "ECE",
    "nll": "NLL",
    "brier_score": "Brier",
    "auc_roc": "AUROC",
    "mae": "MAE",
    "mse": "MSE",
}
WHEN = {"uncalibrated": "before", "cross_fitted": "after, unseen groups", "in_sample": "after, own data"}


class CalibratorTable:
    """What was fitted on what, and how good it is.

    Args:
        artifact: As ``Calibrator.to_json`` makes it.
    """

    def __init__(self, artifact: Mapping[str, Any]) -> None:
        self._artifact = artifact

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        made, metrics = self._artifact, self._artifact["metrics"]
        training = made["training_metadata"]
        on = ", ".join(made["features"])
        warm = f", T = {made['temperature']:.3f}" if "temperature" in made else ""
        yield Text(
            one_line(f"{made['method']} on {on}{warm}; target {made['target']}", at_most=300), style="bold"
        )
        fitted = counted(training["n_samples"], "prediction")
        yield Text(f"fitted on {fitted} of {counted(training['n_groups'], 'group')}\n")
        table = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left")
        table.add_column("")
        shown = [name for name in MEASURES if name in metrics["in_sample"]]
        for name in shown:
            table.add_column(MEASURES[name], justify="right")
        for key, words in WHEN.items():
            figures = metrics.get(key)
            if figures is not None:
                table.add_row(words, *(_number(figures[name]) for name in shown))
        table.caption = "Quote the figures of unseen groups: on its own data a calibrator flatters itself."
        yield table
        if metrics["cross_fitted"] is None:
            yield Text(f"! no figures of unseen groups: {metrics['cross_fitted_reason']}", style="yellow")
        for warning in made["warnings"]:
            yield Text(f"! {one_line(warning, at_most=500)}", style="yellow")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
