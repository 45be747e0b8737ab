"""Describes how many further cases would settle a gate or a comparison (spec: metrics, B.5)."""

from typing import Protocol

from trivium.trust.sample_size import MOST_NEEDED, POWER


class Undecided(Protocol):
    """The answer of a gate or of a comparison."""

    @property
    def answer(self) -> str:
        """``pass``, ``fail`` or ``inconclusive``."""

    @property
    def ci95(self) -> tuple[float, float] | None:
        """The interval that the answer is based on."""

    @property
    def needs_cases(self) -> int | None:
        """Number of further cases that would settle it."""

    @property
    def needs_groups(self) -> int | None:
        """Number of groups of these cases."""


def further_cases_needed(result: Undecided) -> str | None:
    """Say how many further cases would settle a result; None if it is settled or the number is unknown."""
    if result.answer != "inconclusive" or result.ci95 is None or result.needs_cases == 0:
        return None
    if result.needs_cases is None:
        return f"more than {MOST_NEEDED:,} more would be needed to settle it"
    number = f"{result.needs_cases:,} more {'case' if result.needs_cases == 1 else 'cases'}"
    if result.needs_groups not in {None, result.needs_cases}:
        groups = f"{result.needs_groups:,} more {'group' if result.needs_groups == 1 else 'groups'}"
        number = f"{groups} ({result.needs_cases:,} cases)"
    return (
        f"about {number} would settle it with {100 * POWER:g} % probability "
        "if the truth is where the estimate is"
    )
