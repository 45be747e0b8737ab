"""Agreement of a judge and people for the terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from trivium.reports.untrusted import one_line
from trivium.reports.wording import counted

NAMES = {
    "exact": "same label",
    "within_one": "at most one step apart",
    "kappa": "Cohen's κ",
    "kappa_quadratic": "Cohen's κ, quadratic",
    "alpha_ordinal": "Krippendorff's α, ordinal",
    "spearman": "Spearman's ρ",
    "kendall": "Kendall's τ-b",
}
TOO_FEW_GROUPS = 10


class AgreementTable:
    """Every measure with its interval, and people's mean as the judge's tells it.

    Args:
        answer: As ``trivium.runs.artifacts.agreement.agreement_answer`` makes it.
    """

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self._answer = answer

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        found = self._answer
        passed = f", {found['abstained']:,} more without a judgement" if found["abstained"] else ""
        groups = counted(found["groups"], "group")
        yield Text(f"{counted(found['n'], 'item')} that both labelled, in {groups}{passed}\n")
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("agreement")
        table.add_column("value", justify="right")
        table.add_column("interval" if found["groups"] < TOO_FEW_GROUPS else "95 % interval", no_wrap=True)
        for key, words in NAMES.items():
            figure = found[key]
            table.add_row(words, _number(figure["value"]), _ends(figure["ci95"], figure["reason"]))
        yield table
        yield from self._means()
        for warning in found["warnings"]:
            yield Text(f"! {one_line(warning, at_most=500)}", style="yellow")

    def _means(self) -> Iterator[Text]:
        found, corrected = self._answer, self._answer["corrected"]
        if found["judge_mean"] is None:
            return
        yield Text("")
        yield Text(
            f"Means of these items: judge {found['judge_mean']:.3f}, people {found['people_mean']:.3f}."
        )
        if corrected is None:
            return
        yield Text(
            f"Over all {corrected['labelled'] + corrected['unlabelled']:,} judged: judge "
            f"{_number(corrected['judge'])}; what people would say {_number(corrected['value'])} "
            f"{_ends(corrected['ci95'], corrected['reason'])} (PPI++), if the labelled are a random part."
        )
        rate = found.get("corrected_rate")
        if rate is not None:
            yield Text(
                f"By the judge's sensitivity and specificity: {_number(rate['value'])} "
                f"{_ends(rate['ci95'], rate['reason'])} (Rogan–Gladen)."
            )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _ends(ends: list[float] | None, reason: str | None) -> str:
    return f"[{ends[0]:.3f}, {ends[1]:.3f}]" if ends else f"none: {reason}"
