"""Tests that certificates are applied to judgements, and expire when the judging conditions change."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

import trivium as tv
from tests.runs.judging.suites import MODEL, OTHER, provider, run, suite
from trivium.runs.artifacts.judge import certificate
from trivium.runs.certificates import AcceptedShare, marks
from trivium.store.store import Store
from trivium.suites.certificate import JudgeCertificate, JudgedBy

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
    assert made.threshold is not None
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


def test_a_confidence_equal_to_the_threshold_in_12_digits_is_accepted(judging, tmp_path):
    _, store, path = judging
    made = json.loads(Path(path).read_text())

    def accepted(threshold: float) -> int:
        (tmp_path / "moved.json").write_text(json.dumps(made | {"threshold": threshold}))
        return acceptance(run(suite(CASES, certificate=str(tmp_path / "moved.json")), store)).accepted

    assert accepted(made["threshold"] * (1 + 2e-15)) == accepted(made["threshold"])
    assert accepted(made["threshold"] + 1e-10) < accepted(made["threshold"])


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


def test_it_is_applied_in_the_order_of_the_outputs_with_workers_too(judging, tmp_path):
    """Its accepted share moves after some of the judgements."""
    _, _, path = judging
    moved = tmp_path / "moved.json"
    made = json.loads(Path(path).read_text())
    moved.write_text(json.dumps(made | {"coverage": 1.0, "groups": 5_000, "threshold": 0.9}))
    given = [{"case": f"c{n}", "output": f"A review. Review paper {n}. It is sound."} for n in range(40)]
    found = []
    for workers in (1, 2):
        with Store(f"{tmp_path}/{workers}.db") as fresh:
            judged = tv.evaluate(
                suite(40, certificate=str(moved)), outputs=given, store=fresh, workers=workers
            )
        found.append([marks(each.scores)["clarity"] for each in judged.evaluations()])
    assert found[0] == found[1]
    assert len({each["why"] for each in found[0]}) > 1


def drifting(share=0.6, groups=200):
    judged_by = JudgedBy(models=("m",), prompts=("p",))
    return JudgeCertificate(
        name="c", dimension="d", confidence="x", threshold=0.5, epsilon=0.1, delta=0.1, judged_by=judged_by,
        coverage=share, groups=groups,
    )  # fmt: skip


def lives(then, now, *, runs=1, size=300, worlds=30, groups=200):
    """Judgements until a certificate expires, in each world; None where it never does."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(worlds):
        certificate = drifting((rng.random(groups) < then).mean(), groups)
        seen = None
        for earlier in range(runs):
            share = AcceptedShare(certificate, earlier=earlier)
            for place, accepted in enumerate((rng.random(size) < now).tolist()):
                share.add(str(place), accepted=accepted)
                if share.moved:
                    seen = earlier * size + place + 1
                    break
            if seen:
                break
        found.append(seen)
    return found


def test_a_certificate_hardly_ever_expires_in_its_life_if_nothing_moves():
    """At most 1 % of all lives end that way."""
    assert sum(each is not None for each in lives(0.6, 0.6, runs=20, size=40, worlds=30)) <= 2
    assert sum(each is not None for each in lives(0.97, 0.97, runs=5, size=40, worlds=30)) <= 2


@pytest.mark.parametrize(("now", "most"), [(0.2, 60), (0.9, 150)])
def test_it_expires_soon_after_the_accepted_share_has_moved(now, most):
    found = lives(0.6, now)
    assert None not in found
    assert np.median(found) < most


def test_of_a_group_the_first_judgement_counts():
    share = AcceptedShare(drifting())
    for _ in range(500):
        share.add("one", accepted=False)
    assert share.moved is None
    for number in range(60):
        share.add(str(number), accepted=False)
    assert share.moved is not None
    assert "it accepts 0 % of the first" in share.moved
    assert "accepted 60 % of 200 when it was made" in share.moved


@pytest.mark.parametrize(
    "certificate", [drifting(groups=0), msgspec.structs.replace(drifting(), coverage=None)]
)
def test_a_certificate_that_does_not_say_what_it_accepted_is_not_watched(certificate):
    share = AcceptedShare(certificate)
    for number in range(500):
        share.add(str(number), accepted=False)
    assert share.moved is None


def test_it_expires_while_judging_and_stays_so(judging, tmp_path):
    """Confidences that fell under the threshold: all later judgements go to people, also of later runs."""
    _, store, path = judging
    made = json.loads(Path(path).read_text())
    moved = tmp_path / "moved.json"
    moved.write_text(json.dumps(made | {"coverage": 1.0, "groups": 5_000, "threshold": 0.9}))
    count = 40
    found = acceptance(run(suite(count, certificate=str(moved)), store))
    (why,) = [why for why in found.why if why.startswith("expired: it accepts")]
    assert "and accepted 100 % of 5,000 when it was made" in why
    again = run(suite(3, certificate=str(moved)), store)
    assert acceptance(again).why == {why: 3}
    assert any("moved.json does not apply to 3 judgements" in each for each in again.summary().warnings)
