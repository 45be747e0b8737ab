"""Finds the cause of a drop: the agent, tool, tag, model, version or service that fell more than the rest.

Definition: docs/definitions/monitoring.md#cause. Why it is done this way, and how often it is right:
docs/design/alerts.md.
"""

from collections.abc import Iterable, Sequence
from math import log, sqrt

import msgspec

from trivium.monitor.windows import by_facet, mean_of, value_of
from trivium.store.live_samples import Sample
from trivium.trust.weighted_means import WeightedMean, least_sum

FEWEST = 5
"""Samples that a part needs to be named."""

FEWEST_BEFORE = 20
"""Samples that the time before a drop needs, and those beside a part that is new."""

CLEAR = 3.0
"""Standard errors by which a drop must be seen for its time to be known."""

LEAST_SHARE = 0.25
"""Share of the drop that a part must explain: there may be several causes at once."""

BY_CHANCE = 0.01
"""Probability below which a part that was absent from the beginning of the window is taken as new."""

MOST_RIVALS = 10
"""Parts that fell more than the rest which are compared with one another, those that matter most."""

Part = tuple[str, str]
"""Facet and value."""

Samples = Sequence[Sample]


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The cause of a drop: a part of the traffic that fell more than the rest, beyond chance.

    Attributes:
        facet: ``agent``, ``tool``, ``tag``, ``model``, ``version`` or ``service``.
        value: The facet's value.
        samples: Its samples since the drop began.
        mean: Their mean.
        before: Its mean before, of a part that is new the mean before it came; None if it was as bad at the
            beginning of the window.
        others: Mean of the other samples since then; None if there are too few.
        others_before: Mean of the other samples before; None if it was not compared.
        others_fell: Whether they surely fell, too.
        explains: Share of the drop that would be gone without it, in [0, 1].
        since: Unix time at which the drop probably began; None if it was there at the beginning.
        new: Whether it came within the window.
        compared: Number of parts that were compared.
        likewise: Parts that cannot be told from it, because they are in the same samples.
    """

    facet: str
    value: str
    samples: int
    mean: float
    before: float | None
    others: float | None
    others_before: float | None = None
    others_fell: bool = False
    explains: float
    since: float | None = None
    new: bool = False
    compared: int = 0
    likewise: tuple[Part, ...] = ()

    @property
    def part(self) -> Part:
        """Facet and value."""
        return self.facet, self.value


class _Values:
    """Values of a figure with their weights."""

    def __init__(self, samples: Iterable[Sample], figure: str) -> None:
        self.n, self.weight, self.squares, self.sum = 0, 0.0, 0.0, 0.0
        for sample in samples:
            value = value_of(sample, figure)
            if value is not None:
                self.n += 1
                self.weight += 1 / sample.probability
                self.squares += 1 / sample.probability**2
                self.sum += value / sample.probability

    @property
    def mean(self) -> float:
        return self.sum / self.weight

    @property
    def variance_of_mean(self) -> float:
        """At most m (1 - m) / n for values in [0, 1], with one imagined value of each kind; n is Kish's."""
        n = self.weight**2 / self.squares
        rate = (self.mean * n + 1) / (n + 2)
        return rate * (1 - rate) / n

    def is_below(self, other: "_Values") -> bool:
        """Whether its mean is clearly lower than another one."""
        error = sqrt(self.variance_of_mean + other.variance_of_mean)
        return other.mean - self.mean >= CLEAR * error


def onset(samples: Samples, figure: str) -> int:
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
    known = before.n >= FEWEST_BEFORE and after.n >= FEWEST
    return place if known and after.is_below(before) else 0


class _Split(msgspec.Struct, frozen=True):
    """The samples by which a part is compared with the rest.

    Attributes:
        part: Facet and value.
        now: Its samples since the drop.
        before: Those before; empty if its level is compared, not its fall.
        others: The other samples since the drop; of a part that nothing ran beside, those before it.
        others_before: Those before; empty if the level is compared.
        since: Unix time of the split; None if the whole window is compared.
        new: Whether the part came within the window.
        tried: Number of times at which it could have been split, if it was split where it fell most.
    """

    part: Part
    now: Samples
    before: Samples
    others: Samples
    others_before: Samples
    since: float | None
    new: bool = False
    tried: int = 1

    def means(self, figure: str) -> "_Means | None":
        """The four means; None if there is too little to compare."""
        now, others = _Values(self.now, figure), _Values(self.others, figure)
        if now.n < FEWEST or not others.n:
            return None
        before, others_before = _Values(self.before, figure), _Values(self.others_before, figure)
        known = bool(before.n and others_before.n)
        fell = before.mean - now.mean if known else -now.mean
        others_fell = others_before.mean - others.mean if known else -others.mean
        share = now.weight / (now.weight + others.weight)
        return _Means(self, now, others, known, fell - others_fell, share)


