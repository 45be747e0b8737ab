"""Items and losses: what is refused, and by which name."""

import numpy as np
import pytest

from trivium.errors import TrustError
from trivium.trust.selective.items import Items, losses


def test_losses_are_in_the_unit_they_say():
    pred, truth = [3, 0, np.nan], [1, 0, 2]
    there = [True, True, False]
    assert losses(pred, truth, scale=(0, 3), predicted=there).tolist() == [2, 0, 0]
    assert losses(pred, truth, kind="abs_norm", scale=(0, 3), predicted=there).tolist() == [2 / 3, 0, 0]
    assert losses(pred, truth, kind="zero_one", scale=(0, 3), predicted=there).tolist() == [1, 0, 0]


def test_a_miss_by_a_little_is_a_miss():
    assert losses([0.4, 0.5], [0.5, 0.5], kind="zero_one", scale=(0, 1)).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("pred", "truth", "options", "message"),
    [
        ([1.0, 7.0], [1, 2], {}, "item 1: pred is 7, outside the scale 0:3"),
        ([1.0, 2.0], [1, np.nan], {}, "item 1: truth is nan, outside the scale 0:3"),
        ([np.nan, 2.0], [1, 1], {}, "item 0: pred is nan"),
        ([1.0], [1, 2], {}, r"of equal length; found \(1,\), \(2,\)"),
        ([1.0], [1], {"predicted": [True, False]}, r"of equal length; found \(1,\), \(1,\), \(2,\)"),
        ([1.0], [1], {"kind": "squared"}, "known: abs, abs_norm, zero_one"),
        ([1.0], [1], {"kind": "zero_on"}, 'Did you mean "zero_one"'),
        ([1.0], [1], {"scale": (3, 0)}, "must rise; found 3:0"),
    ],
)
def test_a_wrong_prediction_or_truth_is_refused_by_name(pred, truth, options, message):
    with pytest.raises(TrustError, match=message):
        losses(pred, truth, name=lambda row: f"item {row}", **{"scale": (0, 3)} | options)


def test_every_mistake_is_named_up_to_ten():
    with pytest.raises(TrustError) as error:
        Items.of(["303"] * 12, np.zeros(12), np.full(12, np.nan), variant="token_msp")
    assert "group 303, row 0: confidence 'token_msp' is NaN" in str(error.value)
    assert len(error.value.problems) == 10
    assert "and 2 more" in str(error.value)


def test_an_infinite_loss_is_refused_by_name():
    with pytest.raises(
        TrustError, match="group 7, row 1: loss is infinite; a predicted item needs a finite one"
    ):
        Items.of([5, 7], [0.0, -np.inf], [0.1, 0.2])


def test_the_values_of_an_abstained_item_do_not_matter():
    items = Items.of([5, 7], [0.0, np.nan], [0.1, np.inf], predicted=[True, False])
    assert items.n == 2


def test_lengths_must_agree():
    with pytest.raises(TrustError, match="of equal length"):
        Items.of([1, 2], [0.0], [0.5, 0.5])


def test_items_of_some_groups_keep_their_names():
    items = Items.of(["b", "a", "c"], [0.1, 0.2, 0.3], [0.5, 0.6, 0.7])
    selected = items.within(["c", "b"])
    assert selected.loss.tolist() == [0.1, 0.3]
    assert [selected.groups.ids[code] for code in selected.groups.codes] == ["b", "c"]
    assert selected.name(1) == "group c, row 2"
