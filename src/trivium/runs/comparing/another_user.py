"""Says whether another user model would change a difference by more than it amounts to.

Definition: docs/definitions/conversations.md#another-user.
"""

from collections.abc import Mapping
from math import sqrt

import numpy as np

from trivium.runs.comparing.comparison import AnotherUser
from trivium.runs.comparing.pairing import PairedScores
from trivium.runs.run import Run
from trivium.runs.spread import user_models, user_of


def another_user(
    head: Run, name: str, paired: PairedScores, clusters: Mapping[str, str], *, level: float
) -> AnotherUser | None:
    """Estimate how much the user models change a difference.

    Args:
        head: The candidate run.
        name: The metric that decides.
        paired: Its values by case.
        clusters: Cluster of each case.
        level: Confidence level of the comparison, in (0, 1).

    Returns:
        None unless both runs have cases with each of several user models.
    """
    from trivium.trust.crossed_components import user_effect

    models = user_models(head.record.settings)
    if not models:
        return None
    differences = dict(zip(paired.cases, (paired.head - paired.base).tolist(), strict=True))
    found: dict[str, dict[str, float]] = {}
    group: dict[str, str] = {}
    for case in head.cases():
        difference = differences.get(case.id, np.nan)
        if (user := user_of(case, models)) is not None and not np.isnan(difference):
            found.setdefault(case.base_id, {})[user] = difference
            group[case.base_id] = clusters[case.id]
    complete = [case for case, of_user in found.items() if len(of_user) == len(models)]
    if not complete:
        return None
    values = np.array([[found[case][model] for model in models] for case in complete])
    groups = [group[case] for case in complete]
    count = len(set(groups))
    effect = user_effect(values, np.array(groups)) if count > 1 else None
    deviation = None if effect is None else sqrt(max(0.0, effect.variance))
    p = None if effect is None else effect.p
    delta = float(values.mean())
    sure = p is not None and p <= 1 - level
    return AnotherUser(
        metric=name,
        users=dict(zip(models, values.mean(axis=0).tolist(), strict=True)),
        delta=delta,
        deviation=deviation,
        p=p,
        larger=sure and deviation is not None and deviation > abs(delta),
        cases=len(complete),
        groups=count,
    )
