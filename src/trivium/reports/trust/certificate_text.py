"""A certificate in words."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from trivium.reports.untrusted import one_line
from trivium.reports.wording import counted


class CertificateText:
    """From which confidence on predictions may stand, or why none may.

    Args:
        answer: As ``trivium.runs.artifacts.certificate.certificate`` makes it.
    """

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self._answer = answer

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        found = self._answer
        promise = f"at most {100 * found['epsilon']:g} % wrong, kept with probability {1 - found['delta']:g}"
        name = one_line(found["confidence"], at_most=60)
        if found["threshold"] is None:
            yield Text(f"Nothing can be certified ({promise}).", style="bold")
            yield Text(f"{found['reason']}. Every verdict goes to people.")
        else:
            yield Text(f"Accept from {name} = {found['threshold']:g} on ({promise}).", style="bold")
            yield Text(
                f"That is {found['n_accepted']:,} of the {found['n_items']:,} items "
                f"({100 * found['coverage']:.1f} %), of which {_wrong(found['errors'])}; "
                f"the bound at this threshold is {100 * found['error_bound']:.1f} %. The others go to people."
            )
        yield Text(
            f"{counted(found['n'], 'labelled verdict')} in {counted(found['groups'], 'group')}, "
            f"{counted(found['tested'], 'threshold')} tested, {found['method']}.",
            style="dim",
        )
        yield Text(one_line(confidence_sentence([name], found), at_most=500), style="dim")
        for warning in found["warnings"]:
            yield Text(f"! {one_line(warning, at_most=500)}", style="yellow")


def confidence_sentence(names: Sequence[str], answer: Mapping[str, Any]) -> str:
    """Which confidence ranked the verdicts, why that one, and what the choice cost.

    Args:
        names: The confidences that were used.
        answer: Of ``curve`` or ``certify``.
    """
    choice = answer["confidence_choice"]
    if choice["why"] != "best":
        if choice["why"] == "stated":
            return "Confidence: the one stated with the items."
        why = "as named" if choice["why"] == "named" else "the default of this source"
        return f"Confidence: {', '.join(names)}, {why}."
    each = ", ".join(f"{name} {value:.2f}" for name, value in choice["auroc"].items())
    best = f"Confidence: {names[0]}, the signal with the best AUROC on these labels ({each})"
    if choice["among"] == 1:
        return f"{best}."
    if "delta" in answer:
        return (
            f"{best}. Delta is divided by {choice['among']} for choosing; --confidence names one beforehand."
        )
    return f"{best}. Chosen on these labels, its figures are too good; --confidence names one beforehand."


def _wrong(errors: int) -> str:
    return f"{errors:,} is wrong" if errors == 1 else f"{errors or 'none':} {'are' if errors else 'is'} wrong"
