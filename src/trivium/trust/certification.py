"""Certifies the lowest confidence at which judgements may be accepted with a guaranteed error rate."""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise
from math import ceil, inf, log, log1p
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import bdtr, betaincinv

from trivium.display import HtmlRepr
from trivium.errors import TrustError
from trivium.trust.arrays import (
    Floats,
    Ints,
    check_binary,
    check_finite,
    check_inside_unit,
    check_lengths,
    floats,
    without_noise,
)
from trivium.trust.cluster_bootstrap import Groups
from trivium.trust.sample_size import POWER

STAKES = np.linspace(0.05, 1.0, 20)
"""Stakes, as shares of the largest bet that cannot lose more than everything; the capital is the mean over
them."""


LogP = Callable[[int], float]
"""Maps a number of accepted verdicts to the log of a p-value."""


class RiskTest(NamedTuple):
    """Tests the hypothesis that the error rate of verdicts like the accepted ones exceeds a limit.

    Definition: docs/definitions/calibration.md#certificate.

    ``exact binomial``, for one verdict per group: the probability of at most so many errors if the error rate
    equals the limit. For several, groups are independent, and verdicts of one group may be correlated: with
    at most ``size`` of them, (errors + limit · (size - accepted)) / size lies in [0, 1], and its mean over
    groups is at most the limit exactly if the error rate of accepted verdicts is. ``hoeffding`` is his
    inequality on these means. ``betting`` (Waudby-Smith and Ramdas 2024) starts with a capital of 1 and
    stakes a fixed share on each mean lying below the limit. If the error rate is above the limit, the
    expected capital is at most 1, so it reaches 1 / p with probability at most p (Markov), in any order of
    the groups. The capital is the mean over a grid of stakes.

    Attributes:
        method: ``exact binomial``, ``hoeffding`` or ``betting``.
        groups: Number of groups.
        size: Largest possible number of verdicts in a group.
    """

    method: str
    groups: int
    size: int

    def log_p(self, limit: float, codes: Ints, wrong: Floats) -> LogP:
        """Log of the p-value once so many of the verdicts are accepted, at most 0.

        Args:
            limit: The limit, in (0, 1).
            codes: The group of each verdict, shape (k,).
            wrong: 1 where it is wrong, else 0; shape (k,).
        """
        if self.method != "exact binomial":
            accepted, lost = _so_far(codes, wrong)
            return self._of_groups(limit, limit * accepted - lost, limit * (accepted - 1) - (lost - wrong))
        errors = np.cumsum(wrong)

        def exact(accepted: int) -> float:
            if not errors[accepted - 1]:
                return accepted * log1p(-limit)
            tail = float(bdtr(errors[accepted - 1], accepted, limit))
            return log(tail) if tail else -inf

        return exact

    def bound(self, delta: float, codes: Ints, wrong: Floats) -> float:
        """The smallest limit whose p-value after all verdicts is at most ``delta``, in [0, 1].

        Args:
            delta: In (0, 1).
            codes: See :meth:`log_p`; at least one verdict.
            wrong: See :meth:`log_p`.
        """
        accepted, errors = (np.bincount(codes, each, self.groups) for each in (None, wrong))
        if self.method == "exact binomial":
            lost, right = errors.sum(), codes.size - errors.sum()
            return float(betaincinv(lost + 1, right, 1 - delta)) if right else 1.0

        def above(limit: float) -> float:  # decreases with the limit
            (excess,) = floats(limit * accepted - errors)
            return self._of_groups(limit, excess, np.zeros(self.groups))(self.groups) - log(delta)

        lowest, highest = 1e-12, 1 - 1e-9
        return 1.0 if above(highest) > 0 else float(brentq(above, lowest, highest, xtol=1e-9))

    def _of_groups(self, limit: float, excess: Floats, before: Floats) -> LogP:
        """The same for changes of limit · accepted - errors of one group after the other, from ``before``."""
        groups, size = self.groups, self.size
        if self.method == "hoeffding":
            gains = np.cumsum(excess - before)
            return lambda count: -2 * groups * max(0.0, float(gains[count - 1]) / groups / size) ** 2
        most = size * (1 - limit)
        growth, growth_before = (np.outer(np.maximum(each / most, -1), STAKES) for each in (excess, before))
        with np.errstate(divide="ignore"):  # the full stake loses everything; rounding, even more
            np.log1p(growth, out=growth)
        growth -= np.log1p(growth_before, out=growth_before)
        capitals = np.cumsum(growth, axis=0, out=growth)
        return lambda count: min(0.0, log(STAKES.size) - float(np.logaddexp.reduce(capitals[count - 1])))


