"""Finds the cause of a drop: the agent, tool, tag, model, version or service that fell more than the rest.

Definition: docs/definitions/monitoring.md#cause. Why it is done this way, and how often it is right:
docs/design/alerts.md.
"""

from collections.abc import Iterable, Sequence
from math import log, sqrt
from typing import Any

import msgspec

from trivium.monitor.windows import by_facet, mean_of, value_of
from trivium.store.live_samples import Sample
from trivium.trust.weighted_means import least_sum

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
    """Samples, and their values of a figure with their weights."""

    def __init__(self, samples: Samples, figure: str) -> None:
        self.samples, self.figure = samples, figure
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


class _Compared(msgspec.Struct, frozen=True):
    """A part of the traffic beside the rest.

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
    now: _Values
    before: _Values
    others: _Values
    others_before: _Values
    since: float | None = None
    new: bool = False
    tried: int = 1

    @property
    def known(self) -> bool:
        """Whether its fall is compared, not its level."""
        return bool(self.before.n and self.others_before.n)

    @property
    def more(self) -> float:
        """How much more it fell than the rest, or is below it."""
        if not self.known:
            return self.others.mean - self.now.mean
        return (self.before.mean - self.now.mean) - (self.others_before.mean - self.others.mean)

    @property
    def gain(self) -> float:
        """The variance between the part and the rest, by which a decision tree chooses a split."""
        share = self.now.weight / (self.now.weight + self.others.weight)
        return share * (1 - share) * self.more**2

    @property
    def dated(self) -> bool:
        """Whether it is known to have fallen, or to be new; others may always have been low."""
        return self.known or self.new

    def surely(self, alpha: float) -> bool:
        """Whether it fell more than the rest, with an error of alpha."""
        if self.more <= 0:
            return False
        plus, minus = [self.others], [self.now]
        if self.known:
            plus, minus = [self.others, self.before], [self.now, self.others_before]
        return _surely_above(plus, minus, alpha / self.tried)

    def explains(self, now: _Values, expected: float) -> float:
        """Share of the drop of all traffic that would be gone without it."""
        return min(1.0, max(0.0, (self.others.mean - now.mean) / max(expected - now.mean, 1e-9)))


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
    ordered, place, now, expected = _drop(samples, figure, expected)
    if not now.n:
        return None
    parts = by_facet(ordered, facets)
    allowed = parts.keys() if among is None else set(among)
    found = []
    for part in sorted(allowed & parts.keys(), key=lambda each: (facets.index(each[0]), each[1])):
        compared = _compared(ordered, place, part, [ordered[each] for each in parts[part]], figure)
        if compared is not None:
            found.append(compared)
    fallen = [
        each
        for each in sorted(found, key=lambda each: (not each.dated, -round(each.gain, 9)))
        if (among is not None or each.explains(now, expected) >= LEAST_SHARE)
        and each.surely(alpha / len(found))
    ][:MOST_RIVALS]
    if not fallen:
        return None
    best, likewise = _not_explained_away(fallen, alpha)
    return _origin(best, best.explains(now, expected), len(found), likewise)


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
    ordered, place, now, expected = _drop(samples, figure, expected)
    members = [ordered[each] for each in by_facet(ordered, facets).get(origin.part, ())]
    found = _compared(ordered, place, origin.part, members, figure) if members else None
    if found is None or found.dated < (origin.since is not None):
        return origin
    return _origin(found, found.explains(now, expected), origin.compared, origin.likewise)


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
    rest = _Values([each for each in samples if _has(each, part) and not _has(each, origin)], figure)
    return rest.n < FEWEST or rest.mean + 2 * sqrt(rest.variance_of_mean) >= threshold


def _drop(samples: Samples, figure: str, expected: float) -> tuple[Samples, int, _Values, float]:
    """The samples oldest first, where the drop begins, those since then, and what their mean should be."""
    ordered = sorted(samples, key=lambda each: (each.time, each.number))
    place = onset(ordered, figure)
    before, now = _Values(ordered[:place], figure), _Values(ordered[place:], figure)
    return ordered, place, now, max(expected, before.mean) if before.n else expected


def _compared(ordered: Samples, place: int, part: Part, members: Samples, figure: str) -> _Compared | None:
    """A part beside the rest, by its fall, as new, or by its level; None if it or the rest is too small."""

    def made(*sides: Samples, **how: Any) -> _Compared | None:
        now, before, others, others_before = (_Values(each, figure) for each in sides)
        if now.n < FEWEST or not others.n:
            return None
        return _Compared(part, now, before, others, others_before, **how)

    own = onset(members, figure)
    first, last = members[0], members[-1]
    start = next(position for position, each in enumerate(ordered) if each is first)
    earlier = ordered[:start]
    if _is_new(start, len(members), len(ordered)) and not _fell_later(members[:own], earlier, figure):
        beside = [each for each in ordered[start:] if not _has(each, part) and each.time <= last.time]
        sides = (earlier, ()) if len(beside) < FEWEST_BEFORE else (beside, earlier)
        return made(members, (), *sides, since=first.time, new=True)
    since = ordered[place].time if place else members[own].time if own else None
    rest = [each for each in ordered if not _has(each, part)]
    if since is None:
        return made(members, (), rest, ())
    now, before = _parted(members, since)
    others, others_before = _parted(rest, since)
    if len(before) < FEWEST or len(others_before) < FEWEST:
        before, others_before = (), ()
    return made(now, before, others, others_before, since=since, tried=1 if place else len(members))


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


def _not_explained_away(fallen: Sequence[_Compared], alpha: float) -> tuple[_Compared, tuple[Part, ...]]:
    """The first part that no other explains away, and those that cannot be told from it.

    One part explains another away if it matters among the samples with the other and without it, and the
    other does not.
    """
    for each in fallen:
        likewise = []
        for other in fallen:
            if other is each or _matters(each, other, alpha):
                continue
            if _matters(other, each, alpha):
                break
            likewise.append(other.part)
        else:
            return each, tuple(likewise)
    return fallen[0], ()


def _matters(one: _Compared, other: _Compared, alpha: float) -> bool:
    """Whether a part is lower than the rest where another part is the same."""
    pool = {each.trace: each for each in (*one.now.samples, *one.others.samples)}.values()
    for having in (True, False):
        inside = [each for each in pool if _has(each, other.part) is having]
        members = [each for each in inside if _has(each, one.part)]
        rest = [each for each in inside if not _has(each, one.part)]
        sides = [_Values(each, one.now.figure) for each in (rest, members)]
        if len(members) >= FEWEST and rest and _surely_above(sides[:1], sides[1:], alpha):
            return True
    return False


def _surely_above(plus: Sequence[_Values], minus: Sequence[_Values], alpha: float) -> bool:
    """Whether some means are together surely larger than others."""
    confidence = 1 - 2 * min(alpha, 0.4)
    means = [mean_of(each.samples, each.figure, confidence=confidence) for each in (*plus, *minus)]
    known = [each for each in means if each is not None]
    return len(known) == len(means) and least_sum(known[: len(plus)], known[len(plus) :]) > 0


def _origin(found: _Compared, explains: float, compared: int, likewise: tuple[Part, ...]) -> Origin:
    alone = found.new and not found.others_before.samples
    earlier = found.others if alone else found.others_before
    beside = _Values((), found.now.figure) if alone else found.others
    before = found.before if found.known else earlier
    dated = found.dated and before.n > 0
    return Origin(
        facet=found.part[0],
        value=found.part[1],
        samples=found.now.n,
        mean=found.now.mean,
        before=before.mean if dated else None,
        others=beside.mean if beside.n else None,
        others_before=earlier.mean if dated and not alone and earlier.n else None,
        others_fell=bool(beside.n and earlier.n) and _surely_above([earlier], [beside], 0.05),
        explains=explains,
        since=found.since if dated else None,
        new=found.new,
        compared=compared,
        likewise=likewise,
    )


def _has(sample: Sample, part: Part) -> bool:
    return part == ("", "") or part[1] in sample.facets.get(part[0], ())