class _Means(msgspec.Struct, frozen=True):
    """How much more a part fell than the rest."""

    split: _Split
    now: _Values
    others: _Values
    known: bool
    more: float
    share: float

    @property
    def gain(self) -> float:
        """The variance between the part and the rest, by which a decision tree chooses a split."""
        return self.share * (1 - self.share) * self.more**2

    @property
    def dated(self) -> bool:
        """Whether it is known to have fallen, or to be new; others may always have been low."""
        return self.known or self.split.new

    def surely(self, figure: str, alpha: float) -> bool:
        """Whether it fell more than the rest, with an error of alpha."""
        if self.more <= 0:
            return False
        split = self.split
        plus, minus = [split.others], [split.now]
        if self.known:
            plus, minus = [split.others, split.before], [split.now, split.others_before]
        return _surely_above(plus, minus, figure, alpha / split.tried)


def origin_of(
    samples: Samples,
    figure: str,
    facets: Sequence[str],
    *,
    expected: float,
    alpha: float = 0.05,
    among: Iterable[Part] | None = None,
) -> Origin | None:
    """The cause of a drop: the part that explains most of it, of those that surely fell more than the rest.

    Definition: docs/definitions/monitoring.md#cause.

    Args:
        samples: Those of the window.
        figure: The figure that dropped.
        facets: Facets to look at. Of two parts that explain as much, the facet that comes first is named.
        expected: What the mean should be, if the window does not say what it was before.
        alpha: Probability that a part is named though none fell more than the rest, in (0, 1).
        among: Only these parts, which need not explain a share of the drop.

    Returns:
        None if no part surely fell more than the rest.
    """
    ordered = sorted(samples, key=lambda each: (each.time, each.number))
    place = onset(ordered, figure)
    found, expected, now = [], _expected(ordered, place, figure, expected), _Values(ordered[place:], figure)
    if not now.n:
        return None
    parts = by_facet(ordered, facets)
    allowed = parts.keys() if among is None else set(among)
    for part in sorted(parts, key=lambda each: (facets.index(each[0]), each[1])):
        members = [ordered[each] for each in parts[part]]
        means = _split(ordered, place, part, members, figure).means(figure) if part in allowed else None
        if means is not None:
            found.append(means)
    fallen = [
        each
        for each in sorted(found, key=lambda each: (not each.dated, -round(each.gain, 9)))
        if (among is not None or _explains(each, now, expected) >= LEAST_SHARE)
        and each.surely(figure, alpha / len(found))
    ][:MOST_RIVALS]
    if not fallen:
        return None
    best, likewise = _not_explained_away(fallen, figure, alpha)
    return _origin(best, _explains(best, now, expected), len(found), likewise, figure)


def followed(
    samples: Samples, figure: str, facets: Sequence[str], origin: Origin, *, expected: float
) -> Origin:
    """What is known now of a cause that was named: its means, without another test.

    Args:
        samples: Those of the window.
        figure: The figure that dropped.
        facets: Facets that are looked at.
        origin: The cause.
        expected: What the mean should be, if the window does not say what it was before.
    """
    ordered = sorted(samples, key=lambda each: (each.time, each.number))
    place = onset(ordered, figure)
    now = _Values(ordered[place:], figure)
    members = [ordered[each] for each in by_facet(ordered, facets).get(origin.part, ())]
    means = _split(ordered, place, origin.part, members, figure).means(figure) if members else None
    if means is None or means.dated < (origin.since is not None):
        return origin
    explains = _explains(means, now, _expected(ordered, place, figure, expected))
    return _origin(means, explains, origin.compared, origin.likewise, figure)


def explained(samples: Samples, figure: str, part: Part, origin: Part | None, threshold: float) -> bool:
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
    rest = _Values((each for each in samples if _has(each, part) and not _has(each, origin)), figure)
    return rest.n < FEWEST or rest.mean + 2 * sqrt(rest.variance_of_mean) >= threshold


def _expected(ordered: Samples, place: int, figure: str, expected: float) -> float:
    before = _Values(ordered[:place], figure)
    return max(expected, before.mean) if before.n else expected


