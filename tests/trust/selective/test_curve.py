"""The curve and its areas; oracles: the reference's numbers, exact rational arithmetic, closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.goldens import golden
from tests.trust.selective.read import items_of, lower_hull_aurc
from trivium.errors import TrustError
from trivium.trust.selective.curve import (
    augrc,
    aurc,
    optimal_curve,
    risk_at,
    risk_coverage,
)

ABS = 1e-12


def curves(line):
    items = items_of(line["items"], line["loss"])
    predicted = items.predicted
    curve = risk_coverage(items.loss[predicted], items.confidence[predicted], n_items=items.n)
    return curve, optimal_curve(items.loss[predicted], n_items=items.n)


def cases(outcome):
    return [line for line in golden("selective.jsonl") if line["tool_should"]["outcome"] == outcome]


def test_curves_and_areas_equal_the_reference():
    lines = [line for line in cases("match_reference") if line["kind"] == "curve"]
    assert len(lines) > 40
    for line in lines:
        (curve, best), reference = curves(line), line["reference"]
        for key in ("coverage", "selective_risk", "generalized_risk", "threshold"):
            assert getattr(curve, key) == pytest.approx(np.array(reference["curve"][key], float), abs=ABS)
        found = {
            "cmax": curve.cmax,
            "aurc": aurc(curve),
            "augrc": augrc(curve),
            "aurc_optimal": aurc(best),
            "augrc_optimal": augrc(best),
            "eaurc": aurc(curve) - aurc(best),
            "eaugrc": augrc(curve) - augrc(best),
            "aurc_achievable": lower_hull_aurc(curve),
        }
        assert found == pytest.approx({key: reference[key] for key in found}, abs=ABS, rel=1e-12), line["id"]
        exact = {key: value for key, value in line["exact"].items() if key in found}
        assert {key: found[key] for key in exact} == pytest.approx(exact, abs=ABS, rel=1e-12), line["id"]


def test_truncated_areas_and_readings_equal_the_reference():
    for line in cases("match_reference"):
        if line["kind"] != "curve":
            continue
        (curve, _), reference = curves(line), line["reference"]
        for share, value in reference["aurc_at"].items():
            assert aurc(curve, max_coverage=float(share)) == pytest.approx(value, abs=ABS), line["id"]
        for share, value in reference["augrc_at"].items():
            assert augrc(curve, max_coverage=float(share)) == pytest.approx(value, abs=ABS), line["id"]
        for share, value in reference["mae_at"].items():
            reading = risk_at(curve, float(share))
            assert (reading and reading.value) == (value and pytest.approx(value, abs=ABS)), line["id"]
            assert reading is None or reading.achieved >= reading.requested == float(share)


def test_full_coverage_areas_equal_fd_shifts():
    for line in golden("selective.jsonl"):
        peer = line.get("cross_check", {}).get("fd_shifts")
        if peer:
            curve, best = curves(line)
            found = (aurc(curve), augrc(curve), augrc(best))
            assert found == pytest.approx((peer["aurc"], peer["augrc"], peer["augrc_optimal"]), abs=ABS)


def test_nothing_predicted_has_no_area():
    for line in cases("null_or_reference"):
        curve, best = curves(line)
        assert [aurc(curve), augrc(curve), aurc(best), lower_hull_aurc(curve), risk_at(curve, 0.1)] == [
            None
        ] * 5
        assert curve.cmax == 0


def test_a_confidence_that_is_no_number_is_refused_by_name():
    lines = [line for line in cases("error") if line["kind"] == "curve"]
    assert len(lines) == 5
    for line in lines:
        bad = next(i for i in line["items"] if i[2] is not None and not np.isfinite(float(i[4])))
        with pytest.raises(TrustError) as error:
            curves(line)
        message = str(error.value)
        assert f"group {bad[0]}, item {bad[1]}: confidence 'golden' is" in message
        assert "finite" in message
        assert line["tool_should"]["error_mentions"][1] in message


def test_a_coverage_out_of_range_is_refused_by_name():
    functions = {
        "compute_risk_at_coverage": risk_at,
        "compute_aurc_at_coverage": aurc,
        "compute_augrc_at_coverage": augrc,
    }
    lines = [line for line in golden("selective.jsonl") if line["kind"] == "argument"]
    assert len(lines) == 5
    for line in lines:
        arguments = {key: float(value) for key, value in line["arguments"].items()}
        name = line["tool_should"]["error_mentions"][0]
        with pytest.raises(ValueError, match=name + r" must be in \(0, 1\]"):
            functions[line["function"]](curves(line)[0], **arguments)


@pytest.mark.parametrize(
    ("loss", "sure", "n", "message"),
    [
        ([0.0, np.inf], [0.1, 0.2], 2, r"loss\[1\]: must be a finite number; found inf"),
        ([0.0, 1.0], [np.nan, 0.2], 2, r"confidence\[0\]: must be a finite number; found nan"),
        ([0.0, 1.0], [0.1], 2, r"equal length; found \(2,\), \(1,\)"),
        ([0.0, 1.0], [0.1, 0.2], 1, "at least the 2 predictions; found 1"),
    ],
)
def test_bad_arrays_are_refused(loss, sure, n, message):
    with pytest.raises(ValueError, match=message):
        risk_coverage(loss, sure, n_items=n)


def test_a_ranking_by_hand():
    # Losses 0, 1 (tied at .8), then 1; two of five items abstained.
    curve = risk_coverage([0.0, 1.0, 1.0], [0.8, 0.8, 0.3], n_items=5)
    assert curve.accepted.tolist() == [2, 3]
    assert curve.selective_risk == pytest.approx([1 / 2, 2 / 3])
    assert aurc(curve) == pytest.approx(2 / 5 * 1 / 2 + 1 / 5 * (1 / 2 + 2 / 3) / 2)
    assert augrc(curve) == pytest.approx(2 / 5 * 1 / 5 / 2 + 1 / 5 * (1 / 5 + 2 / 5) / 2)
    # Up to 0.5 the risk is read half way between the two points.
    assert aurc(curve, max_coverage=0.5) == pytest.approx(0.2 + 0.1 * (1 / 2 + 7 / 12) / 2)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-4, 4)), min_size=1, max_size=40),
    st.integers(0, 5),
    st.randoms(use_true_random=False),
)
def test_order_and_monotone_changes_of_confidence_change_nothing(rows, abstained, shuffler):
    curve = risk_coverage([r[0] for r in rows], [r[1] for r in rows], n_items=len(rows) + abstained)
    shuffler.shuffle(rows)
    other = risk_coverage([r[0] for r in rows], [np.exp(r[1]) for r in rows], n_items=len(rows) + abstained)
    assert (aurc(other), augrc(other)) == pytest.approx((aurc(curve), augrc(curve)), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-4, 4)), min_size=1, max_size=40))
def test_no_ranking_has_less_generalised_risk_than_the_optimal_one(rows):
    loss = [row[0] for row in rows]
    assert augrc(optimal_curve(loss, n_items=len(rows))) <= augrc(
        risk_coverage(loss, [row[1] for row in rows], n_items=len(rows))
    ) * (1 + 1e-12)
