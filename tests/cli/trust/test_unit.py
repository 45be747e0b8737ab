"""``--unit item`` counts every item by itself, and says what that rests on."""

import json
from pathlib import Path

import pytest

from tests.cli.trust.trust_commands import answer, items, run_trust

NAME = "shared.jsonl"


@pytest.fixture(autouse=True)
def _ten_groups_of_eight() -> None:
    lines = [json.loads(line) for line in Path(items(80)).read_text().splitlines()]
    for number, line in enumerate(lines):
        line |= {"group": f"g{number % 10}", "item": str(number)}
    Path(NAME).write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_certificate_of_single_items_is_that_of_items_in_groups_of_their_own(capsys):
    alone = answer(capsys, "certify", items(80), "--epsilon", "0.3")
    found = answer(capsys, "certify", NAME, "--epsilon", "0.3", "--unit", "item")

    assert found["method"] == "exact binomial"
    assert (found["threshold"], found["errors"]) == (alone["threshold"], alone["errors"])
    assert (found["group_size"], found["group_size_from"]) == (1, "unit")
    assert (
        "if no group has more"
        not in run_trust(capsys, "certify", NAME, "--epsilon", "0.3", "--unit", "item")[1]
    )
    assert json.loads(run_trust(capsys, "certify", NAME, "--json")[1])["method"] == "betting"


@pytest.mark.parametrize("command", ["agree", "curve", "certify"])
def test_the_answer_says_what_it_rests_on(capsys, command):
    note = "items count one by one, which is right only where those of one group are independent"
    for more, said in ((("--unit", "item"), True), ((), False)):
        warnings = json.loads(run_trust(capsys, command, NAME, *more, "--json")[1])["warnings"]
        assert (note in " ".join(warnings)) == said


def test_agreement_is_resampled_by_item(capsys):
    found = answer(capsys, "agree", NAME, "--unit", "item")
    assert found["groups"] == 80
    assert found["exact"]["value"] == answer(capsys, "agree", NAME)["exact"]["value"]


def test_a_calibrator_is_cross_fitted_by_item(capsys):
    assert "80 predictions of 80 groups" in run_trust(capsys, "calibrate", NAME, "--unit", "item")[1]


def test_another_unit_is_refused(capsys):
    code, _, err = run_trust(capsys, "agree", NAME, "--unit", "items")
    assert (code, 'Did you mean "item"?' in err) == (2, True)
