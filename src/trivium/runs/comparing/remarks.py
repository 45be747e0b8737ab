"""Remarks: what a reader of a comparison must know before reading its numbers."""

from collections import Counter
from collections.abc import Iterator

from trivium.runs.comparing.comparison import MetricDelta
from trivium.runs.comparing.deciding import listed
from trivium.runs.comparing.options import Options
from trivium.runs.comparing.pairing import Reduced
from trivium.runs.comparing.scored import WHOLE, Scored
from trivium.runs.gathering.columns import most_frequent
from trivium.runs.run import Run
from trivium.runs.warnings import FEW_GROUPS, TOO_FEW_GROUPS
from trivium.suites.rubrics.checking import OVERALL


def about_runs(base: Run, head: Run, left: Scored, right: Scored) -> Iterator[str]:
    """What is missing on either side."""
    for word, run in (("base", base), ("head", head)):
        if run.record.state != "done":
            yield f"{word} is not finished ({run.record.state})"
    for word, ours, theirs in (("base", left, right), ("head", right, left)):
        alone = sum(key not in theirs.rows for key in ours.rows if key[1] != WHOLE)
        if alone:
            yield f"{alone:,} of {ours.attempts:,} attempts of {word} have no counterpart and take no part"
    for word, ours, theirs in (("base", left, right), ("head", right, left)):
        names = [name for name in ours.scored if name not in theirs.scored and not theirs.bounds[name]]
        if names:
            yield f"only {word} has a score for {listed(names)}"


def about_judges(base: Scored, head: Scored) -> Iterator[str]:
    """Which run was not judged although it was due, and why."""
    for word, side in (("base", base), ("head", head)):
        judged = {
            name: reasons
            for name, reasons in side.unavailable.items()
            if side.tiers[name] == "judge" and not name.endswith(f".{OVERALL}")
        }
        if judged:
            most = max(judged.values(), key=Counter.total)
            count, why = most.total(), most_frequent(most)
            part = "" if count == side.attempts else f" in {count:,} of {side.attempts:,}"
            yield f"{word} was not judged{part}: {why}."


def about_figures(figures: dict[str, Reduced]) -> Iterator[str]:
    """Pairs that take no part."""
    for name, figure in figures.items():
        apart = figure.left_out - figure.one_sided
        if apart:
            how = "rest on other parts in head" if name == "composite" else "were made in unlike ways"
            yield f"{name}: {apart:,} pairs {how} and are left out"
        if figure.missing:
            yield f"{name}: {figure.missing:,} pairs lack a side: taken at its worst and at its best"
        if figure.one_sided:
            yield f"{name}: {figure.one_sided:,} pairs have a value on one side only and are left out"


def about_options(deltas: dict[str, MetricDelta], options: Options) -> Iterator[str]:
    """Whether there are enough groups."""
    fewest = min((one.groups for one in deltas.values() if one.n), default=0)
    if fewest == 1:
        yield "one group gives no interval: it cannot be told how much another group would differ"
    elif 0 < fewest < TOO_FEW_GROUPS:
        yield f"intervals rest on {fewest} groups: too few to call them {100 * options.level:g} % intervals"
    elif 0 < fewest < FEW_GROUPS:
        yield f"intervals rest on {fewest} groups: with fewer than 20 they are wide"
