"""Says how many further cases would settle a gate or a comparison (spec: metrics, B.5)."""

from typing import Protocol

from trivium.trust.sample_size import MOST_NEEDED, POWER


class Undecided(Protocol):
    """The answer of a gate or of a comparison."""

    @property
    def answer(self) -> str:
        """``pass``, ``fail`` or ``inconclusive``."""

    @property
    def ci95(self) -> tuple[float, float] | None:
        """The interval that decided."""

    @property
    def needs_cases(self) -> int | None:
        """How many further cases would settle it."""

    @property
    def needs_groups(self) -> int | None:
        """How many groups these are."""


def further_cases_needed(found: Undecided) -> str | None:
    """How many further cases would settle it, in words; None if it is settled or no number is known."""
    if found.answer != "inconclusive" or found.ci95 is None or found.needs_cases == 0:
        return None
    if found.needs_cases is None:
        return f"more than {MOST_NEEDED:,} more would be needed to settle it"
    number = f"{found.needs_cases:,} more {'case' if found.needs_cases == 1 else 'cases'}"
    if found.needs_groups not in {None, found.needs_cases}:
        groups = f"{found.needs_groups:,} more {'group' if found.needs_groups == 1 else 'groups'}"
        number = f"{groups} ({found.needs_cases:,} cases)"
    return (
        f"about {number} would settle it with {100 * POWER:g} % probability "
        "if the truth is where the estimate is"
    )
