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
        if found["exact"]["value"] is not None:
            yield Text(agreement_sentence(found), style="bold")
        yield Text(f"{counted(found['n'], 'item')} that both labelled, in {groups}{passed}\n")
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("agreement")
        table.add_column("value", justify="right")
        table.add_column("interval" if found["groups"] < TOO_FEW_GROUPS else "95 % interval", no_wrap=True)
        for key, words in NAMES.items():
            if key == "within_one" and len(found["labels"]) <= 2:
                continue  # of two labels it is always 1
            figure = found[key]
            table.add_row(words, _number(figure["value"]), _ends(figure["ci95"], figure["reason"]))
        yield table
        yield from self._means()
        for warning in found["warnings"]:
            yield Text(f"! {one_line(warning, at_most=500)}", style="yellow")

    def _means(self) -> Iterator[Text]:
        found, corrected = self._answer, self._answer["corrected"]
        one, other = (one_line(side, at_most=60) for side in found["sides"])
        if found["judge_mean"] is None:
            return
        yield Text("")
        yield Text(
            f"Means of these items: {one} {found['judge_mean']:.3f}, {other} {found['people_mean']:.3f}."
        )
        if corrected is None:
            return
        yield Text(
            f"Over all {corrected['labelled'] + corrected['unlabelled']:,} judged: {one} "
            f"{_number(corrected['judge'])}; what {other} would say {_number(corrected['value'])} "
            f"{_ends(corrected['ci95'], corrected['reason'])} (PPI++), if the labelled are a random part."
        )
        rate = found.get("corrected_rate")
        if rate is not None:
            yield Text(
                f"By sensitivity and specificity: {_number(rate['value'])} "
                f"{_ends(rate['ci95'], rate['reason'])} (Rogan–Gladen)."
            )


def agreement_sentence(answer: Mapping[str, Any]) -> str:
    """How far the two agree, and whether that is more than chance, in one sentence.

    Args:
        answer: As ``agreement_answer`` makes it, of at least one item.
    """
    one, other = (one_line(side, at_most=60) for side in answer["sides"])
    who = f"The judge agrees with {other}" if one == "judge" else f"{one} agrees with {other}"
    exact, near, kappa = answer["exact"], answer["within_one"], answer["kappa"]
    apart = ""
    if len(answer["labels"]) > 2:
        apart = f" and is at most one step away in {_percent(near)}"
    if kappa["value"] is None or kappa["ci95"] is None:
        beyond = "whether that is more than chance cannot be told"
    elif kappa["ci95"][0] > 0:
        beyond = f"more than by chance (Cohen's κ {kappa['value']:.2f})"
    else:
        beyond = f"not shown to be more than by chance (Cohen's κ {kappa['value']:.2f})"
    return f"{who} in {_percent(exact)} of {counted(answer['n'], 'item')}{apart}: {beyond}."


def _percent(figure: Mapping[str, Any]) -> str:
    ends = figure["ci95"]
    interval = f" [{100 * ends[0]:.0f}, {100 * ends[1]:.0f}]" if ends else ""
    return f"{100 * figure['value']:.0f} %{interval}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _ends(ends: list[float] | None, reason: str | None) -> str:
    return f"[{ends[0]:.3f}, {ends[1]:.3f}]" if ends else f"none: {reason}"
