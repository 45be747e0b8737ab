"""Certifies the lowest confidence at which judgements may be accepted with a guaranteed error rate."""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from math import ceil, floor, log, log1p
from typing import Literal, Protocol

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

STAKES = np.linspace(0.05, 1.0, 20)
"""Stakes, as shares of the largest bet that cannot lose more than everything; the capital is the mean over
them."""


class RiskTest(Protocol):
    """Tests the hypothesis that the error rate of verdicts like the accepted ones exceeds a limit."""

    method: str

    def accept(self, codes: Ints, wrong: Floats) -> None:
        """Add accepted verdicts: the group of each, and 1 where it is wrong, else 0; both of shape (k,)."""

    def log_p(self, copies: float = 1) -> float:
        """Log of the p-value of "the error is above the limit", at most 0.

        Args:
            copies: Multiply the number of verdicts by this factor, at the same error rate; at least 1.
        """

    def bound(self, delta: float) -> float:
        """The smallest limit whose p-value is at most ``delta``, in [0, 1]; needs an accepted verdict."""


class ExactBinomial:
    """One verdict per group: probability of at most this many errors if the error rate equals the limit."""

    method = "exact binomial"

    def __init__(self, epsilon: float) -> None:
        self._epsilon, self._accepted, self._errors = epsilon, 0, 0

    def accept(self, codes: Ints, wrong: Floats) -> None:
        """See ``RiskTest``."""
        self._accepted += codes.size
        self._errors += int(wrong.sum())

    def log_p(self, copies: float = 1) -> float:
        """See ``RiskTest``."""
        wrong, accepted = ceil(self._errors * copies), floor(self._accepted * copies)
        if wrong == 0:
            return accepted * log1p(-self._epsilon)
        tail = float(bdtr(wrong, accepted, self._epsilon))
        return log(tail) if tail else -np.inf

    def bound(self, delta: float) -> float:
        """See ``RiskTest``."""
        if self._errors == self._accepted:
            return 1.0
        return float(betaincinv(self._errors + 1, self._accepted - self._errors, 1 - delta))


class Clustered:
    """Several verdicts per group: groups are independent, verdicts of one group may be correlated.

    With at most ``size`` verdicts per group, (errors + limit · (size - accepted)) / size lies in [0, 1], and
    its mean over groups is at most the limit exactly if the error rate of accepted verdicts is.
    """

    def __init__(self, epsilon: float, *, groups: int, size: int) -> None:
        self._epsilon, self._size = epsilon, size
        self._accepted, self._errors = np.zeros(groups), np.zeros(groups)

    def accept(self, codes: Ints, wrong: Floats) -> None:
        """See ``RiskTest``."""
        np.add.at(self._accepted, codes, 1)
        np.add.at(self._errors, codes, wrong)

    def bound(self, delta: float) -> float:
        """See ``RiskTest``."""

        def excess(limit: float) -> float:  # decreases with the limit
            return self._log_p_of(limit) - log(delta)

        lowest, highest = 1e-12, 1 - 1e-9
        return 1.0 if excess(highest) > 0 else float(brentq(excess, lowest, highest, xtol=1e-9))

    def log_p(self, copies: float = 1) -> float:
        """See ``RiskTest``."""
        return self._log_p_of(self._epsilon, copies)

    def _log_p_of(self, limit: float, copies: float = 1) -> float:
        raise NotImplementedError


class Hoeffding(Clustered):
    """Hoeffding's inequality on the group means."""

    method = "hoeffding"

    def _log_p_of(self, limit: float, copies: float = 1) -> float:
        gain = float((limit * self._accepted - self._errors).mean()) / self._size
        return -2 * copies * self._accepted.size * gain**2 if gain > 0 else 0.0


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
        """See ``RiskTest``."""
        super().accept(codes, wrong)
        touched = np.unique(codes)
        fresh = self._log_growth(self._epsilon, touched)
        self._sums += (fresh - self._terms[touched]).sum(axis=0)
        self._terms[touched] = fresh

    def log_p(self, copies: float = 1) -> float:
        """See ``RiskTest``."""
        return _log_p_of_capital(copies * self._sums)

    def _log_p_of(self, limit: float, copies: float = 1) -> float:
        growth = self._log_growth(limit, np.arange(self._accepted.size)).sum(axis=0)
        return _log_p_of_capital(copies * growth)

    def _log_growth(self, limit: float, at: Ints) -> Floats:
        """Log of the factor by which each group changes the capital at each stake."""
        gain = (limit * self._accepted[at] - self._errors[at]) / (self._size * (1 - limit))
        gain = np.maximum(gain, -1)  # rounding may exceed a total loss
        with np.errstate(divide="ignore"):  # the full stake loses everything
            return np.asarray(np.log1p(gain[:, None] * STAKES), dtype=np.float64)


