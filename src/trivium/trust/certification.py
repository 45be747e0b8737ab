"""Certifies the lowest confidence at which judgements may be accepted with a guaranteed error rate."""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property, partial
from itertools import pairwise
from math import ceil, log, log1p
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


class ExactBinomial:
    """One verdict per group: probability of at most this many errors if the error rate equals the limit."""

    method = "exact binomial"

    def __init__(self, epsilon: float) -> None:
        self._epsilon, self._accepted, self._errors = epsilon, 0, 0

    def accept(self, codes: Ints, wrong: Floats) -> None:
        """Add accepted verdicts: the group of each, and 1 where it is wrong, else 0; both of shape (k,)."""
        self._accepted += codes.size
        self._errors += int(wrong.sum())

    def log_p(self) -> float:
        """Log of the p-value of "the error is above the limit", at most 0."""
        if self._errors == 0:
            return self._accepted * log1p(-self._epsilon)
        tail = float(bdtr(self._errors, self._accepted, self._epsilon))
        return log(tail) if tail else -np.inf

    def bound(self, delta: float) -> float:
        """The smallest limit whose p-value is at most ``delta``, in [0, 1]; needs an accepted verdict."""
        if self._errors == self._accepted:
            return 1.0
        return float(betaincinv(self._errors + 1, self._accepted - self._errors, 1 - delta))

    def log_p_without_errors(self, codes: Ints) -> float:
        """Log of the p-value if these were the accepted verdicts, given their groups, and none were wrong."""
        return codes.size * log1p(-self._epsilon)


class Clustered:
    """Several verdicts per group: groups are independent, verdicts of one group may be correlated.

    With at most ``size`` verdicts per group, (errors + limit · (size - accepted)) / size lies in [0, 1], and
    its mean over groups is at most the limit exactly if the error rate of accepted verdicts is.
    """

    def __init__(self, epsilon: float, *, groups: int, size: int) -> None:
        self._epsilon, self._size = epsilon, size
        self._accepted, self._errors = np.zeros(groups), np.zeros(groups)

    def accept(self, codes: Ints, wrong: Floats) -> None:
        """See :class:`ExactBinomial`."""
        np.add.at(self._accepted, codes, 1)
        np.add.at(self._errors, codes, wrong)

    def bound(self, delta: float) -> float:
        """See :class:`ExactBinomial`."""

        def excess(limit: float) -> float:  # decreases with the limit
            return self._log_p_of(limit) - log(delta)

        lowest, highest = 1e-12, 1 - 1e-9
        return 1.0 if excess(highest) > 0 else float(brentq(excess, lowest, highest, xtol=1e-9))

    def log_p(self) -> float:
        """See :class:`ExactBinomial`."""
        return self._log_p_of(self._epsilon)

    def _log_p_of(self, limit: float) -> float:
        raise NotImplementedError


class Hoeffding(Clustered):
    """Hoeffding's inequality on the group means."""

    method = "hoeffding"

    def _log_p_of(self, limit: float) -> float:
        gain = float((limit * self._accepted - self._errors).mean()) / self._size
        return -2 * self._accepted.size * gain**2 if gain > 0 else 0.0

    def log_p_without_errors(self, codes: Ints) -> float:
        """See :class:`ExactBinomial`."""
        groups = self._accepted.size
        return -2 * groups * (self._epsilon * codes.size / groups / self._size) ** 2


class Betting(Clustered):
    """Bets against an error rate above the limit (Waudby-Smith and Ramdas 2024).

    Starting with a capital of 1, a bettor stakes a fixed share on each group's mean lying below the limit. If
    the error rate is above the limit, the expected capital is at most 1, so it reaches 1 / p with probability
    at most p (Markov), in any order of the groups. The capital is the mean over a grid of stakes.
    """

    method = "betting"

    def __init__(self, epsilon: float, *, groups: int, size: int) -> None:
        super().__init__(epsilon, groups=groups, size=size)
        self._terms = np.zeros((groups, STAKES.size))
        self._sums = np.zeros(STAKES.size)

    def accept(self, codes: Ints, wrong: Floats) -> None:
        """See :class:`ExactBinomial`."""
        super().accept(codes, wrong)
        touched = np.unique(codes)
        fresh = self._log_growth(self._epsilon, touched)
        self._sums += (fresh - self._terms[touched]).sum(axis=0)
        self._terms[touched] = fresh

    def log_p(self) -> float:
        """See :class:`ExactBinomial`."""
        return _log_p_of_capital(self._sums)

    def _log_p_of(self, limit: float) -> float:
        return _log_p_of_capital(self._log_growth(limit, np.arange(self._accepted.size)).sum(axis=0))

    def log_p_without_errors(self, codes: Ints) -> float:
        """See :class:`ExactBinomial`."""
        groups_with = np.bincount(np.bincount(codes), minlength=self._size + 1)  # 0, 1, 2, … of the verdicts
        return _log_p_of_capital(groups_with @ self._growth_without_errors)

    @cached_property
    def _growth_without_errors(self) -> Floats:
        """Log of the growth by a group with 0, 1, 2, … verdicts, shape (size + 1, stakes)."""
        return self._growth(self._epsilon, self._epsilon * np.arange(self._size + 1))

    def _log_growth(self, limit: float, at: Ints) -> Floats:
        """Log of the factor by which each group changes the capital at each stake."""
        return self._growth(limit, limit * self._accepted[at] - self._errors[at])

    def _growth(self, limit: float, excess: npt.NDArray[np.floating]) -> Floats:
        gain = excess / (self._size * (1 - limit))
        gain = np.maximum(gain, -1)  # rounding may exceed a total loss
        with np.errstate(divide="ignore"):  # the full stake loses everything
            return np.asarray(np.log1p(gain[:, None] * STAKES), dtype=np.float64)


