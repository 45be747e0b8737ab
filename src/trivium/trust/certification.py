"""Finds the confidence from which judgements may be accepted with a guaranteed error rate."""

from collections.abc import Callable, Hashable, Sequence
from math import ceil, floor, log, log1p
from typing import Literal, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import bdtr, betaincinv

from trivium.display import HtmlRepr
from trivium.errors import Problem, TrustError
from trivium.trust.cluster_bootstrap import Groups

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


STAKES = np.linspace(0.05, 1.0, 20)
"""Shares of the largest bet that cannot ruin a bettor more than once; the capital is the mean over them."""


class Evidence(Protocol):
    """Gathers accepted verdicts and tests whether the error among verdicts like them is above a limit."""

    method: str

    def accept(self, codes: Ints, wrong: Floats) -> None:
        """Add accepted verdicts: the group of each, and 1 where it is wrong, else 0; both of shape (k,)."""

    def log_p(self, copies: float = 1) -> float:
        """Log of the p-value of "the error is above the limit", at most 0.

        Args:
            copies: Had there been so many times the verdicts, with errors at the same rate; at least 1.
        """

    def bound(self, delta: float) -> float:
        """The smallest limit whose p-value is at most ``delta``, in [0, 1]; needs an accepted verdict."""


class ExactBinomial:
    """One verdict a group: the chance of so few errors, were each verdict wrong with the limit's chance."""

    method = "exact binomial"

    def __init__(self, epsilon: float) -> None:
        self._epsilon, self._taken, self._lost = epsilon, 0, 0

    def accept(self, codes: Ints, wrong: Floats) -> None:
        """See ``Evidence``."""
        self._taken += codes.size
        self._lost += int(wrong.sum())

    def log_p(self, copies: float = 1) -> float:
        """See ``Evidence``."""
        lost, taken = ceil(self._lost * copies), floor(self._taken * copies)
        if lost == 0:
            return taken * log1p(-self._epsilon)
        tail = float(bdtr(lost, taken, self._epsilon))
        return log(tail) if tail else -np.inf

    def bound(self, delta: float) -> float:
        """See ``Evidence``."""
        if self._lost == self._taken:
            return 1.0
        return float(betaincinv(self._lost + 1, self._taken - self._lost, 1 - delta))


class Clustered:
    """Several verdicts a group: groups are independent, verdicts of one group need not be.

    With at most ``size`` verdicts a group, (errors + limit · (size - accepted)) / size lies in [0, 1], and
    its mean over groups is at most the limit exactly where the error among accepted verdicts is.
    """

    def __init__(self, epsilon: float, *, groups: int, size: int) -> None:
        self._epsilon, self._size = epsilon, size
        self._taken, self._lost = np.zeros(groups), np.zeros(groups)

    def accept(self, codes: Ints, wrong: Floats) -> None:
        """See ``Evidence``."""
        np.add.at(self._taken, codes, 1)
        np.add.at(self._lost, codes, wrong)

    def bound(self, delta: float) -> float:
        """See ``Evidence``."""

        def excess(limit: float) -> float:  # falls as the limit rises
            return self._log_p_of(limit) - log(delta)

        lowest, highest = 1e-12, 1 - 1e-9
        return 1.0 if excess(highest) > 0 else float(brentq(excess, lowest, highest, xtol=1e-9))

    def log_p(self, copies: float = 1) -> float:
        """See ``Evidence``."""
        return self._log_p_of(self._epsilon, copies)

    def _log_p_of(self, limit: float, copies: float = 1) -> float:
        raise NotImplementedError


class Hoeffding(Clustered):
    """Hoeffding's inequality on the group means."""

    method = "hoeffding"

    def _log_p_of(self, limit: float, copies: float = 1) -> float:
        gain = float((limit * self._taken - self._lost).mean()) / self._size
        return -2 * copies * self._taken.size * gain**2 if gain > 0 else 0.0


