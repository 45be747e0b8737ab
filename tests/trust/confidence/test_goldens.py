"""Confidences equal the original tool's to 1e-12, and what it should have refused is refused by name."""

import pytest

from tests.goldens import golden
from trivium.errors import TrustError
from trivium.trust.calibration.calibrator import calibrator_from_json
from trivium.trust.confidence.functions import confidence


def thaw(value):
    return float(value["$float"]) if isinstance(value, dict) and "$float" in value else value


def one(line):
    row = {key: thaw(value) for key, value in line["item_signals"].items()}
    artifact = line["calibration"]
    calibrator = None if artifact is None else calibrator_from_json(artifact)
    return confidence(line["variant"], [row], calibrator=calibrator, groups=["7"], items=["Sleep"]).values[0]


def test_every_value_equals_the_reference():
    for line in golden("confidence.jsonl"):
        if line["tool_should"]["outcome"] == "value":
            assert one(line) == pytest.approx(line["reference"]["value"], rel=0, abs=1e-12), line["id"]


def test_everything_that_should_be_an_error_is_one_that_names_variant_and_place():
    for line in golden("confidence.jsonl"):
        if line["tool_should"]["outcome"] != "error":
            continue
        with pytest.raises(TrustError) as caught:
            one(line)
        text = str(caught.value)
        if line["id"].startswith(("artifact/", "name/", "pairing/")):
            continue
        assert 'group "7", item "Sleep"' in text, line["id"]
        assert f'"{line["variant"]}"' in text, line["id"]
        named = line["id"].partition("=")[0]
        if "=" in line["id"]:
            assert f'"{named}"' in text, line["id"]


def test_what_may_be_either_is_refused_or_equal():
    for line in golden("confidence.jsonl"):
        if line["tool_should"]["outcome"] == "value_or_error":
            try:
                found = one(line)
            except TrustError:
                continue
            assert found == pytest.approx(line["reference"]["value"], rel=0, abs=1e-12), line["id"]
