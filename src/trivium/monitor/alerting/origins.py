"""Finds where a drop comes from: the agent, tool, tag, model, version or service that explains most of it."""

from collections.abc import Iterable, Sequence
from math import sqrt

import msgspec

from trivium.monitor.windows import by_facet, value_of
from trivium.store.live_samples import Sample

FEWEST = 5
"""Samples that a part needs to be named."""

FEWEST_BEFORE = 20
"""Samples that the time before a drop needs."""

CLEAR = 3.0
"""Standard errors by which a part must have fallen more than the rest."""

LEAST_SHARE = 0.25
"""Share of the drop that a part must explain: there may be several causes at once."""

Part = tuple[str, str]
"""Facet and value."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """What explains most of a drop.

    Attributes:
        facet: ``agent``, ``tool``, ``tag``, ``model``, ``version`` or ``service``.
        value: The facet's value.
        samples: Its samples since the drop began.
        mean: Their mean.
        before: Its mean before; None if it was as bad at the beginning of the window.
        others: Mean of the other samples since the drop began.
        explains: Share of the drop that would be gone without it, in [0, 1].
        since: Unix time at which the drop probably began; None if it was there at the beginning.
    """

    facet: str
    value: str
    samples: int
    mean: float
    before: float | None
    others: float
    explains: float
    since: float | None = None


class _Values:
    """Values of a figure with their weights."""

    def __init__(self, samples: Iterable[Sample], figure: str) -> None:
        self.n, self.weight, self.sum = 0, 0.0, 0.0
        for sample in samples:
            value = value_of(sample, figure)
            if value is not None:
                self.n += 1
                self.weight += 1 / sample.probability
                self.sum += value / sample.probability

    @property
    def mean(self) -> float:
        return self.sum / self.weight

    @property
    def variance_of_mean(self) -> float:
        """At most m (1 - m) / n for values in [0, 1], with one imagined value of each kind."""
        rate = (self.mean * self.n + 1) / (self.n + 2)
        return rate * (1 - rate) / self.n


def onset(samples: Sequence[Sample], figure: str) -> int:
    """Return the position of the first sample of a drop; 0 if there is no clear one.

    The position with the largest cumulative sum of differences from the mean (the CUSUM estimate of one
    change).

    Args:
        samples: Oldest first.
        figure: The figure.
    """
    whole = _Values(samples, figure)
    if not whole.n:
        return 0
    total = best = 0.0
    place = 0
    for position, sample in enumerate(samples, 1):
        value = value_of(sample, figure)
        if value is not None:
            total += (value - whole.mean) / sample.probability
        if total > best:
            best, place = total, position
    before, after = _Values(samples[:place], figure), _Values(samples[place:], figure)
    if (
        before.n < FEWEST_BEFORE
        or after.n < FEWEST
        or before.mean - after.mean < CLEAR * _error(before, after)
    ):
        return 0
    return place


def origin_of(
    samples: Sequence[Sample],
    figure: str,
    facets: Sequence[str],
    *,
    expected: float,
    among: Iterable[Part] | None = None,
) -> Origin | None:
    """The part that explains most of a drop.

    Parts are compared by the share of the variance that is between a part and the rest (as a decision tree
    chooses a split), where each counts by its fall since the drop began: a part that was always weak explains
    nothing. Of two parts that explain as much, the facet that comes first is named.

    Args:
        samples: Those of the window.
        figure: The figure that dropped.
        facets: Facets to look at.
        expected: What the mean should be, if the window does not say what it was before.
        among: Only these parts, which need not explain a share of the drop.

    Returns:
        None if no part clearly fell more than the rest.
    """
    ordered = sorted(samples, key=lambda each: (each.time, each.number))
    place = onset(ordered, figure)
    earlier, later = ordered[:place], ordered[place:]
    before, now = _Values(earlier, figure), _Values(later, figure)
    if not now.n:
        return None
    expected = max(expected, before.mean) if before.n else expected
    parts, parts_before = by_facet(later, facets), by_facet(earlier, facets)
    allowed = None if among is None else set(among)
    best, best_gain = None, 0.0
    for part in sorted(parts, key=lambda each: (facets.index(each[0]), each[1])):
        if allowed is not None and part not in allowed:
            continue
        found = _candidate(parts[part], parts_before.get(part, ()), before, now, figure)
        if found is None:
            continue
        gain, mean, was, others, number = found
        explains = min(1.0, max(0.0, (others - now.mean) / max(expected - now.mean, 1e-9)))
        if gain > best_gain * 1.001 and (allowed is not None or explains >= LEAST_SHARE):
            best_gain = gain
            best = Origin(
                facet=part[0],
                value=part[1],
                samples=number,
                mean=mean,
                before=was,
                others=others,
                explains=explains,
                since=later[0].time if place else None,
            )
    return best


def explained(
    samples: Sequence[Sample], figure: str, part: Part, origin: Part | None, threshold: float
) -> bool:
    """Whether a part would be fine without the samples of an origin.

    Args:
        samples: Those of the window.
        figure: The figure.
        part: The part; two empty texts for all traffic.
        origin: The origin; None explains everything.
        threshold: Below it the part is not fine.
    """
    if origin is None or part == origin:
        return True
    rest = _Values(
        (each for each in samples if _has(each, part) and not _has(each, origin)),
        figure,
    )
    return rest.n < FEWEST or rest.mean + 2 * sqrt(rest.variance_of_mean) >= threshold


def _candidate(
    members: Sequence[Sample], members_before: Sequence[Sample], before: _Values, now: _Values, figure: str
) -> tuple[float, float, float | None, float, int] | None:
    """Gain, mean, mean before, mean of the others, and number of a part; None if it did not fall more."""
    part = _Values(members, figure)
    rest = _without(now, part)
    if part.n < FEWEST or rest.n < 1:
        return None
    part_before = _Values(members_before, figure)
    rest_before = _without(before, part_before)
    overall = before.mean if before.n else 0.0  # a constant, if nothing is known of the time before
    was = part_before.mean if part_before.n >= FEWEST else overall
    others_were = rest_before.mean if rest_before.n >= FEWEST else overall
    more = (was - part.mean) - (others_were - rest.mean)
    if more < CLEAR * _error(part, rest):
        return None
    share = part.weight / now.weight
    known = part_before.mean if part_before.n >= FEWEST else None
    return share * (1 - share) * more**2, part.mean, known, rest.mean, part.n


def _without(whole: _Values, part: _Values) -> _Values:
    rest = _Values((), "")
    rest.n = whole.n - part.n
    rest.weight, rest.sum = max(0.0, whole.weight - part.weight), max(0.0, whole.sum - part.sum)
    if rest.weight < 1e-9 * max(1.0, whole.weight):
        rest.n = 0
    return rest


def _error(one: _Values, other: _Values) -> float:
    return sqrt(one.variance_of_mean + other.variance_of_mean)


def _has(sample: Sample, part: Part) -> bool:
    return part == ("", "") or part[1] in sample.facets.get(part[0], ())
