"""Decides gates and comparisons by a policy, and says how often each policy decides wrongly.

Definition: docs/definitions/decisions.md#policy.
"""

from collections.abc import Sequence

import msgspec

from trivium.suites.settings import DecideSettings, Policy
from trivium.trust.distributions import Answer


def decided(proven: Answer, probabilities: Sequence[float], how: DecideSettings) -> Answer:
    """Decide by a policy, from what is proven and how probable a loss is.

    Args:
        proven: What the interval proves.
        probabilities: Probability of a loss, or of missing a limit. If values are missing, two: with all
            missing values at their worst, and at their best; both must give the same answer. Empty if nothing
            was measured.
        how: The policy, and the costs of wrong decisions.
    """
    if how.policy == "proof":
        return proven
    if how.policy == "strict":
        return "pass" if proven == "pass" else "fail"
    if not probabilities:
        return "inconclusive"
    if max(probabilities) <= how.costs.threshold:
        return "pass"
    return "fail" if min(probabilities) > how.costs.threshold else "inconclusive"


class WrongRates(msgspec.Struct, frozen=True):
    """How often a policy decided wrongly in trials; shares of comparisons in [0, 1].

    Definition: docs/definitions/decisions.md#wrong-rates.

    Attributes:
        cases: Number of cases of the trials.
        ship: Share in which the policy passed a version that was worse by more than the margin.
        block: Share in which it failed a version that was not.
        undecided: Share that it left undecided.
    """

    cases: int
    ship: float
    block: float
    undecided: float


_MEASURED: dict[Policy, dict[int, tuple[int, int, int]]] = {
    "balanced": {20: (21, 4, 0), 60: (14, 5, 0), 200: (7, 3, 0)},
    "proof": {20: (0, 0, 98), 60: (0, 0, 83), 200: (0, 1, 53)},
    "strict": {20: (0, 67, 0), 60: (0, 58, 0), 200: (0, 40, 0)},
}
"""Wrong ships, wrong blocks and undecided comparisons of 100 by number of cases, from docs/decisions.md."""


def wrong_rates(how: DecideSettings, cases: int) -> WrongRates | None:
    """Look up the error rates of a policy, in the largest trials with at most this many cases.

    Args:
        how: The policy, and the costs of wrong decisions.
        cases: Number of cases.

    Returns:
        None if every trial had more cases, or for ``balanced`` if the two wrong decisions differ in cost.
    """
    tried = [n for n in _MEASURED[how.policy] if n <= cases]
    if not tried or (how.policy == "balanced" and how.costs.threshold != 0.5):
        return None
    ship, block, undecided = (share / 100 for share in _MEASURED[how.policy][max(tried)])
    return WrongRates(max(tried), ship, block, undecided)