def _split(ordered: Samples, place: int, part: Part, members: Samples, figure: str) -> _Split:
    """How a part is compared with the rest: by its fall, as new, or by its level."""
    own = onset(members, figure)
    first, last = members[0], members[-1]
    start = next(position for position, each in enumerate(ordered) if each is first)
    earlier = ordered[:start]
    if _is_new(start, len(members), len(ordered)) and not _fell_later(members[:own], earlier, figure):
        beside = [each for each in ordered[start:] if not _has(each, part) and each.time <= last.time]
        alone = len(beside) < FEWEST_BEFORE
        others, before = (earlier, ()) if alone else (beside, earlier)
        return _Split(part, members, (), others, before, first.time, new=True)
    since = ordered[place].time if place else members[own].time if own else None
    rest = [each for each in ordered if not _has(each, part)]
    if since is None:
        return _Split(part, members, (), rest, (), None)
    now, before = _parted(members, since)
    others, others_before = _parted(rest, since)
    if len(before) < FEWEST or len(others_before) < FEWEST:
        before, others_before = (), ()
    tried = 1 if place else len(members)
    return _Split(part, now, before, others, others_before, since, tried=tried)


def _fell_later(healthy: Samples, earlier: Samples, figure: str) -> bool:
    """Whether a new part was as good as what ran before it, until it fell."""
    was, before = _Values(healthy, figure), _Values(earlier, figure)
    return bool(was.n and before.n) and not was.is_below(before)


def _is_new(start: int, members: int, total: int) -> bool:
    """Whether a part that is absent from the first samples came later, as they are too many for chance."""
    share = members / (total - start)
    return start >= FEWEST_BEFORE and (share == 1 or start * log(1 - share) <= log(BY_CHANCE))


def _parted(samples: Samples, time: float) -> tuple[Samples, Samples]:
    """The samples from a time on, and those before."""
    return [each for each in samples if each.time >= time], [each for each in samples if each.time < time]


def _explains(means: _Means, now: _Values, expected: float) -> float:
    return min(1.0, max(0.0, (means.others.mean - now.mean) / max(expected - now.mean, 1e-9)))


def _not_explained_away(
    fallen: Sequence[_Means], figure: str, alpha: float
) -> tuple[_Means, tuple[Part, ...]]:
    """The first part that no other explains away, and those that cannot be told from it.

    One part explains another away if it matters among the samples with the other and without it, and the
    other does not.
    """
    for each in fallen:
        likewise = []
        for other in fallen:
            if other is each or _matters(each, other, figure, alpha):
                continue
            if _matters(other, each, figure, alpha):
                break
            likewise.append(other.split.part)
        else:
            return each, tuple(likewise)
    return fallen[0], ()


def _matters(one: _Means, other: _Means, figure: str, alpha: float) -> bool:
    """Whether a part is lower than the rest where another part is the same."""
    pool = {each.trace: each for each in (*one.split.now, *one.split.others)}.values()
    for having in (True, False):
        inside = [each for each in pool if _has(each, other.split.part) is having]
        members = [each for each in inside if _has(each, one.split.part)]
        rest = [each for each in inside if not _has(each, one.split.part)]
        if len(members) >= FEWEST and rest and _surely_above([rest], [members], figure, alpha):
            return True
    return False


def _surely_above(plus: Sequence[Samples], minus: Sequence[Samples], figure: str, alpha: float) -> bool:
    """Whether some means are together surely larger than others."""
    confidence = 1 - 2 * min(alpha, 0.4)
    above = [mean_of(each, figure, confidence=confidence) for each in plus]
    below = [mean_of(each, figure, confidence=confidence) for each in minus]
    means: list[WeightedMean] = [each for each in (*above, *below) if each is not None]
    if len(means) < len(above) + len(below):
        return False
    return least_sum(means[: len(above)], means[len(above) :]) > 0


def _origin(means: _Means, explains: float, compared: int, likewise: tuple[Part, ...], figure: str) -> Origin:
    split = means.split
    alone = split.new and not split.others_before
    beside: Samples = () if alone else split.others
    earlier = split.others if alone else split.others_before
    others, others_before = _Values(beside, figure), _Values(earlier, figure)
    before = _Values(split.before, figure) if means.known else others_before
    dated = means.dated and before.n > 0
    fell = bool(others.n and others_before.n) and _surely_above([earlier], [beside], figure, 0.05)
    return Origin(
        facet=split.part[0],
        value=split.part[1],
        samples=means.now.n,
        mean=means.now.mean,
        before=before.mean if dated else None,
        others=others.mean if others.n else None,
        others_before=others_before.mean if dated and not alone and others_before.n else None,
        others_fell=fell,
        explains=explains,
        since=split.since if dated else None,
        new=split.new,
        compared=compared,
        likewise=likewise,
    )


def _has(sample: Sample, part: Part) -> bool:
    return part == ("", "") or part[1] in sample.facets.get(part[0], ())