def _so_far(codes: Ints, wrong: Floats) -> tuple[Floats, Floats]:
    """How many verdicts of its group came up to each verdict, and how many of them are wrong."""
    order = np.argsort(codes, kind="stable")
    ranked, sums = codes[order], np.cumsum(wrong[order])
    first = np.searchsorted(ranked, ranked)
    accepted, errors = np.empty((2, codes.size))
    accepted[order] = np.arange(1, codes.size + 1) - first
    errors[order] = sums - (sums - wrong[order])[first]
    return accepted, errors


FIRST_SHARE = 1 / 3
"""Share of delta for the first threshold tested; the rest is for those that accept 2, 4, 8, … times as many.

A larger share leaves less to continue with after an error among the most confident verdicts; a smaller one
needs more verdicts for the first test."""

MOST_LABELS = 20_000
"""Largest number of labels, the present ones included, that is suggested."""

GROWTH = 1.1
"""Factor between successive numbers of further labels that are tried."""

WORLDS = 100
"""Worlds in which a number of further labels is tried."""

CHANCE = 0.05
"""Probability, at most, of "more labels would not change it" where they would."""

Shortfall = Literal["too few labels", "perhaps too wrong", "too wrong"]

SizeFrom = Literal["stated", "run", "unit", "labels"]
"""Source of the size of the largest group: stated beforehand, all items of the run, a count of items one by
one, or only the labelled verdicts."""


class Certificate(HtmlRepr, msgspec.Struct, frozen=True, kw_only=True):
    """The confidence from which verdicts are accepted without a person, with its guarantee.

    Attributes:
        threshold: Verdicts with at least this confidence are accepted; None if nothing can be certified.
        n_accepted: Labelled verdicts with at least this confidence.
        errors: Wrong ones among them.
        coverage: Accepted share of all items; the others go to people.
        error_bound: Upper confidence bound (level 1 - delta) of the error rate among accepted verdicts, for
            this one threshold. At most epsilon, which is the guarantee of the whole search.
        epsilon: Largest accepted error rate.
        delta: Probability that the guarantee fails.
        method: The test at each threshold: exact binomial, betting or hoeffding.
        n: Labelled verdicts.
        groups: Clusters among them.
        tested: Number of thresholds tested.
        reason: Why nothing is certified, or None.
        shortfall: ``too wrong`` if surely more than epsilon are wrong at every threshold that the labels can
            tell of, so that more labels would not help; ``perhaps too wrong`` if as many of these labels are
            wrong, and that may be chance; else ``too few labels``; None if something is certified.
        group_size: The guarantee holds if no group has more verdicts than this.
        group_size_from: Where that number is from.
    """

    threshold: float | None
    n_accepted: int
    errors: int
    coverage: float
    error_bound: float | None
    epsilon: float
    delta: float
    method: str
    n: int
    groups: int
    tested: int
    reason: str | None
    shortfall: Shortfall | None = None
    group_size: int
    group_size_from: SizeFrom


