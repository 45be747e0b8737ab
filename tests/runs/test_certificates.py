"""Tests that certificates are applied to judgements, and expire when the judging conditions change."""

import json
from pathlib import Path

import msgspec
import pytest

import trivium as tv
from tests.runs.judging.suites import MODEL, OTHER, provider, run, suite
from trivium.runs.artifacts.judge import certificate
from trivium.runs.certificates import marks
from trivium.store.store import Store

CASES = 12


def certified(judged, folder, dimension="clarity") -> str:
    """A certificate on labels that say what the judge says, in a file."""
    labels = folder / "labels.jsonl"
    values = {each.case: each.scores[dimension].value for each in judged.evaluations()}
    labels.write_text(
        "".join(
            json.dumps({"case": case, "dimension": dimension, "value": value}) + "\n"
            for case, value in values.items()
        )
    )
    made = certificate(judged.items(dimension=dimension, labels=labels), "verbalized", epsilon=0.4, delta=0.4)
    assert made["threshold"] is not None
    path = folder / "cert.json"
    path.write_bytes(msgspec.json.encode(made))
    return str(path)


@pytest.fixture
def judging(tmp_path, monkeypatch):
    with provider(monkeypatch) as server, Store(str(tmp_path / "store.db")) as store:
        judged = run(suite(CASES), store)
        yield server, store, certified(judged, tmp_path)


def acceptance(judged):
    return judged.summary().acceptance["clarity"]


def test_judgements_are_marked_as_they_are_made_without_further_requests(judging):
    server, store, path = judging
    asked = len(server.requests)
    again = run(suite(CASES, certificate=path), store)
    assert len(server.requests) == asked
    found = acceptance(again)
    assert found.accepted + found.to_people == CASES
    assert found.accepted > 0
    threshold = json.loads(Path(path).read_text())["threshold"]
    for evaluation in again.evaluations():
        mark = marks(evaluation.scores)["clarity"]
        sure = (evaluation.scores["clarity"].detail["signals"]["verbalized_confidence"] - 1) / 4
        assert mark["confidence"] == sure
        assert mark["answer"] == ("accepted" if sure >= threshold else "to people")
    assert "similarity" not in marks(next(iter(again.evaluations())).scores)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"models": [OTHER]}, f"judged by {OTHER}, and the certificate is of {MODEL}"),
        ({"scale": "minmax"}, 'judge.scale is "minmax", and was "ratio" when it was certified'),
        ({"samples": 2}, "judge.samples is 2, and was 1 when it was certified"),
    ],
    ids=["model", "scale", "samples"],
)
def test_it_expires_with_the_judging_conditions(judging, change, why):
    _, store, path = judging
    judged = run(suite(CASES, certificate=path, metrics=("clarity",), **change), store)
    found = acceptance(judged)
    assert (found.accepted, found.to_people) == (0, CASES)
    assert any(
        "does not apply to 12 judgements" in line and why in line for line in judged.summary().warnings
    )


def own_rubric(asks: str) -> dict:
    words = {"name": "words", "asks": asks}
    return {"rubric": [{"name": "mine", "dimensions": [{"name": "plain", "asks": "?", "criteria": [words]}]}]}


def test_it_expires_with_the_rubric_and_not_with_another_one(judging, tmp_path):
    _, store, _ = judging
    first = run(suite(CASES, metrics=("plain",), **own_rubric("Is it plain?")), store)
    path = certified(first, tmp_path, "plain")
    same = run(
        suite(CASES, metrics=("plain", "clarity"), certificate=path, **own_rubric("Is it plain?")), store
    )
    assert same.summary().acceptance["plain"].accepted > 0
    other = run(suite(CASES, metrics=("plain",), certificate=path, **own_rubric("Is it short?")), store)
    assert other.summary().acceptance["plain"].accepted == 0
    assert "judge.rubrics is" in next(iter(other.summary().acceptance["plain"].why))


def test_what_could_not_be_judged_goes_to_people(judging, tmp_path):
    _, _, path = judging
    with Store(str(tmp_path / "other.db")) as store:
        found = acceptance(run(suite(CASES, certificate=path, budget_usd=0.0), store))
    assert (found.accepted, found.to_people) == (0, CASES)
    assert [why.split(" (")[0] for why in found.why] == ["there is no judgement"]


def test_runs_with_and_without_it_can_be_compared(judging):
    _, store, path = judging
    runs = [run(suite(CASES), store), run(suite(CASES, certificate=path), store)]
    assert tv.compare(*runs).answer == "pass"