RiskTest = ExactBinomial | Hoeffding | Betting
"""Tests the hypothesis that the error rate of verdicts like the accepted ones exceeds a limit."""


def _log_p_of_capital(log_capitals: Floats) -> float:
    return min(0.0, float(log(STAKES.size) - np.logaddexp.reduce(log_capitals)))


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
    new_test = partial(_risk_test, bound, epsilon, size, verdicts.groups)
    shares = _shares_of_delta(verdicts, new_test(), delta)
    tests = list(_tests(verdicts, shares, new_test()))
    certified = max((end for end, passes in tests if passes), default=0)
    errors = int(verdicts.wrong[:certified].sum())
    final = new_test()
    final.accept(verdicts.codes[:certified], verdicts.wrong[:certified])
    reason, shortfall = (None, None) if certified else _why_not(verdicts, shares, epsilon, size, bound)
    return Certificate(
        threshold=float(verdicts.confidences[certified - 1]) if certified else None,
        n_accepted=certified,
        errors=errors,
        coverage=certified / items if items else 0.0,
        error_bound=final.bound(delta) if certified else None,
        epsilon=epsilon,
        delta=delta,
        method=final.method,
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
    delta, rng, each = certificate.delta, np.random.default_rng(seed), verdicts.wrong.size / verdicts.groups
    test_of = partial(_risk_test, certificate.method, certificate.epsilon, certificate.group_size)
    alike = _best(verdicts, _shares_of_delta(verdicts, test_of(verdicts.groups), delta))

    def is_enough(further: int) -> bool:
        failures, new_test = 0, partial(test_of, verdicts.groups + further)
        untouched = new_test()
        for _ in range(WORLDS):
            world = _with_further(verdicts, further, alike, rng)
            shares = _shares_of_delta(world, untouched, delta)
            failures += not any(passes for _, passes in _tests(world, shares, new_test()))
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


def _tests(verdicts: _Verdicts, shares: Floats, test: RiskTest) -> Iterator[tuple[int, bool]]:
    """Test thresholds in order: at each start, and from there on while each passes.

    Args:
        verdicts: The verdicts.
        shares: Share of delta with which each threshold starts.
        test: A test without any verdicts.

    Yields:
        The number of verdicts that a threshold accepts, and whether it passes.
    """
    added, level = 0, 0.0
    for first, following in pairwise([*np.flatnonzero(shares), verdicts.ends.size]):
        level += shares[first]
        for end in map(int, verdicts.ends[first:following]):
            test.accept(verdicts.codes[added:end], verdicts.wrong[added:end])
            added, passes = end, test.log_p() <= log(level)
            yield end, passes
            if not passes:
                level = 0.0
                break


def _shares_of_delta(verdicts: _Verdicts, test: RiskTest, delta: float) -> Floats:
    """Share of ``delta`` with which each threshold starts, shape (thresholds,); 0 but at a few starts."""
    codes, ends = verdicts.codes, verdicts.ends
    shares, n = np.zeros(ends.size), codes.size

    def first(level: float) -> int:
        """Index of the first threshold at which a sample without errors passes; ``ends.size`` if none."""

        def passes(place: int) -> bool:  # and then every later one does: more right verdicts prove more
            return test.log_p_without_errors(codes[: ends[place]]) <= log(level)

        most = 1
        while most < ends.size and not passes(most):
            most *= 2
        return bisect_left(range(ends.size), True, hi=min(most, ends.size), key=passes)

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


def _surely_too_wrong(verdicts: _Verdicts, shares: Floats, new_test: Callable[[], RiskTest]) -> bool:
    """Whether more than epsilon are wrong at every threshold that can tell, tested at ``CHANCE`` each.

    All have to be rejected, so none of the levels is shared (an intersection–union test). ``new_test`` makes
    a test of a share of right verdicts above 1 - epsilon.
    """
    test, added = new_test(), 0
    for end in map(int, _able(verdicts, shares)[::-1]):
        test.accept(verdicts.codes[added:end], 1 - verdicts.wrong[added:end])
        added = end
        if test.log_p() > log(CHANCE):
            return False
    return True


def _why_not(
    verdicts: _Verdicts, shares: Floats, epsilon: float, size: int, bound: str
) -> tuple[str, Shortfall]:
    """Why nothing is certified, in words and in a word."""
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
        opposite = partial(_risk_test, bound, 1 - epsilon, size, verdicts.groups)
        if _surely_too_wrong(verdicts, shares, opposite):
            return f"{why}; that is no chance, and more labels would not change it", "too wrong"
        return f"{why}; that may be chance: label more to know", "perhaps too wrong"
    labels = f"{best:,} {'label' if best == 1 else 'labels'}"
    condition = f" where a group may have {size:,} verdicts" if size > 1 else ""
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


def _risk_test(bound: str, epsilon: float, size: int, groups: int) -> RiskTest:
    if size == 1:
        return ExactBinomial(epsilon)
    return (Betting if bound == "betting" else Hoeffding)(epsilon, groups=groups, size=size)


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
