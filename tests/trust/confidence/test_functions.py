"""Confidence of many items: vectorised, extensible, and with a warning for every default used."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.errors import TrustError
from trivium.trust.calibration.calibrator import Calibrator
from trivium.trust.calibration.methods import Isotonic, Temperature
from trivium.trust.confidence.functions import (
    ALL,
    REGISTERED,
    confidence,
    confidence_function,
    named_variants,
)

unit = st.floats(0, 1)
rows = st.fixed_dictionaries(
    {
        "llm_evidence_count": st.integers(0, 9),
        "retrieval_similarity_mean": st.none() | unit,
        "retrieval_similarity_max": st.none() | unit,
        "verbalized_confidence": st.none() | st.integers(1, 5),
        "token_msp": unit,
        "token_pe": st.floats(0, 10),
        "token_energy": st.floats(-20, 0),
        "consistency_modal_confidence": unit,
        "consistency_score_std": st.floats(0, 4),
    }
)
FULL = {
    "llm_evidence_count": 2,
    "retrieval_similarity_mean": 0.5,
    "retrieval_similarity_max": 0.75,
    "verbalized_confidence": 4,
    "token_msp": 0.8,
    "token_pe": 1.0,
    "token_energy": 0.0,
    "consistency_modal_confidence": 0.6,
    "consistency_score_std": 0.25,
}


@pytest.mark.parametrize(
    ("variant", "by_hand"),
    [
        ("llm", 2.0),
        ("total_evidence", 2.0),
        ("retrieval_similarity_mean", 0.5),
        ("retrieval_similarity_max", 0.75),
        ("hybrid_evidence_similarity", 0.5 * 2 / 3 + 0.25),
        ("verbalized", 0.75),
        ("verbalized_centred", 0.7),
        ("hybrid_verbalized", 0.4 * 0.75 + 0.3 * 2 / 3 + 0.15),
        ("token_msp", 0.8),
        ("token_pe", 0.5),
        ("token_energy", 1.0),
        ("consistency", 0.6),
        ("consistency_inverse_std", 0.8),
        ("hybrid_consistency", 0.24 + 0.2 + 0.15),
        ("secondary:token_msp+token_pe:average", 0.65),
        ("secondary:token_msp+token_pe:product", 0.4),
    ],
)
def test_each_variant_by_hand(variant, by_hand):
    assert confidence(variant, [FULL]).values[0] == pytest.approx(by_hand, abs=1e-15)


@given(st.lists(rows, min_size=1, max_size=5))
def test_many_items_at_once_are_as_one_at_a_time(several):
    for variant in ALL:
        together = confidence(variant, several).values
        alone = [confidence(variant, [row]).values[0] for row in several]
        assert together.tolist() == alone


def test_all_and_default_stand_for_the_defined_variants():
    assert len(named_variants("all")) == 13
    assert set(named_variants("all")) <= set(REGISTERED)
    assert named_variants("default") == ("llm", "total_evidence")
    assert named_variants("token_msp") == ("token_msp",)


def test_abstained_items_need_no_signals():
    found = confidence("token_msp", [{"token_msp": 0.5}, {"token_msp": None}, {}], used=[True, False, False])
    assert found.values[0] == 0.5
    assert np.isnan(found.values[1:]).all()


def test_every_faulty_item_is_listed_up_to_a_bound():
    several = [{"token_msp": 2.0}] * 14
    with pytest.raises(TrustError, match=r"items\[0\]") as caught:
        confidence("token_msp", several)
    assert len(caught.value.problems) == 10
    assert caught.value.left_out == 4


def test_a_fault_among_abstained_items_is_named_by_its_own_place():
    several = [{}, {"token_msp": "high"}, {"token_msp": 0.5}]
    with pytest.raises(TrustError, match=r'group "b", item "y".*"token_msp", which must be a number'):
        confidence(
            "token_msp", several, groups=["a", "b", "c"], items=["x", "y", "z"], used=[False, True, True]
        )


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (10**400, "finite"),
        (-1, "at least 0"),
        (1.5, "whole"),
        (None, "null"),
        ("9" * 10_000, "number"),
        (np.True_, "number"),
    ],
)
def test_hostile_counts_are_refused_in_few_words(value, says):
    with pytest.raises(TrustError, match=says) as caught:
        confidence("llm", [{"llm_evidence_count": value}])
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("variant", "name", "value", "says"),
    [
        ("token_msp", "token_msp", 2, "must be between 0 and 1; found 2"),
        ("token_energy", "token_energy", 800, "must be at most 709; found 800"),
        ("llm", "llm_evidence_count", "many", "must be a number; found 'many'"),
    ],
)
def test_a_signal_out_of_its_range_is_told_with_its_item(variant, name, value, says):
    with pytest.raises(TrustError) as caught:
        confidence(variant, [{name: 0}, {name: value}])
    assert str(caught.value) == f'items[1]: confidence "{variant}" needs signal "{name}", which {says}'


def test_numpy_numbers_are_numbers():
    assert confidence("llm", [{"llm_evidence_count": np.int64(3)}]).values[0] == 3


def test_used_defaults_are_reported():
    found = confidence("verbalized", [{"verbalized_confidence": None}, {"verbalized_confidence": 5}])
    assert found.values.tolist() == [0.5, 1.0]
    assert found.warnings == (
        'signal "verbalized_confidence" is null or missing in 1 of 2 items; its default was used',
    )


def test_no_items_have_no_confidences():
    assert confidence("llm", []).values.shape == (0,)


def test_a_user_can_add_one():
    @confidence_function("temperate")
    def temperate(signals):
        return np.ones(len(signals)) - signals.number("heat", low=0, high=1)

    try:
        assert confidence("temperate", [{"heat": 0.25}]).values[0] == 0.75
        found = confidence("secondary:temperate+token_msp:product", [{"heat": 0.5, "token_msp": 0.5}])
        assert found.values[0] == 0.25
        with pytest.raises(ValueError, match="already"):
            confidence_function("temperate")
    finally:
        del REGISTERED["temperate"]


@pytest.mark.parametrize("name", ["all", "calibrated", "llm", "a+b", "a:b", ""])
def test_reserved_names_are_refused(name):
    with pytest.raises(ValueError, match="confidence"):
        confidence_function(name)


@pytest.mark.parametrize(("given_back", "says"), [([np.nan], "cannot be ranked"), ([1.0, 2.0], "shape")])
def test_what_a_users_function_gives_is_checked(given_back, says):
    confidence_function("odd")(lambda _: np.array(given_back))
    try:
        with pytest.raises(TrustError, match=says):
            confidence("odd", [{}])
    finally:
        del REGISTERED["odd"]


def test_a_misspelt_variant_gets_a_suggestion():
    with pytest.raises(TrustError, match='Did you mean "token_msp"'):
        confidence("tokenmsp", [])
    with pytest.raises(TrustError, match='in "secondary:llm\\+nope:average"'):
        confidence("secondary:llm+nope:average", [])


def test_names_must_be_one_an_item():
    with pytest.raises(ValueError, match="groups"):
        confidence("llm", [{}], groups=[])
    with pytest.raises(ValueError, match="used"):
        confidence("llm", [{}], used=[])


def test_a_calibrator_made_for_another_confidence_is_warned_of():
    model = Isotonic(x_thresholds=(0.0, 1.0), y_thresholds=(0.0, 1.0))
    made = Calibrator(method="isotonic", model=model, features=("token_msp",), target="correctness")
    assert confidence("calibrated:token_msp", [FULL], calibrator=made).warnings == ()
    assert "applied to" in confidence("calibrated:verbalized", [FULL], calibrator=made).warnings[0]


def test_a_temperature_on_counts_is_warned_of():
    made = Calibrator(method="temperature_scaling", model=Temperature(temperature=2.0))
    found = confidence("calibrated:llm", [FULL], calibrator=made)
    assert "outside [0, 1] in 1 items" in found.warnings[0]
    assert confidence("verbalized_calibrated", [FULL], calibrator=made).warnings == ()


def test_a_calibrator_fitted_on_a_confidence_has_no_signals_of_its_own():
    model = Isotonic(x_thresholds=(0.0, 1.0), y_thresholds=(0.0, 1.0))
    made = Calibrator(method="isotonic", model=model, features=("token_pe",), confidence="token_pe")
    with pytest.raises(TrustError, match="calibrated:token_pe"):
        confidence("calibrated", [FULL], calibrator=made)
    assert confidence("calibrated:token_pe", [FULL], calibrator=made).values[0] == 0.5
