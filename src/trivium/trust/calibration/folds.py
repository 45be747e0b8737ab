"""Which groups are held out together."""

import numpy as np
import numpy.typing as npt

from trivium.trust.groups import Groups


def assign_folds(groups: Groups, *, folds: int, seed: int) -> npt.NDArray[np.int64]:
    """The fold of each row: whole groups, in an order drawn from the seed, dealt out in turn.

    Which fold a group is in depends on the ids of the groups and the seed, not on the order of the rows.

    Args:
        groups: At least one.
        folds: Number of folds, at least 2.
        seed: Of the draw.

    Returns:
        Shape (n,), 0 … min(folds, number of groups) - 1.

    Raises:
        ValueError: If ``folds`` is below 2.
    """
    if folds < 2:
        raise ValueError(f"folds must be at least 2; found {folds}")
    fold = np.random.default_rng(seed).permutation(groups.count) % folds
    return np.asarray(fold[groups.codes], dtype=np.int64)
