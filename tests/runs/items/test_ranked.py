"""Tests the losses, confidences and scales of items."""

import json
import tracemalloc

import numpy as np
import pytest

from trivium.errors import InputError, TrustError
from trivium.runs.items.files import read_items
from trivium.runs.items.ranked import confidences, ranked, scale_of
from trivium.trust.calibration.calibrator import calibrator_from_json
from trivium.trust.confidence.signals import SignalColumns, Signals


def table(tmp_path, *lines):
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps({"gt": 1, "pred": 1} | line) + "\n" for line in lines))
    return read_items(path)


def test_a_prediction_without_confidence_is_named(tmp_path):
    items = table(
        tmp_path,
        {"group": "a", "item": "x", "confidence": 0.3},
        {"group": "a", "item": "y"},
        {"group": "b", "item": "y", "pred": None},
    )
    with pytest.raises(InputError, match=r'line 2, group "a", item "y": a prediction without confidence$'):
        confidences(items, "confidence")


def test_a_signal_that_is_missing_is_named(tmp_path):
    items = table(
        tmp_path,
        {"group": "a", "item": "x", "signals": {"token_msp": 0.9}},
        {"group": "a", "item": "y", "signals": {"token_pe": 0.9}},
        {"group": "b", "item": "x", "pred": None},
    )
    with pytest.raises(
        InputError, match=r'group "a", item "y": confidence "token_msp" needs signal "token_msp"'
    ):
        confidences(items, "token_msp")


def test_items_without_signals_say_what_to_use(tmp_path):
    items = table(tmp_path, {"group": "a", "item": "x", "confidence": 0.3})
    with pytest.raises(InputError, match="use --confidence confidence"):
        confidences(items, "token_msp")


def test_a_value_off_the_scale_is_named(tmp_path):
    items = table(tmp_path, {"group": "a", "item": "x", "pred": 7, "confidence": 0.3})
    with pytest.raises(InputError, match=r'line 1, group "a", item "x": pred is 7, outside the scale 0:3'):
        ranked(items, "confidence", loss="abs", scale=scale_of([items], (0, 3)))


def test_the_scale_is_stated_declared_or_seen(tmp_path):
    items = table(tmp_path, {"group": "a", "item": "x", "pred": 3}, {"group": "b", "item": "x", "pred": None})
    assert (scale_of([items], None).low, scale_of([items], None).high) == (1, 3)
    assert scale_of([items], None).source == "observed"
    assert scale_of([items], (0, 5)).width == 5
    flat = table(tmp_path, {"group": "a", "item": "x"})
    assert scale_of([flat], None).width == 1


def test_a_stated_confidence_can_be_calibrated(tmp_path):
    items = table(
        tmp_path,
        {"group": "a", "item": "x", "confidence": 0.9},
        {"group": "b", "item": "x", "pred": None},
    )
    half = calibrator_from_json({"method": "temperature_scaling", "temperature": 2.0})
    found = confidences(items, "calibrated:confidence", calibrator=half)
    assert found.values[0] == pytest.approx(0.75)  # odds of 9 become odds of 3
    assert np.isnan(found.values[1])
    assert any("keeps the order" in note for note in found.warnings)


def test_columns_hold_what_mappings_hold():
    rows = [{"a": 1, "b": "text"}, {}, {"a": None, "c": 10**400}, {"b": True, "a": 2.5}]
    columns = SignalColumns()
    for row in rows:
        columns.append(row)
    assert list(columns) == rows
    assert columns[1:3] == rows[1:3]
    assert len(columns) == 4
    for used in ([True, False, True, True], [True, False, False, True]):
        one, same = (Signals(each, requested_by="a test", used=used) for each in (columns, rows))
        assert one.number("a", null=3, absent=7) == pytest.approx(
            same.number("a", null=3, absent=7), nan_ok=True
        )
        assert one.filled == same.filled
    for name in ("a", "b", "c", "d"):
        faults = []
        for each in (columns, rows):
            with pytest.raises(TrustError) as raised:
                Signals(each, requested_by="a test").number(name)
            faults.append(str(raised.value))
        assert faults[0] == faults[1]
    assert columns.names == ("a", "b", "c")


def test_signals_of_one_item_each_take_no_memory_for_all_others():
    rows = [{f"signal {number}": 1.0} for number in range(3000)]
    tracemalloc.start()
    try:
        columns = SignalColumns(rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000  # 36 MB with a place for every item in each column
    assert columns[2999] == rows[2999]
    assert np.flatnonzero(columns.column("signal 7") == 1).tolist() == [7]