def _log_p_of_capital(log_capitals: Floats) -> float:
    return min(0.0, float(log(STAKES.size) - np.logaddexp.reduce(log_capitals)))


FIRST_SHARE = 1 / 3
"""Share of delta for the first threshold tested; the rest is for those that accept 2, 4, 8, … times as many.

A larger share leaves less to continue with after an error among the most confident verdicts; a smaller one
needs more verdicts for the first test."""

MOST_COPIES = 50
"""Largest multiple of the present labels that is suggested."""

GROWTH = 1.2
"""Factor between successive numbers of labels that are tried."""


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
        shortfall: ``too few labels`` if more labels of the same quality would certify something, or if there
            are too few to know; ``too wrong`` if more would not help; None if something is certified.
        labels_needed: With too few labels, about how many are needed at the same error rate.
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
    shortfall: Literal["too few labels", "too wrong"] | None = None
    labels_needed: int | None = None


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
        group_size: Largest possible number of verdicts in a group; by default the largest observed.
        bound: The test if groups have several verdicts.

    Raises:
        TrustError: If the data or an option are invalid.
    """
    wrong, confidences, clusters = _checked(wrong, confidence, groups)
    size = _group_size(clusters, group_size)
    items = wrong.size if n_items is None else n_items
    _check_options(epsilon, delta, bound, items=items, verdicts=wrong.size)
    order = np.argsort(-confidences, kind="stable")
    wrong, confidences, codes = wrong[order], confidences[order], clusters.codes[order]
    ends = (
        np.flatnonzero(np.diff(confidences, append=-np.inf)) + 1
    )  # past the last verdict of each confidence

    def new_test() -> RiskTest:
        return _risk_test(bound, epsilon, clusters, size)

    certified, tested, shares = _search(wrong, ends, codes, new_test, delta)
    needed = None if certified else _labels_needed(wrong, ends, codes, new_test, delta, shares)
    errors = int(wrong[:certified].sum())
    final = new_test()
    final.accept(codes[:certified], wrong[:certified])
    return Certificate(
        threshold=float(confidences[certified - 1]) if certified else None,
        n_accepted=certified,
        errors=errors,
        coverage=certified / items if items else 0.0,
        error_bound=final.bound(delta) if certified else None,
        epsilon=epsilon,
        delta=delta,
        method=final.method,
        n=wrong.size,
        groups=clusters.count,
        tested=tested,
        reason=None
        if certified
        else _why_not(
            wrong, ends, ends[shares > 0], needed, epsilon, delta, groups=clusters.count, size=size
        ),
        shortfall=None if certified else "too wrong" if shares.any() and needed is None else "too few labels",
        labels_needed=needed,
    )


def _search(
    wrong: Floats,
    ends: Ints,
    codes: Ints,
    new_test: Callable[[], RiskTest],
    delta: float,
    *,
    copies: float = 1,
) -> tuple[int, int, Floats]:
    """Count the certified verdicts and the tested thresholds, and split delta among the starts.

    Args:
        wrong: Whether each verdict is wrong, the most confident first.
        ends: Number of verdicts that each threshold accepts, ascending.
        codes: Group of each verdict.
        new_test: Makes a test without any verdicts.
        delta: Probability that the guarantee fails.
        copies: Multiply the number of verdicts by this factor, at the same error rate.
    """
    shares = _shares_of_delta(ends, codes, new_test, delta, copies=copies)
    test, added, level, tested, certified = new_test(), 0, 0.0, 0, 0
    for end, share in zip(map(int, ends), shares, strict=True):
        level += share
        if not level:
            continue
        test.accept(codes[added:end], wrong[added:end])
        added, tested = end, tested + 1
        if test.log_p(copies) <= log(level):
            certified = end
        else:
            level = 0.0
    return certified, tested, shares


def _shares_of_delta(
    ends: Ints, codes: Ints, new_test: Callable[[], RiskTest], delta: float, *, copies: float
) -> Floats:
    """Share of ``delta`` with which each threshold starts, shape of ``ends``; 0 except at the few starts.

    See ``_search`` for the arguments.
    """
    shares, n = np.zeros(ends.size), codes.size

    def first(level: float) -> int:
        """Index of the first threshold at which a sample without errors passes; ``ends.size`` if none."""

        def passes(place: int) -> bool:  # and then every later one does: more right verdicts prove more
            ideal, end = new_test(), int(ends[place])
            ideal.accept(codes[:end], np.zeros(end))
            return ideal.log_p(copies) <= log(level)

        return bisect_left(range(ends.size), True, key=passes)

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


def _labels_needed(
    wrong: Floats, ends: Ints, codes: Ints, new_test: Callable[[], RiskTest], delta: float, shares: Floats
) -> int | None:
    """About how many labels would certify something at the same error rate; None if no number would.

    Repeats the search over more and more copies of these labels. A certificate counts if it accepts at least
    as many of them as the first start (all of them if there is none); with fewer, having no errors proves
    little.
    """
    if not wrong.size:
        return None
    fewest = int(ends[np.argmax(shares > 0)]) if shares.any() else wrong.size
    copies = GROWTH
    while copies <= MOST_COPIES:
        if _search(wrong, ends, codes, new_test, delta, copies=copies)[0] >= fewest:
            return ceil(copies * wrong.size)
        copies *= GROWTH
    return None


def _why_not(
    wrong: Floats,
    ends: Ints,
    starts: Ints,
    needed: int | None,
    epsilon: float,
    delta: float,
    *,
    groups: int,
    size: int,
) -> str:
    limit = f"{100 * epsilon:g} %"
    if not wrong.size:
        return "there are no labelled verdicts"
    errors = np.cumsum(wrong)
    if starts.size and needed is None:
        able = ends[ends >= starts[0]]
        least = int(able[np.argmin(errors[able - 1] / able)])
        return (
            f"too often wrong: at the best threshold {_wrong_of(errors, least)}, and more labels of the same "
            "quality would not change that"
        )
    if needed is None:
        outlook = f"{_wrong_of(errors, wrong.size)}, and at that rate no number of labels is enough"
    else:
        outlook = f"about {needed:,} labels with the error rate of these {wrong.size:,} would be enough"
    if starts.size:
        most = int(starts[0])
        return (
            f"too few labels: {_wrong_of(errors, most)}, which does not yet show that at most {limit} "
            f"are; {outlook}"
        )
    fewest = ceil(log(delta) / log1p(-epsilon))
    if size == 1:
        return f"too few labels: at least {fewest:,} are needed, all of them right; {outlook}"
    return (
        f"too few labels: with up to {size:,} verdicts in a group, more than {fewest - 1:,} groups with as "
        f"many are needed, all of them right; there are {groups:,}; {outlook}"
    )


def _wrong_of(errors: Floats, accepted: int) -> str:
    """How many of the most confident verdicts are wrong, in words."""
    wrong = int(errors[accepted - 1])
    return (
        f"{wrong:,} of the {accepted:,} most confident {'verdict' if accepted == 1 else 'verdicts'} "
        f"{'is' if wrong == 1 else 'are'} wrong ({100 * wrong / accepted:.1f} %)"
    )


def _risk_test(bound: str, epsilon: float, clusters: Groups, size: int) -> RiskTest:
    if size == 1:
        return ExactBinomial(epsilon)
    return (Betting if bound == "betting" else Hoeffding)(epsilon, groups=clusters.count, size=size)


def _group_size(clusters: Groups, stated: int | None) -> int:
    """The largest possible number of verdicts in a group, at least 1."""
    added = int(np.bincount(clusters.codes, minlength=1).max())
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


def _checked(
    wrong: npt.ArrayLike, confidence: npt.ArrayLike, groups: Groups | Sequence[Hashable]
) -> tuple[Floats, Floats, Groups]:
    """Convert errors, confidences and groups to arrays of one length, or raise TrustError."""
    wrong, confidences = floats(wrong, confidence)
    clusters = Groups.of(groups)
    check_lengths(wrong=wrong, confidence=confidences, groups=clusters.codes)
    check_binary(wrong=wrong)
    check_finite(confidence=confidences)
    return wrong, without_noise(confidences), clusters