class Betting(Clustered):
    """Bets against the error being above the limit (Waudby-Smith and Ramdas 2024).

    Starting with 1, a bettor stakes a fixed share on each group's mean lying below the limit. Were the error
    above the limit, the expected capital would be at most 1, so it reaches 1 / p with a chance of at most p
    (Markov), whatever the order of the groups. The capital is the mean over a grid of stakes.
    """

    method = "betting"

    def __init__(self, epsilon: float, *, groups: int, size: int) -> None:
        super().__init__(epsilon, groups=groups, size=size)
        self._terms = np.zeros((groups, STAKES.size))
        self._sums = np.zeros(STAKES.size)

    def accept(self, codes: Ints, wrong: Floats) -> None:
        """See ``Evidence``."""
        super().accept(codes, wrong)
        touched = np.unique(codes)
        fresh = self._log_growth(self._epsilon, touched)
        self._sums += (fresh - self._terms[touched]).sum(axis=0)
        self._terms[touched] = fresh

    def log_p(self, copies: float = 1) -> float:
        """See ``Evidence``."""
        return _log_p_of_capital(copies * self._sums)

    def _log_p_of(self, limit: float, copies: float = 1) -> float:
        growth = self._log_growth(limit, np.arange(self._taken.size)).sum(axis=0)
        return _log_p_of_capital(copies * growth)

    def _log_growth(self, limit: float, at: Ints) -> Floats:
        """Log of the factor by which each group changes the capital at each stake."""
        gain = (limit * self._taken[at] - self._lost[at]) / (self._size * (1 - limit))
        gain = np.maximum(gain, -1)  # where by rounding more than everything would be lost
        with np.errstate(divide="ignore"):  # a group that is all wrong ruins whoever staked all
            return np.asarray(np.log1p(gain[:, None] * STAKES), dtype=np.float64)


def _log_p_of_capital(log_capitals: Floats) -> float:
    return min(0.0, float(log(STAKES.size) - np.logaddexp.reduce(log_capitals)))


FIRST_SHARE = 1 / 3
"""Share of delta for the first threshold tested; the rest is for those that accept 2, 4, 8, … times as many.

With more, an error among the most confident leaves less to continue with; with less, it takes
more verdicts to start.
"""

MOST_COPIES = 50
"""Multiple of the present labels beyond which more of them are not suggested."""

GROWTH = 1.2
"""Factor from one number of labels that is tried to the next."""


