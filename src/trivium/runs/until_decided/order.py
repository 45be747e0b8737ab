"""Draws the random order in which a run asks its groups; each tag appears early in about its overall share.

Groups whose cases have the same tags are a stratum. Within a stratum the order is random, and the strata are
interleaved: the group of rank r among the n of its stratum has the place (r + u) / n, where u in [0, 1) is
random for each stratum. So the first t groups hold about t p groups of a stratum with the share p of all.
Strata with less than a tenth of the groups share one, in which the order is random.

Why a test needs a handicap. Without strata the groups are independent draws, and a gambler's capital M
(``trust.sequential_mean``) is expected to stay at 1 if the mean is the limit. In an interleaved order the
groups of a stratum whose mean lies above the limit come at known places, and the capital is expected to rise
there. Let y_s be the expected factor of a bet in stratum s. If the mean over all groups is at most the limit,
Σ p_s y_s <= 1. After t groups, n_s of them of stratum s, the expected capital is

    Π y_s ** n_s <= Π (n_s / (t p_s)) ** n_s = exp(t KL(n / t, p)) =: B_t

whatever the means of the strata are (the maximum under the constraint, at y_s = n_s / (t p_s)). Groups of a
stratum are independent draws, so M divided by its expectation is a martingale: M >= B_t / alpha happens at
any t with probability at most alpha (Ville). The handicap is log B_t, which the order alone determines. With
n_s = t p_s + e_s it is about Σ e_s ** 2 / (2 t p_s), soon next to nothing, and without strata it is 0. The
order gains no power by itself: it makes the cases that were asked resemble the suite.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from math import log
from typing import Final

from trivium.suites.case import Case

Tags = frozenset[str]

SMALLEST_SHARE: Final = 0.1
"""Share of the groups below which a stratum is not one of its own; each adds to the first handicaps."""


def place_of(run: str, group: str) -> bytes:
    """Sort key of a group in the random order of a run, within its stratum."""
    return blake2b(f"{run}\0{group}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def tags_of(cases: Iterable[tuple[str, Case]]) -> dict[str, Tags]:
    """The tags of each group's cases.

    Args:
        cases: Each case with the name of its group.
    """
    found: defaultdict[str, set[str]] = defaultdict(set)
    for group, case in cases:
        found[group].update(case.tags)
    return {group: frozenset(tags) for group, tags in found.items()}


class GroupOrder:
    """The random order of groups, and the handicap of a test after each.

    Definition: docs/definitions/comparisons.md#until-decided.

    Args:
        run: Id of the run, which determines the order.
        tags: The tags of each group.

    Attributes:
        names: The groups, in order.
        handicaps: Logarithm of how much capital could be expected after each group if the mean is the limit.
    """

    def __init__(self, run: str, tags: Mapping[str, Tags]) -> None:
        sizes = Counter(tags.values())
        strata: defaultdict[Tags | None, list[str]] = defaultdict(list)
        for group, of_group in tags.items():
            strata[of_group if sizes[of_group] >= SMALLEST_SHARE * len(tags) else None].append(group)
        places: list[tuple[float, bytes, str, Tags | None]] = []
        for stratum, groups in strata.items():
            offset = int.from_bytes(place_of(run, f"\0{sorted(stratum or ())}")) / 2**128
            ranked = sorted((place_of(run, group), group) for group in groups)
            places += [
                ((rank + offset) / len(groups), place, group, stratum)
                for rank, (place, group) in enumerate(ranked)
            ]
        places.sort(key=lambda each: each[:2])
        self.names = [group for _, _, group, _ in places]
        shares = {stratum: len(groups) / len(tags) for stratum, groups in strata.items()}
        self.handicaps = _handicaps([stratum for *_, stratum in places], shares)


def _handicaps(order: list[Tags | None], shares: Mapping[Tags | None, float]) -> list[float]:
    """Log of the largest capital that can be expected after each group; see the head of this file."""
    seen: Counter[Tags | None] = Counter()
    found = []
    for t, stratum in enumerate(order, start=1):
        seen[stratum] += 1
        found.append(max(0.0, sum(n * log(n / (t * shares[each])) for each, n in seen.items())))
    return found