def certify(
    wrong: npt.ArrayLike,
    confidence: npt.ArrayLike,
    groups: Groups | Sequence[Hashable],
    *,
    epsilon: float = 0.1,
    delta: float = 0.1,
    n_items: int | None = None,
    group_size: int | None = None,
    bound: Literal["betting", "hoeffding"] = "betting",
) -> Certificate:
    """Find the lowest confidence from which verdicts are wrong at most ``epsilon`` of the time.

    Definition: docs/definitions/calibration.md#certificate.

    With probability at least 1 - ``delta`` over the labelled verdicts, the error rate of further verdicts
    like them with at least that confidence is at most ``epsilon`` (Learn then Test, Angelopoulos et al.
    2021).

    The candidate thresholds are the distinct confidences, so they do not depend on the errors. They are
    tested from the highest down, beginning with the first at which a sample without errors would pass, and
    testing goes on while each passes. A single error among the most confident would end that, so the search
    restarts where 2, 4, 8, … times as many verdicts are accepted. Each start has its own share of ``delta``
    and adds what earlier starts have left (the fallback procedure, Wiens and Dmitrienko 2005). With too few
    verdicts for a second start the first has all of it. The test is the exact binomial tail if no group has
    several verdicts, otherwise a bound on group means.

    Args:
        wrong: Whether each labelled verdict was wrong, 0 or 1, shape (n,).
        confidence: Confidence of each verdict, shape (n,), finite; higher is more confident.
        groups: The cluster of each verdict.
        epsilon: Largest accepted error rate, in (0, 1).
        delta: Probability that the guarantee fails, in (0, 1).
        n_items: Number of all items, including those without a verdict, for the coverage; n by default.
        group_size: Largest possible number of verdicts in a group, known beforehand. By default the largest
            observed, which is no bound: the guarantee then holds only if no group has more (where 1 % of
            groups hold 30 verdicts, most of them wrong, it is broken up to 6 times too often).
        bound: The test if groups have several verdicts.

    Raises:
        TrustError: If the data or an option are invalid.
    """
    verdicts = _Verdicts.of(wrong, confidence, groups)
    size = _group_size(verdicts.codes, group_size)
    items = verdicts.wrong.size if n_items is None else n_items
    _check_options(epsilon, delta, bound, items=items, verdicts=verdicts.wrong.size)
    test = RiskTest("exact binomial" if size == 1 else bound, verdicts.groups, size)
    shares = _shares_of_delta(verdicts, test, epsilon, delta)
    tests = list(_tests(verdicts, shares, test, epsilon))
    certified = max((end for end, passes in tests if passes), default=0)
    codes, errors = verdicts.codes[:certified], verdicts.wrong[:certified]
    reason, shortfall = (None, None) if certified else _why_not(verdicts, shares, test, epsilon)
    return Certificate(
        threshold=float(verdicts.confidences[certified - 1]) if certified else None,
        n_accepted=certified,
        errors=int(errors.sum()),
        coverage=certified / items if items else 0.0,
        error_bound=test.bound(delta, codes, errors) if certified else None,
        epsilon=epsilon,
        delta=delta,
        method=test.method,
        n=verdicts.wrong.size,
        groups=verdicts.groups,
        tested=len(tests),
        reason=reason,
        shortfall=shortfall,
        group_size=size,
        group_size_from="labels" if group_size is None else "stated",
    )


def fewest_labels(epsilon: float = 0.1, delta: float = 0.1) -> int:
    """Labels that the smallest certificate takes: all of them right, and no two of one group."""
    return ceil(log(delta) / log1p(-epsilon))


def labels_needed(
    wrong: npt.ArrayLike,
    confidence: npt.ArrayLike,
    groups: Groups | Sequence[Hashable],
    certificate: Certificate,
    *,
    seed: int = 0,
) -> int | None:
    """About how many labels, with the present ones, certify something in 80 % of worlds like them.

    Definition: docs/definitions/calibration.md#labels-needed.

    In such a world further groups are drawn from the present ones, with replacement. Among the verdicts
    that the best threshold accepts, confidence is taken to say nothing of errors: that a few of the most
    confident are all right may be luck.

    Args:
        wrong: As for ``certify``.
        confidence: As for ``certify``.
        groups: As for ``certify``.
        certificate: What ``certify`` answered: nothing certified.
        seed: Seed of the worlds.

    Returns:
        None if no number of labels like these helps (``too wrong``, ``perhaps too wrong``), or more than
        20,000 are needed.

    Raises:
        TrustError: If the data are invalid.
    """
    verdicts = _Verdicts.of(wrong, confidence, groups)
    if not verdicts.wrong.size or certificate.shortfall != "too few labels":
        return None
    epsilon, delta = certificate.epsilon, certificate.delta
    rng, each = np.random.default_rng(seed), verdicts.wrong.size / verdicts.groups
    test = RiskTest(certificate.method, verdicts.groups, certificate.group_size)
    alike = _best(verdicts, _shares_of_delta(verdicts, test, epsilon, delta))

    def is_enough(further: int) -> bool:
        failures, of_more = 0, test._replace(groups=verdicts.groups + further)
        for _ in range(WORLDS):
            world = _with_further(verdicts, further, alike, rng)
            shares = _shares_of_delta(world, of_more, epsilon, delta)
            failures += not any(passes for _, passes in _tests(world, shares, of_more, epsilon))
            if failures > (1 - POWER) * WORLDS:
                return False
        return True

    most = max(1.0, (MOST_LABELS - verdicts.wrong.size) / each)
    tried = np.unique(np.floor(GROWTH ** np.arange(0, log(most) / log(GROWTH)))).astype(int).tolist()
    enough = next((further for further in tried if is_enough(further)), None)
    if enough is None:
        return None
    more = ceil(enough * each)
    return int(verdicts.wrong.size + round(more, 2 - len(str(more))))  # two digits tell enough