class Certificate(HtmlRepr, msgspec.Struct, frozen=True, kw_only=True):
    """What may stand without a person, and what that promise rests on.

    Attributes:
        threshold: Verdicts at least this sure are accepted; None where nothing can be certified.
        n_accepted: Labelled verdicts that are this sure.
        errors: Wrong ones among them.
        coverage: Accepted share of all items; the others go to people.
        error_bound: The error among accepted verdicts is at most this with confidence 1 - delta, as far as
            this one threshold goes; never above epsilon, which is what the whole search promises.
        epsilon: Error among accepted verdicts that is tolerated.
        delta: Chance that the promise is broken.
        method: The test at each threshold: exact binomial, betting or hoeffding.
        n: Labelled verdicts.
        groups: Clusters among them.
        tested: Thresholds that were tested.
        reason: Why nothing is certified, or None.
        shortfall: ``too few labels`` where more labels of the same quality would do, or where there are too
            few to tell; ``too wrong`` where more would not do; None where something is certified.
        labels_needed: With too few labels, about how many would do if their errors are as these are.
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
    """The lowest confidence from which on verdicts are certified to be wrong at most ``epsilon`` of the time.

    With probability at least 1 - ``delta`` over the labelled verdicts, the error among further verdicts like
    them that are at least that sure is at most ``epsilon`` (Learn then Test, Angelopoulos et al. 2021). The
    thresholds are the distinct confidences, so that errors have no say in them, tested from the highest down.
    The first is the one where a sample without errors would pass, and the next is tested while each passes.
    One error among the most confident would end that, so it starts again where 2, 4, 8, … times as many are
    accepted, each start with its own share of ``delta``, to which it adds what the starts before it still
    hold (the fallback procedure, Wiens and Dmitrienko 2005). With too few verdicts for a second start the
    first has all of it. The test is the exact binomial tail where no group has several verdicts, else a bound
    on group means.

    Args:
        wrong: Whether each labelled verdict was wrong, 0 or 1, shape (n,).
        confidence: How sure each was, shape (n,), finite; higher is surer.
        groups: The cluster of each.
        epsilon: In (0, 1).
        delta: In (0, 1).
        n_items: All items, those without a verdict too, for the coverage; n by default.
        group_size: The most verdicts that a group can have; by default the most that one has.
        bound: The test where groups have several verdicts.

    Raises:
        TrustError: If the data or an option are not like that.
    """
    lost, sure, clusters = _checked(wrong, confidence, groups)
    size = _group_size(clusters, group_size)
    items = lost.size if n_items is None else n_items
    _check_options(epsilon, delta, bound, items=items, verdicts=lost.size)
    order = np.argsort(-sure, kind="stable")
    lost, sure, codes = lost[order], sure[order], clusters.codes[order]
    ends = np.flatnonzero(np.diff(sure, append=-np.inf)) + 1  # past the last verdict of each confidence

    def gathering() -> Evidence:
        return _evidence(bound, epsilon, clusters, size)

    certified, tested, shares = _search(lost, ends, codes, gathering, delta)
    needed = None if certified else _labels_needed(lost, ends, codes, gathering, delta, shares)
    errors = int(lost[:certified].sum())
    final = gathering()
    final.accept(codes[:certified], lost[:certified])
    return Certificate(
        threshold=float(sure[certified - 1]) if certified else None,
        n_accepted=certified,
        errors=errors,
        coverage=certified / items if items else 0.0,
        error_bound=final.bound(delta) if certified else None,
        epsilon=epsilon,
        delta=delta,
        method=final.method,
        n=lost.size,
        groups=clusters.count,
        tested=tested,
        reason=None
        if certified
        else _why_not(lost, ends, ends[shares > 0], needed, epsilon, delta, groups=clusters.count, size=size),
        shortfall=None if certified else "too wrong" if shares.any() and needed is None else "too few labels",
        labels_needed=needed,
    )


def _search(
    lost: Floats,
    ends: Ints,
    codes: Ints,
    gathering: Callable[[], Evidence],
    delta: float,
    *,
    copies: float = 1,
) -> tuple[int, int, Floats]:
    """How many verdicts are certified, how many thresholds were tested, and delta's shares of the starts.

    Args:
        lost: Whether each verdict was wrong, the most confident first.
        ends: How many verdicts each threshold accepts, rising.
        codes: Group of each verdict.
        gathering: Makes evidence that holds nothing yet.
        delta: Chance that the promise is broken.
        copies: Had there been so many times the verdicts, each like one of these.
    """
    shares = _shares_of_delta(ends, codes, gathering, delta, copies=copies)
    evidence, seen, held, tested, certified = gathering(), 0, 0.0, 0, 0
    for end, share in zip(map(int, ends), shares, strict=True):
        held += share
        if not held:
            continue
        evidence.accept(codes[seen:end], lost[seen:end])
        seen, tested = end, tested + 1
        if evidence.log_p(copies) <= log(held):
            certified = end
        else:
            held = 0.0
    return certified, tested, shares


def _shares_of_delta(
    ends: Ints, codes: Ints, gathering: Callable[[], Evidence], delta: float, *, copies: float
) -> Floats:
    """How much of ``delta`` each threshold starts with, shape of ``ends``; 0 but for the few where it starts.

    See ``_search`` for the arguments.
    """
    shares, n = np.zeros(ends.size), codes.size

    def first(level: float) -> int:
        """The first threshold where a sample without errors would pass; past the last if there is none."""
        ideal, seen = gathering(), 0
        for place, end in enumerate(map(int, ends)):
            ideal.accept(codes[seen:end], np.zeros(end - seen))
            seen = end
            if ideal.log_p(copies) <= log(level):
                return place
        return int(ends.size)

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
    lost: Floats, ends: Ints, codes: Ints, gathering: Callable[[], Evidence], delta: float, shares: Floats
) -> int | None:
    """About how many labels would certify something, were they as these are; None where none would.

    The same search over more and more copies of these labels. A certificate counts that accepts at least as
    many of them as could have been certified, or all where none could: of fewer, no error says nothing yet.
    """
    if not lost.size:
        return None
    fewest = int(ends[np.argmax(shares > 0)]) if shares.any() else lost.size
    copies = GROWTH
    while copies <= MOST_COPIES:
        if _search(lost, ends, codes, gathering, delta, copies=copies)[0] >= fewest:
            return ceil(copies * lost.size)
        copies *= GROWTH
    return None


def _why_not(
    lost: Floats,
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
    if not lost.size:
        return "there are no labelled verdicts"
    errors = np.cumsum(lost)
    if starts.size and needed is None:
        able = ends[ends >= starts[0]]
        least = int(able[np.argmin(errors[able - 1] / able)])
        return (
            f"too often wrong: at the best threshold {_wrong_of(errors, least)}, and more labels of the same "
            "quality would not change that"
        )
    if needed is None:
        outlook = f"{_wrong_of(errors, lost.size)}, and at that rate no number of labels would do"
    else:
        outlook = f"about {needed:,} labels would do if they are as these {lost.size:,} are"
    if starts.size:
        most = int(starts[0])
        return (
            f"too few labels: {_wrong_of(errors, most)}, and so few do not yet show that at most {limit} "
            f"are; {outlook}"
        )
    fewest = ceil(log(delta) / log1p(-epsilon))
    if size == 1:
        return f"too few labels: it takes at least {fewest:,}, all of them right; {outlook}"
    return (
        f"too few labels: a group can have {size:,} verdicts, and it takes more than {fewest - 1:,} groups "
        f"that have as many, all of them right; there are {groups:,}; {outlook}"
    )


def _wrong_of(errors: Floats, accepted: int) -> str:
    """How many of the most confident verdicts are wrong, in words."""
    wrong = int(errors[accepted - 1])
    return (
        f"{wrong:,} of the {accepted:,} most confident {'verdict' if accepted == 1 else 'verdicts'} "
        f"{'is' if wrong == 1 else 'are'} wrong ({100 * wrong / accepted:.1f} %)"
    )


def _evidence(bound: str, epsilon: float, clusters: Groups, size: int) -> Evidence:
    if size == 1:
        return ExactBinomial(epsilon)
    return (Betting if bound == "betting" else Hoeffding)(epsilon, groups=clusters.count, size=size)


def _group_size(clusters: Groups, stated: int | None) -> int:
    """The most verdicts that a group can have, at least 1."""
    seen = int(np.bincount(clusters.codes, minlength=1).max())
    if stated is None:
        return max(1, seen)
    if stated < max(1, seen):
        raise TrustError(
            f"group_size is the most verdicts a group can have; found {stated}, and one has {seen}"
        )
    return stated


def _check_options(epsilon: float, delta: float, bound: str, *, items: int, verdicts: int) -> None:
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if not 0 < value < 1:
            raise TrustError(f"{name} must lie between 0 and 1; found {value}")
    if bound not in {"betting", "hoeffding"}:
        raise TrustError(f'bound must be "betting" or "hoeffding"; found {bound!r}')
    if items < verdicts:
        raise TrustError(f"n_items counts all items; found {items}, fewer than the {verdicts} verdicts")


def _checked(
    wrong: npt.ArrayLike, confidence: npt.ArrayLike, groups: Groups | Sequence[Hashable]
) -> tuple[Floats, Floats, Groups]:
    """Errors, confidences and groups of one length, or what is wrong with them."""
    lost, sure = np.asarray(wrong, dtype=np.float64), np.asarray(confidence, dtype=np.float64)
    clusters = groups if isinstance(groups, Groups) else Groups.of(groups)
    if lost.ndim != 1 or not lost.shape == sure.shape == clusters.codes.shape:
        raise TrustError(
            "errors, confidences and groups must be flat and of one length; "
            f"found {lost.shape}, {sure.shape} and {clusters.codes.shape}"
        )
    for name, values, fine, expected in (
        ("wrong", lost, np.isin(lost, (0.0, 1.0)), "0 or 1"),
        ("confidence", sure, np.isfinite(sure), "a finite number"),
    ):
        if not fine.all():
            at = int(np.argmin(fine))
            raise TrustError(Problem(f"{name}[{at}]", f"must be {expected}; found {values[at]}"))
    return lost, sure, clusters
