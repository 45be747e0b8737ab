"""The artifact of ``trivium trust curve`` as a table for the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from trivium.reports.trust.certificate_text import confidence_sentence
from trivium.reports.untrusted import one_line
from trivium.reports.wording import counted

NAME_COLUMNS = 27
TOO_FEW_GROUPS = 10
MOST_SHARES = 9

FIGURES = {
    "cmax": "coverage",
    "aurc_full": "AURC",
    "augrc_full": "AUGRC",
    "aurc_common": "AURC common",
    "augrc_common": "AUGRC common",
}


class CurveTable:
    """Figures of each confidence with their intervals; of two inputs their difference.

    Args:
        artifact: As ``trivium.runs.artifacts.curve.curve_artifact`` makes it.
    """

    def __init__(self, artifact: Mapping[str, Any]) -> None:
        self._artifact = artifact
        self._paired = bool(artifact["comparison"]["enabled"])
        groups = artifact["population"]["participants_included"]
        self._interval = "interval" if groups < TOO_FEW_GROUPS else "95 % interval"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._head()
        if self._paired:
            yield self._differences()
            yield from self._words()
        else:
            if lines := conclusions(self._artifact):
                yield Text("\n".join(lines) + "\n", style="bold")
            yield self._areas()
            yield from self._risks()
        for warning in self._artifact["warnings"]:
            yield Text(f"! {one_line(warning, at_most=500)}", style="yellow")
        names = list(self._artifact["confidence_variants"])
        yield Text(one_line(confidence_sentence(names, self._artifact), at_most=500), style="dim")
        yield Text(_resampled(self._artifact), style="dim")

    def _head(self) -> Iterator[RenderableType]:
        population, loss = self._artifact["population"], self._artifact["loss"]
        predicted, total = population["items_predicted"], population["items_total"]
        counts = predicted if isinstance(predicted, list) else [predicted]
        shares = " and ".join(f"{count:,} ({_percent(count, total)})" for count in counts)
        yield Text(
            f"{counted(total, 'item')} in {counted(population['participants_included'], 'group')}, {shares} "
            f"predicted; "
            f"loss {loss['name']} = {loss['definition']}"
        )
        for place, source in enumerate(self._artifact["inputs"]):
            named = " · ".join(str(part) for part in (source["path"], source["mode"]) if part)
            if self._paired:
                named = f"{('first', 'second')[place]}: {named}"
            yield Text(one_line(named, at_most=200), style="dim")
        yield Text("")

    def _areas(self) -> Table:
        table = _table("confidence", "AUGRC", self._interval, "AURC", self._interval, "best")
        for name, entry in self._artifact["confidence_variants"].items():
            intervals = entry["bootstrap"]["ci95"]
            table.add_row(
                one_line(name, at_most=NAME_COLUMNS),
                _number(entry["augrc_full"]),
                _ends(intervals["augrc_full"]),
                _number(entry["aurc_full"]),
                _ends(intervals["aurc_full"]),
                _number(entry["aurc_optimal"]),
            )
        table.caption = (
            "Areas under the risk: lower is better. best: AURC of a perfect ranking of these predictions. "
            "Abstaining more lowers all areas."
        )
        return table

    def _risks(self) -> Iterator[RenderableType]:
        entries = self._artifact["confidence_variants"]
        shares = list(next(iter(entries.values()))["mae_at_coverage"])[:MOST_SHARES] if entries else []
        if not shares:
            return
        table = _table("risk (at coverage)", *(f"{100 * float(share):g} %" for share in shares))
        for name, entry in entries.items():
            readings = [entry["mae_at_coverage"][share] for share in shares]
            table.add_row(
                one_line(name, at_most=NAME_COLUMNS),
                *(f"{reading['value']:.2f}" if reading else "–" for reading in readings),
            )
        table.caption = (
            "Mean loss where so much of all items is answered, most confident first; –: never so much."
        )
        yield Text("")
        yield table

    def _differences(self) -> Table:
        table = _table("confidence", "", "first", "second", "difference", self._interval)
        variants = self._artifact["confidence_variants"]
        for name, deltas in self._artifact["comparison"]["deltas"].items():
            called = one_line(name, at_most=NAME_COLUMNS)
            for figure, label in FIGURES.items():
                if figure == "cmax" and name != next(iter(variants)):
                    continue  # the same for every confidence
                delta = deltas[figure]
                table.add_row(
                    called,
                    label,
                    _number(delta["left"]),
                    _number(delta["right"]),
                    _number(delta["delta"], sign=True),
                    _ends(delta["ci95"]),
                )
                called = ""
        table.caption = (
            "second - first on the same groups; lower risk is better. common: up to the coverage that both "
            "reach, the fair comparison where one abstains more."
        )
        return table

    def _words(self) -> Iterator[RenderableType]:
        said: dict[str, list[str]] = {}
        for name, deltas in self._artifact["comparison"]["deltas"].items():
            if deltas["in_words"]:
                said.setdefault(deltas["in_words"], []).append(name)
        for words, names in said.items():
            yield Text(f"{', '.join(names)}: {words}.")


def conclusions(artifact: Mapping[str, Any]) -> list[str]:
    """Whether each confidence of one input ranks its predictions better than chance, a sentence each.

    It does where the interval of AURC (over its coverage) ends below the mean loss, which is what a random
    order comes to. That interval is wider than one of the difference would be.

    Args:
        artifact: As ``curve_artifact`` makes it, of one input.
    """
    lines = []
    for name, entry in artifact["confidence_variants"].items():
        ends, risks = entry["bootstrap"]["ci95"]["aurc_per_cmax"], entry["curve"]["selective_risk"]
        readings = {float(share): each for share, each in entry["mae_at_coverage"].items() if each}
        if not risks or not readings:
            continue
        half = readings[min(readings, key=lambda share: abs(share - 0.5))]
        told = (
            f"{one_line(name, at_most=NAME_COLUMNS)}: mean loss {half['value']:.3f} among the most confident "
            f"{100 * half['achieved']:.0f} %, {risks[-1]:.3f} over all predictions"
        )
        if ends is None:
            lines.append(f"{told}; there is no interval to tell whether that is more than chance.")
        elif ends[1] < risks[-1]:
            lines.append(f"{told}: it ranks them better than chance.")
        else:
            lines.append(f"{told}: not shown to rank them better than chance.")
    return lines


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, caption_justify="left", header_style="bold")
    table.add_column(first, no_wrap=True, max_width=NAME_COLUMNS)
    for name in others:
        text = name in {"", "interval", "95 % interval"}
        table.add_column(name, justify="left" if text else "right", no_wrap=True)
    return table


def _number(value: float | None, *, sign: bool = False) -> str:
    return "–" if value is None else f"{value:+.3f}" if sign else f"{value:.3f}"


def _ends(ends: Sequence[float] | None) -> str:
    return "none" if ends is None else f"[{ends[0]:.3f}, {ends[1]:.3f}]"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"


def _resampled(artifact: Mapping[str, Any]) -> str:
    """How the intervals were made."""
    entries = list(artifact["confidence_variants"].values())
    entry = entries[0] if not artifact["comparison"]["enabled"] else entries[0]["input_0"]
    plan = entry["bootstrap"]
    return (
        f"Intervals: {plan['n_resamples']:,} resamples of {counted(plan['groups'], 'group')}, "
        f"{plan['method']}, {plan['rng']}, seed {plan['seed']}."
    )