def why_none(found: Certificate, needed: int | None) -> str | None:
    """Why nothing is certified, and how many labels would change that; ``needed`` is of ``labels_needed``."""
    if not found.n or found.shortfall != "too few labels":
        return found.reason
    if needed is None:
        return f"{found.reason}; more than {MOST_LABELS:,} would"
    chance = f"in {100 * POWER:.0f} of 100 simulated cases"
    return f"{found.reason}; about {needed - found.n:,} more would {chance}, if they turn out like these"


class _Verdicts(NamedTuple):
    """Labelled verdicts, the most confident first.

    Attributes:
        wrong: Whether each is wrong, shape (n,).
        confidences: Their confidences, shape (n,).
        codes: Group of each, shape (n,).
        groups: Number of groups.
        ends: Number of verdicts that each threshold accepts, ascending.
    """

    wrong: Floats
    confidences: Floats
    codes: Ints
    groups: int
    ends: Ints

    @classmethod
    def of(
        cls, wrong: npt.ArrayLike, confidence: npt.ArrayLike, groups: Groups | Sequence[Hashable]
    ) -> "_Verdicts":
        """Check and sort verdicts, or raise TrustError."""
        wrong, confidences = floats(wrong, confidence)
        clusters = Groups.of(groups)
        check_lengths(wrong=wrong, confidence=confidences, groups=clusters.codes)
        check_binary(wrong=wrong)
        check_finite(confidence=confidences)
        return cls.sorted(wrong, without_noise(confidences), clusters.codes, clusters.count)

    @classmethod
    def sorted(cls, wrong: Floats, confidences: Floats, codes: Ints, groups: int) -> "_Verdicts":
        """Sort verdicts by confidence."""
        order = np.argsort(-confidences, kind="stable")
        ends = np.flatnonzero(np.diff(confidences[order], append=-np.inf)) + 1
        return cls(wrong[order], confidences[order], codes[order], groups, ends)


def _tests(verdicts: _Verdicts, shares: Floats, test: RiskTest, epsilon: float) -> Iterator[tuple[int, bool]]:
    """Test thresholds in order: at each start, and from there on while each passes.

    Args:
        verdicts: The verdicts.
        shares: Share of delta with which each threshold starts.
        test: The test of "more than ``epsilon`` are wrong".
        epsilon: Largest accepted error rate.

    Yields:
        The number of verdicts that a threshold accepts, and whether it passes.
    """
    log_p, level = test.log_p(epsilon, verdicts.codes, verdicts.wrong), 0.0
    for first, following in pairwise([*np.flatnonzero(shares), verdicts.ends.size]):
        level += shares[first]
        for end in map(int, verdicts.ends[first:following]):
            passes = log_p(end) <= log(level)
            yield end, passes
            if not passes:
                level = 0.0
                break


def _shares_of_delta(verdicts: _Verdicts, test: RiskTest, epsilon: float, delta: float) -> Floats:
    """Share of ``delta`` with which each threshold starts, shape (thresholds,); 0 but at a few starts."""
    ends, n = verdicts.ends, verdicts.wrong.size
    shares = np.zeros(ends.size)

    def first(level: float, within: int = 100) -> int:
        """Index of the first threshold at which a sample without errors passes; ``ends.size`` if none."""
        log_p = test.log_p(epsilon, verdicts.codes[:within], np.zeros(min(within, n)))
        looked_at = ends[: np.searchsorted(ends, within, side="right")]
        # Where one passes every later one does: more right verdicts prove more.
        place = bisect_left(looked_at, True, key=lambda end: log_p(int(end)) <= log(level))
        return place if place < looked_at.size or within >= n else first(level, 4 * within)

    place = first(FIRST_SHARE * delta)
    if place == ends.size or 2 * ends[place] > n:
        place = first(delta)
        if place < ends.size:
            shares[place] = delta
        return shares
    shares[place] = FIRST_SHARE * delta
    doubled = int(ends[place]) * 2 ** np.arange(1, int(np.log2(n / ends[place])) + 1)
    np.add.at(shares, np.searchsorted(ends, doubled), (1 - FIRST_SHARE) * delta / doubled.size)
    return shares


