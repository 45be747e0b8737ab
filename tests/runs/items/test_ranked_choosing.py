"""Tests the choice of a confidence if none is named."""

import json
import random

import pytest

from trivium.runs.items.files import read_items
from trivium.runs.items.ranked import choose


def table(tmp_path, *lines, name="items.jsonl"):
    path = tmp_path / name
    path.write_text("".join(json.dumps({"gt": 1, "pred": 1} | line) + "\n" for line in lines))
    return read_items(path)


def judged(tmp_path, n=60, name="items.jsonl"):
    """Verdicts whose stated words tell right from wrong, while the count of quotes tells nothing."""
    draw = random.Random(4)
    lines = []
    for number in range(n):
        words = draw.randint(1, 5)
        wrong = draw.random() > words / 6
        signals = {
            "llm_evidence_count": draw.randint(0, 3),
            "verbalized_confidence": words,
            "token_msp": None,
        }
        lines.append({"group": f"g{number}", "item": "x", "pred": int(not wrong), "signals": signals})
    return table(tmp_path, *lines, name=name)


def test_the_stated_confidence_is_the_default(tmp_path):
    stated = table(tmp_path, {"group": "a", "item": "x", "confidence": 0.3})
    names, choice = choose([stated], None)
    assert (names, choice.why) == (("confidence",), "stated")
    names, choice = choose([stated], "token_msp, default,token_msp")
    assert (names, choice.why, choice.among) == (("token_msp", "llm", "total_evidence"), "named", 1)


def test_of_a_judged_run_the_signal_with_the_best_auroc_is(tmp_path):
    metrics = pytest.importorskip("sklearn.metrics")
    items = judged(tmp_path)
    names, found = choose([items], None)
    assert (names, found.why, found.among) == (("verbalized",), "best", 2)
    right = items.pred == items.gt
    assert found.auroc["verbalized"] == pytest.approx(
        metrics.roc_auc_score(right, [row["verbalized_confidence"] for row in items.signals])
    )
    assert list(found.auroc) == ["verbalized", "llm"]  # not token_msp, which no item has


def test_two_inputs_share_one_choice(tmp_path):
    both = [judged(tmp_path), judged(tmp_path, 30, "other.jsonl")]
    assert choose(both, None)[0] == ("verbalized",)


def test_a_signal_that_is_the_same_everywhere_is_no_choice(tmp_path):
    signals = table(tmp_path, {"group": "a", "item": "x", "signals": {"llm_evidence_count": 1}})
    assert choose([signals], None)[0] == ("llm", "total_evidence")


def test_a_signal_without_information_has_an_auroc_of_one_half(tmp_path):
    lines = [
        {"group": str(n), "item": "x", "signals": {"verbalized_confidence": 1 + n % 5}} for n in range(10)
    ]
    assert choose([table(tmp_path, *lines)], None)[1].auroc == {"verbalized": 0.5}
