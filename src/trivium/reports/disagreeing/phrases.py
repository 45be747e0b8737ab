"""How disagreements are put into words, the same in every report."""

from trivium.reports import wording
from trivium.reports.untrusted import one_line
from trivium.runs.disagreeing.disagreement import Disagreement, Disagreements, Opinion, Tally

KINDS = {
    "judges": "judge against judge",
    "people": "judge against people",
    "runs": "judge against judge of another run",
}
REASON_CHARS = 300


def headline(found: Disagreements) -> str:
    """How many there are, and of what."""
    total = len(found.found) + found.left_out
    shown = f", the {len(found.found):,} farthest apart are shown" if found.left_out else ""
    return f"{wording.counted(total, 'disagreement')}{shown}" if total else "no disagreement"


def sources(found: Disagreements) -> str:
    """What the run was compared with."""
    parts = [f"labels {one_line(found.labels)}"] if found.labels is not None else []
    parts += [f"run {one_line(found.against)}"] if found.against is not None else []
    return " and ".join(parts)


def opinion(each: Opinion) -> str:
    """Who thinks what."""
    return f"{one_line(each.by, at_most=80)} {value(each)}"


def value(each: Opinion) -> str:
    """What somebody thinks."""
    return "abstained" if each.value is None else wording.number(each.value)


def apart(each: Disagreement) -> str:
    """How far they are apart."""
    return wording.NOTHING if each.apart is None else wording.number(each.apart)


def signed(number: float | None) -> str:
    """A mean difference with its sign."""
    return wording.NOTHING if number is None else f"{number:+.3f}"


def agreed(tally: Tally) -> str:
    """How often all were of one opinion."""
    return f"{tally.agreed:,} of {tally.compared:,}"
