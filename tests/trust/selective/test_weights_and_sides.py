"""Groups weighed by hand and sides that differ; oracles: the same items taken alone, messages by hand."""

import numpy as np
import pytest

from trivium.errors import TrustError
from trivium.trust.cluster_bootstrap import BootstrapOptions
from trivium.trust.selective.inference import (
    METRIC_NAMES,
    RequestedMetrics,
    WeightedMetrics,
    bootstrap_deltas,
    bootstrap_selective_metrics,
    selective_metrics,
)
from trivium.trust.selective.items import Items

NAMES = (*METRIC_NAMES, "aurc_at_0.5", "mae_at_0.3")


@pytest.mark.parametrize("kept", [range(40, 60), range(20), range(7, 60, 3), range(60)])
@pytest.mark.parametrize("size", [1, 3])
def test_groups_of_weight_zero_count_as_absent(kept, size):
    rng = np.random.default_rng(4)
    codes = np.repeat(np.arange(60), size)
    loss = codes / 60 + rng.uniform(0, 0.01, codes.size)  # the first groups are the best of any ranking
    items = Items.of(codes.tolist(), loss, rng.random(codes.size), predicted=rng.random(codes.size) < 0.9)
    weights = np.isin(np.arange(60), list(kept)).astype(np.uint8)
    found = WeightedMetrics(items, RequestedMetrics.of(NAMES)).values(
        np.stack([weights, np.ones(60, np.uint8)], axis=1)
    )
    alone = selective_metrics(items.within([str(group) for group in kept]), NAMES)
    assert found[:, 0] == pytest.approx(list(alone.values()), abs=1e-12)
    assert found[:, 1] == pytest.approx(list(selective_metrics(items, NAMES).values()), abs=1e-12)


def test_where_one_side_never_answers_nothing_up_to_the_common_coverage_is_defined():
    answers = Items.of(["a", "b", "c"], [0.1, 0.2, 0.3], [0.5, 0.6, 0.7])
    silent = Items.of(["a", "b", "c"], [0.0] * 3, [0.0] * 3, predicted=[False] * 3)
    found = bootstrap_deltas(answers, silent, ["aurc_common"], BootstrapOptions(resamples=20))["aurc_common"]
    assert (found.left is None, found.right, found.estimate.point) == (False, None, None)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (["z"], r"1 groups are on one side only \(z\)"),
        (list("uvwxy"), r"5 groups are on one side only \(u, v, w, x, y\)"),
        (list("uvwxyz"), r"6 groups are on one side only \(u, v, w, x, y, …\)"),
    ],
)
def test_groups_that_one_side_lacks_are_named(others, said):
    left = Items.of(["a", "b"], [0.1, 0.2], [0.5, 0.6])
    right = Items.of(["a", "b", *others], [0.1] * (2 + len(others)), [0.5] * (2 + len(others)))
    with pytest.raises(TrustError, match=said):
        bootstrap_deltas(left, right, ["aurc"])


def test_no_item_at_all_has_no_figure_and_no_interval():
    found = bootstrap_selective_metrics(Items.of([], [], []), ["aurc"])["aurc"]
    assert (found.point, found.interval, found.why_none) == (None, None, "undefined")
