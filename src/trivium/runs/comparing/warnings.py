"""Builds the warnings of a comparison: what is missing, left out, or rests on too little."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from trivium.runs.columns import most_frequent
from trivium.runs.comparing.comparison import MetricDelta
from trivium.runs.comparing.decision import Options, listed
from trivium.runs.comparing.pairing import WHOLE, PairedScores, ScoredRun, repeats_of
from trivium.runs.run import Run
from trivium.runs.summary import about_groups
from trivium.runs.until_decided.difference import stopped_for
from trivium.suites.rubrics.loader import OVERALL
from trivium.trust.arrays import Ints


def about_runs(
    base: Run, head: Run, left: ScoredRun, right: ScoredRun, *, said: bool = False
) -> Iterator[str]:
    """Yield warnings about values that are missing in either run.

    Args:
        base: The baseline run.
        head: The candidate run.
        left: Scores of base.
        right: Scores of head.
        said: Whether it is said already why head stopped early.
    """
    for word, run in (("base", base), ("head", head)):
        if run.record.state != "done":
            yield f"{word} is not finished ({run.record.state})"
    for word, run, side in (("base", base, left), ("head", head, right)):
        if side.settings.until_decided and not (said and run is head):
            stop = stopped_for(run)
            what = "its gates were" if stop is None else f"its comparison with {stop.against} was"
            yield (
                f"{word} asked cases at most until {what} decided; the difference is of these "
                f"{len(side.cases):,}, and its interval supposes that their number was set beforehand"
            )
    for word, ours, theirs in (("base", left, right), ("head", right, left)):
        alone = int(np.count_nonzero(repeats_of(ours.rows.lacking(theirs.rows)) != WHOLE))
        if alone:
            yield f"{alone:,} of {ours.attempts:,} attempts of {word} have no counterpart and take no part"
    for word, ours, theirs in (("base", left, right), ("head", right, left)):
        names = [name for name in ours.scored if name not in theirs.scored and not theirs.bounds[name]]
        if names:
            yield f"only {word} has a score for {listed(names)}"


def about_judges(base: ScoredRun, head: ScoredRun) -> Iterator[str]:
    """Yield warnings about missing judgements, with the reason."""
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


def about_figures(figures: dict[str, PairedScores]) -> Iterator[str]:
    """Yield warnings about values that are left out of the comparison."""
    for name, figure in figures.items():
        other_method = figure.left_out - figure.one_sided
        if other_method:
            how = "rest on other parts in head" if name == "composite" else "were made in unlike ways"
            yield f"{name}: {other_method:,} pairs {how} and are left out"
        if figure.missing:
            yield f"{name}: {figure.missing:,} pairs lack a side: taken at its worst and at its best"
        if figure.one_sided:
            yield f"{name}: {figure.one_sided:,} pairs have a value on one side only and are left out"


def about_options(deltas: dict[str, MetricDelta], groups: Ints, options: Options) -> Iterator[str]:
    """Yield warnings about the number of groups; ``groups`` has the group of each paired case."""
    fewest = min((one.groups for one in deltas.values() if one.n), default=0)
    sizes = np.bincount(groups)
    yield from about_groups(fewest, float(groups.size**2 / (sizes @ sizes)), level=options.level)
