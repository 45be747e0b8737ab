"""Makes an answer of what is proven and how probable a loss is.

Definition: docs/definitions/decisions.md#policy.
"""

from collections.abc import Sequence

from trivium.suites.settings import DecideSettings
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
