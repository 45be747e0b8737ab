"""Bootstrapped figures and deltas; oracles: the reference's replicates, resampled items ranked anew."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.goldens import golden
from tests.trust.selective.read import items_of, lower_hull_aurc, run_rows
from trivium.errors import TrustError
from trivium.trust.cluster_bootstrap import BootstrapOptions, estimate
from trivium.trust.resampling import draw_counts
from trivium.trust.selective.curve import (
    augrc,
    aurc,
    optimal_curve,
    risk_at,
    risk_coverage,
)
from trivium.trust.selective.inference import (
    bootstrap_deltas,
    bootstrap_selective_metrics,
    selective_metrics,
)
from trivium.trust.selective.items import Items

NAMES = (
    "cmax", "aurc", "augrc", "aurc_per_cmax", "augrc_per_cmax", "aurc_optimal", "augrc_optimal", "eaurc",
    "eaugrc", "aurc_achievable", "aurc_at_0.25", "augrc_at_0.9", "mae_at_0.1", "mae_at_0.8",
)  # fmt: skip


def near(value):
    return None if value is None else pytest.approx(value, abs=1e-12, rel=1e-9)


def drawn(groups, resamples, seed):
    return np.random.default_rng(seed).integers(groups, size=(resamples, groups), dtype=np.int32)


def plan_of(line):
    return BootstrapOptions(
        resamples=line["n_resamples"], seed=line["seed"], rng="legacy", method="legacy", empty_is_zero=True
    )


def same_estimate(estimate, reference, where):
    assert estimate.drop_rate == near(reference["drop_rate"]), where
    assert (estimate.std_error or 0.0) == near(reference["std_error"]), where
    if estimate.interval is not None:
        assert [estimate.interval.low, estimate.interval.high] == near(reference["ci95"]), where
    else:  # undefined in (almost) every resample: the reference says (0, 0)
        assert reference["ci95"] == [0.0, 0.0], where
        assert estimate.point is None


def single_lines(*, kind, from_run):
    """Oracle lines whose items stand in the line itself, or (``from_run``) in the run artifact."""
    lines = [line for line in golden("bootstrap.jsonl") if line["kind"] == "single"]
    chosen = [
        line for line in lines if line["tool_should"]["outcome"] == kind and ("source" in line) == from_run
    ]
    assert chosen
    return chosen


@pytest.mark.parametrize(
    ("kind", "from_run"),
    [("match_reference", False), ("match_reference", True), ("null_or_reference", False)],
)
def test_replicates_and_intervals_equal_the_reference(kind, from_run):
    for line in single_lines(kind=kind, from_run=from_run):
        rows = (
            line["items"]
            if "items" in line
            else run_rows(line["source"]["mode"], line["source"]["confidence"])
        )
        items = items_of(rows, line["loss"])
        assert [int(id_) for id_ in items.groups.ids] == line["participants_sorted"]
        found = bootstrap_selective_metrics(items, list(line["reference"]), plan_of(line))
        for name, reference in line["reference"].items():
            where = (line["id"], name)
            first = np.array(reference["first_replicates"], float)
            assert found[name].replicates[: first.size] == pytest.approx(
                first, abs=1e-12, rel=1e-9, nan_ok=True
            )
            if kind == "match_reference" or found[name].point is not None:
                assert found[name].point == near(reference["point"]), where
            same_estimate(found[name], reference, where)


@pytest.mark.parametrize(("from_run", "at_least"), [(False, 3), (True, 12)])
def test_paired_deltas_equal_the_reference(from_run, at_least):
    checked = 0
    for line in golden("bootstrap.jsonl"):
        if line["kind"] != "paired" or line["id"] == "paired_disjoint" or ("source" in line) != from_run:
            continue
        among = set(line["participants_common_sorted"])
        sides = [
            items_of(
                line[side]
                if side in line
                else run_rows(line["source"][side], line["source"]["confidence"], among),
                line["loss"],
            )
            for side in ("left", "right")
        ]
        partial = line["id"] == "paired_partial_overlap"
        if partial:
            with pytest.raises(TrustError, match="on one side only"):
                bootstrap_deltas(*sides, ["aurc"])
        found = bootstrap_deltas(*sides, list(line["reference"]), plan_of(line), intersection_only=partial)
        for name, reference in line["reference"].items():
            delta = found[name]
            where = (line["id"], name)
            assert [delta.left, delta.right] == [near(reference["left"]), near(reference["right"])], where
            assert delta.estimate.point == near(reference["delta"]), where
            same_estimate(delta.estimate, reference, where)
            checked += 1
    assert checked >= at_least


def test_sides_without_a_common_group_are_refused():
    line = next(line for line in golden("bootstrap.jsonl") if line["id"] == "paired_disjoint")
    sides = [items_of(line[side], line["loss"]) for side in ("left", "right")]
    with pytest.raises(TrustError, match="no group in common"):
        bootstrap_deltas(*sides, ["aurc"], intersection_only=True)


def ranked_anew(items, rows):
    """Every figure of the items in ``rows``, by the curve of just these items."""
    accepted = items.predicted[rows]
    loss, sure = items.loss[rows][accepted], items.confidence[rows][accepted]
    curve, best = risk_coverage(loss, sure, n_items=len(rows)), optimal_curve(loss, n_items=len(rows))
    if not accepted.any():
        return [0.0] + [np.nan] * (len(NAMES) - 1)
    early, late = risk_at(curve, 0.1), risk_at(curve, 0.8)
    return [
        curve.cmax, aurc(curve), augrc(curve), aurc(curve) / curve.cmax, augrc(curve) / curve.cmax,
        aurc(best), augrc(best), aurc(curve) - aurc(best), augrc(curve) - augrc(best), lower_hull_aurc(curve),
        aurc(curve, max_coverage=0.25), augrc(curve, max_coverage=0.9),
        early.value if early else np.nan, late.value if late else np.nan,
    ]  # fmt: skip


def invented(rng, groups, items, levels, share):
    size = groups * items
    sure = rng.uniform(size=size) if levels is None else rng.integers(levels, size=size) / levels
    codes, loss = rng.integers(groups, size=size), rng.uniform(size=size).round(2)
    return Items.of(codes.tolist(), loss, sure, predicted=rng.uniform(size=size) < share)


@pytest.mark.parametrize("levels", [None, 1, 7, 200])
@pytest.mark.parametrize(("groups", "items", "share"), [(2, 3, 0.3), (13, 20, 0.8), (300, 3, 1.0)])
def test_a_weighted_sweep_equals_ranking_each_resample_anew(groups, items, share, levels):
    made = invented(np.random.default_rng(groups), groups, items, levels, share)
    found = bootstrap_selective_metrics(made, NAMES, BootstrapOptions(resamples=30, seed=3))
    weights = draw_counts(drawn(made.groups.count, 30, 3))
    for resample in range(30):
        rows = np.repeat(np.arange(made.n), weights[resample, made.groups.codes])
        replicates = [found[name].replicates[resample] for name in NAMES]
        assert replicates == pytest.approx(ranked_anew(made, rows), abs=1e-11, nan_ok=True)


def test_threads_and_chunks_change_no_figure():
    made = invented(np.random.default_rng(1), 3000, 2, None, 0.9)
    one = bootstrap_selective_metrics(
        made, ["aurc", "augrc", "mae_at_0.5"], BootstrapOptions(resamples=2500, threads=1)
    )
    three = bootstrap_selective_metrics(
        made, ["aurc", "augrc", "mae_at_0.5"], BootstrapOptions(resamples=2500, threads=3)
    )
    for name, alone in one.items():
        assert alone.replicates.tolist() == three[name].replicates.tolist()


@given(st.integers(0, 2**32 - 1), st.sampled_from([None, 3]))
def test_the_order_of_the_items_changes_no_interval(seed, levels):
    rng = np.random.default_rng(seed)
    made = invented(rng, 6, 4, levels, 0.8)
    order = rng.permutation(made.n)
    ids = [made.groups.ids[code] for code in made.groups.codes[order]]
    moved = Items.of(ids, made.loss[order], made.confidence[order], predicted=made.predicted[order])
    plan = BootstrapOptions(resamples=200)
    here, there = (bootstrap_selective_metrics(items, ["aurc"], plan)["aurc"] for items in (made, moved))
    assert there.replicates == pytest.approx(here.replicates, abs=1e-12, nan_ok=True)


def test_a_delta_at_common_coverage_is_not_fooled_by_abstaining_more():
    # measured in the pitfalls of the oracles: the plain delta says worse, the common coverage says nothing
    common = {int(row[0]) for row in run_rows("zero_shot", "verbalized")}
    common &= {int(row[0]) for row in run_rows("few_shot", "verbalized")}
    left, right = (
        items_of(run_rows(mode, "verbalized", common), "abs") for mode in ("zero_shot", "few_shot")
    )
    plan = BootstrapOptions(resamples=1000, rng="legacy", method="percentile")
    found = bootstrap_deltas(left, right, ["aurc", "aurc_common"], plan)
    plain, fair = found["aurc"].estimate, found["aurc_common"].estimate
    assert (plain.point, plain.interval.low, plain.interval.high) == pytest.approx(
        (0.0935, 0.040, 0.153), abs=6e-4
    )
    assert (fair.point, fair.interval.low, fair.interval.high) == pytest.approx(
        (-0.001, -0.047, 0.050), abs=5e-4
    )


def test_no_item_and_no_prediction_are_undefined_not_perfect():
    nothing = Items.of([], [], [])
    assert selective_metrics(nothing, ["aurc", "cmax"]) == {"aurc": None, "cmax": None}
    assert bootstrap_selective_metrics(nothing, ["aurc"])["aurc"].why_none == "undefined"
    silent = Items.of([1, 2], [0.0, 0.0], [0.5, np.nan], predicted=[False, False])
    assert selective_metrics(silent, ["aurc", "cmax", "mae_at_0.5"]) == {
        "aurc": None,
        "cmax": 0.0,
        "mae_at_0.5": None,
    }
    assert selective_metrics(silent, ["aurc_optimal", "aurc_achievable", "eaugrc"]) == dict.fromkeys(
        ["aurc_optimal", "aurc_achievable", "eaugrc"]
    )


def test_resamples_without_a_prediction_are_dropped_and_counted():
    made = Items.of(
        [1, 1, 2, 3], [1.0, 0.0, 0.0, 0.0], [0.9, 0.2, 0.0, 0.0], predicted=[True, True, False, False]
    )
    found = bootstrap_selective_metrics(made, ["aurc"], BootstrapOptions(resamples=4000))["aurc"]
    assert found.drop_rate == pytest.approx((2 / 3) ** 3, abs=0.03)
    assert not (found.replicates == 0).any()


def test_bca_needs_no_more_than_a_leave_one_out_pass():
    made = invented(np.random.default_rng(5), 30, 4, None, 0.9)
    found = bootstrap_selective_metrics(made, ["aurc"], BootstrapOptions(resamples=500, method="bca"))["aurc"]
    assert found.interval.low < found.point < found.interval.high
    assert found.interval.method == "bca"


def test_bca_leaves_out_each_group_once_on_any_number_of_threads():
    rng, names = np.random.default_rng(6), ["aurc"]
    # More than the 1,024 groups of one chunk.
    made = Items.of(range(1_030), rng.uniform(size=1_030).round(2), rng.uniform(size=1_030))
    one, many = (
        bootstrap_selective_metrics(
            made, names, BootstrapOptions(resamples=200, method="bca", threads=threads)
        )
        for threads in (1, 3)
    )
    ids = made.groups.ids
    left_out = [selective_metrics(made.within([*ids[:at], *ids[at + 1 :]]), names) for at in range(len(ids))]
    for name in names:
        assert many[name].interval == one[name].interval
        want = estimate(
            one[name].point,
            one[name].replicates,
            groups=len(ids),
            n=made.n,
            method="bca",
            left_out=np.array([each[name] for each in left_out]),
        ).interval
        assert (many[name].interval.low, many[name].interval.high) == pytest.approx((want.low, want.high))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("aurk", 'no metric is called .aurk.. Did you mean "aurc"'),
        ("aurc_common", "no metric is called"),
        ("aurc_at_1.5", r"max_coverage must be in \(0, 1\]; found 1.5"),
        ("mae_at_0", r"target_coverage must be in \(0, 1\]; found 0"),
        ("mae_at_1-e", r"target_coverage must be in \(0, 1\]; found 1-e"),
    ],
)
def test_an_unknown_figure_is_refused_with_the_nearest(name, message):
    with pytest.raises(TrustError, match=message):
        selective_metrics(Items.of([1], [0.0], [0.5]), [name])


@pytest.mark.parametrize(("groups", "levels"), [(100_000, None), (2_000, None), (100_000, 50)])
def test_a_hundred_thousand_items_equal_resampled_items_ranked_anew(groups, levels):
    """Oracle: the drawn items, repeated, as a curve of their own."""
    n, draw = 100_000, np.random.default_rng(8)
    codes = draw.permutation(n) % groups
    loss = draw.random(n)
    confidence = draw.random(n) if levels is None else draw.integers(levels, size=n) / levels
    predicted = draw.random(n) < 0.9
    items = Items.of(codes.tolist(), loss, confidence, predicted=predicted)
    options = BootstrapOptions(resamples=6, seed=5, threads=2)
    found = bootstrap_selective_metrics(items, ["aurc", "augrc", "aurc_at_0.5", "mae_at_0.3"], options)
    rows_of = np.argsort(codes, kind="stable").reshape(groups, -1)  # every group has as many items
    for resample, places in enumerate(drawn(groups, 6, 5)):
        rows = rows_of[places].ravel()
        there = rows[predicted[rows]]
        curve = risk_coverage(loss[there], confidence[there], n_items=rows.size)
        at = risk_at(curve, 0.3)
        # Equal items enter together: with distinct confidences this is the copies of one item.
        assert found["aurc"].replicates[resample] == near(aurc(curve))
        assert found["augrc"].replicates[resample] == near(augrc(curve))
        assert found["aurc_at_0.5"].replicates[resample] == near(aurc(curve, max_coverage=0.5))
        assert found["mae_at_0.3"].replicates[resample] == near(at and at.value)