def _able(verdicts: _Verdicts, shares: Floats) -> Ints:
    """Numbers of verdicts accepted at the thresholds that accept enough to tell, descending.

    That is as many as the first start, without a start half of all.
    """
    ends = verdicts.ends
    fewest = int(ends[np.argmax(shares > 0)]) if shares.any() else ends[-1] / 2
    able: Ints = ends[ends >= fewest][::-1]
    return able


def _best(verdicts: _Verdicts, shares: Floats) -> int:
    """Number of verdicts accepted at the threshold, of those that can tell, with the least share wrong."""
    able = _able(verdicts, shares)
    return int(able[np.argmin(np.cumsum(verdicts.wrong)[able - 1] / able)])


def _why_not(verdicts: _Verdicts, shares: Floats, test: RiskTest, epsilon: float) -> tuple[str, Shortfall]:
    """Why nothing is certified, in words and in a word.

    It is too wrong if more than epsilon are wrong at every threshold that can tell, tested at ``CHANCE``
    each. All have to be rejected, so none of the levels is shared (an intersection–union test).
    """
    if not verdicts.wrong.size:
        return "there are no labelled verdicts", "too few labels"
    best, limit = _best(verdicts, shares), f"{100 * epsilon:g} %"
    errors = int(verdicts.wrong[:best].sum())
    which = f"the {best:,} most confident" if best < verdicts.wrong.size else f"{best:,}"
    found = (
        f"{errors:,} of {which} {'verdict' if best == 1 else 'verdicts'} "
        f"{'is' if errors == 1 else 'are'} wrong ({100 * errors / best:.3g} %)"
    )
    if errors >= epsilon * best:
        why = f"at every threshold {limit} or more are wrong: at the best, {found}"
        opposite = test.log_p(1 - epsilon, verdicts.codes, 1 - verdicts.wrong)
        if all(opposite(end) <= log(CHANCE) for end in _able(verdicts, shares).tolist()):
            return f"{why}; that is no chance, and more labels would not change it", "too wrong"
        return f"{why}; that may be chance: label more to know", "perhaps too wrong"
    labels = f"{best:,} {'label' if best == 1 else 'labels'}"
    condition = f" where a group may have {test.size:,} verdicts" if test.size > 1 else ""
    return f"{found}: {labels} cannot show that this is under {limit}{condition}", "too few labels"


def _with_further(verdicts: _Verdicts, further: int, alike: int, rng: np.random.Generator) -> _Verdicts:
    """The verdicts with those of further groups, drawn from theirs; see ``labels_needed``."""
    sizes, by_group = np.bincount(verdicts.codes), np.argsort(verdicts.codes, kind="stable")
    drawn = rng.integers(0, sizes.size, further)
    owner = np.repeat(np.arange(further), sizes[drawn])
    before = (np.cumsum(sizes) - sizes)[drawn] - (np.cumsum(sizes[drawn]) - sizes[drawn])
    rows = by_group[before[owner] + np.arange(owner.size)]
    place = rows.copy()
    place[rows < alike] = rng.permutation(rows[rows < alike])
    ranks = np.append(np.arange(verdicts.wrong.size), place)
    confidences = verdicts.confidences[ranks]
    if verdicts.ends.size == verdicts.wrong.size:  # where all differ, further ones do too
        confidences = -(ranks + rng.random(ranks.size))
    return _Verdicts.sorted(
        np.append(verdicts.wrong, verdicts.wrong[rows]),
        confidences,
        np.append(verdicts.codes, owner + verdicts.groups),
        verdicts.groups + further,
    )


def _group_size(codes: Ints, stated: int | None) -> int:
    """The largest possible number of verdicts in a group, at least 1."""
    added = int(np.bincount(codes, minlength=1).max())
    if stated is None:
        return max(1, added)
    if stated < max(1, added):
        raise TrustError(
            f"group_size is the most verdicts a group can have; found {stated}, and one has {added}"
        )
    return stated


def _check_options(epsilon: float, delta: float, bound: str, *, items: int, verdicts: int) -> None:
    check_inside_unit(epsilon=epsilon, delta=delta)
    if bound not in {"betting", "hoeffding"}:
        raise TrustError(f'bound must be "betting" or "hoeffding"; found {bound!r}')
    if items < verdicts:
        raise TrustError(f"n_items counts all items; found {items}, fewer than the {verdicts} verdicts")
