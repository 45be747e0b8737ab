"""Makes an answer of what is proven and how probable a loss is, and says how often such answers are wrong.

Definition: docs/definitions/decisions.md#policy.
"""

from collections.abc import Sequence

import msgspec

from trivium.suites.settings import DecideSettings, Policy
from trivium.trust.distributions import Answer


def decided(proven: Answer, probabilities: Sequence[float], how: DecideSettings) -> Answer:
    """Answer by a policy.

    Args:
        proven: What the interval proves.
        probabilities: Probability of a loss, or of missing a limit. With missing values two of them: with all
            of these at their worst, and at their best; the answer must be the same for both. Empty if nothing
            was measured.
        how: The policy, and what wrong decisions cost.
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
    """How often a policy was wrong in trials; shares of comparisons in [0, 1].

    Definition: docs/definitions/decisions.md#wrong-rates.

    Attributes:
        cases: Number of cases of the trials.
        ship: It passed a version that was worse by more than the margin.
        block: It failed one that was not.
        undecided: It did neither.
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
    """How often a policy was wrong in trials with about as many cases: the most that are no more.

    Args:
        how: The policy, and what wrong decisions cost.
        cases: Number of cases.

    Returns:
        None with fewer cases than in any trial, and for ``balanced`` if wrong decisions do not cost the same.
    """
    tried = [n for n in _MEASURED[how.policy] if n <= cases]
    if not tried or (how.policy == "balanced" and how.costs.threshold != 0.5):
        return None
    ship, block, undecided = (share / 100 for share in _MEASURED[how.policy][max(tried)])
    return WrongRates(max(tried), ship, block, undecided)
