"""Tests disagreements between judges, people and the judges of another run."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runs.judged_runs import judged_run, judgement, vote
from trivium.errors import InputError, ItemsError
from trivium.store.store import Store


@pytest.fixture
def store(tmp_path):
    with Store(f"sqlite:///{tmp_path / 'store.db'}") as opened:
        yield opened


def labels(path, **values):
    lines = [{"case": case, "dimension": "clarity", "value": value} for case, value in values.items()]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


def panel(*values):
    votes = [vote(f"m{place}", value) for place, value in enumerate(values)]
    return judgement(0.5, detail={"votes": votes, "model": "m"})


def test_the_judges_of_a_panel_are_compared(store):
    run = judged_run(store, {"a": [panel(0.8, 0.2, None)], "b": [panel(0.6, 0.6)], "c": [panel(None, 0.4)]})
    found = run.disagreements()
    assert [(each.case, each.apart) for each in found.found] == [("a", pytest.approx(0.6)), ("c", None)]
    assert [one.value for one in found.found[0].opinions] == [0.8, 0.2, None]
    (tally,) = found.tallies
    assert (tally.kind, tally.compared, tally.agreed, tally.abstained) == ("judges", 3, 1, 2)
    assert tally.mean_apart == pytest.approx(0.3)
    assert tally.leaning is None


def test_judge_and_people_are_compared_with_the_bias_of_the_judge(store, tmp_path):
    run = judged_run(store, {"a": [judgement(0.9)], "b": [judgement(0.5)], "c": [judgement(None)]})
    found = run.disagreements(labels=labels(tmp_path / "labels.jsonl", a=0.4, b=0.6, c=0.2))
    assert [(each.case, each.kind) for each in found.found] == [
        ("a", "people"),
        ("b", "people"),
        ("c", "people"),
    ]
    (tally,) = found.tallies
    assert tally.leaning == pytest.approx((0.5 - 0.1) / 2)
    assert tally.mean_apart == pytest.approx(0.3)
    assert tally.largest == pytest.approx(0.5)


def test_a_fallback_for_a_judgement_is_not_compared(store, tmp_path):
    fallback = judgement(0.9, status="fallback", method="similarity")
    run = judged_run(store, {"a": [fallback]})
    found = run.disagreements(labels=labels(tmp_path / "labels.jsonl", a=0.1))
    assert found.found == found.tallies == ()
    assert found.notes == ("nothing in this run was judged",)


def test_two_runs_judges_are_compared_where_both_judged(store):
    base = judged_run(store, {"a": [judgement(0.9, detail={"model": "x"})], "b": [judgement(0.1)]})
    head = judged_run(store, {"a": [judgement(0.2, reason="weak")], "c": [judgement(0.1)]})
    found = head.disagreements(against=base)
    (only,) = found.found
    assert only.kind == "runs"
    assert [(one.by, one.value) for one in only.opinions] == [("the judge", 0.2), (f"x in {base.id}", 0.9)]
    with pytest.raises(InputError, match="has no judgement in common"):
        judged_run(store, {"z": [judgement(0.5)]}).disagreements(against=base)


def test_labels_of_attempts_that_there_are_not_are_refused(store, tmp_path):
    run = judged_run(store, {"a": [judgement(0.9)]})
    with pytest.raises(ItemsError, match='no case "aa"'):
        run.disagreements(labels=labels(tmp_path / "labels.jsonl", aa=0.4))


def test_a_single_judge_has_no_disagreements(store):
    found = judged_run(store, {"a": [judgement(0.9)]}).disagreements()
    assert found.found == ()
    assert "each attempt has one judge" in found.notes[0]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    votes=st.lists(
        st.lists(st.sampled_from([None, 0.0, 0.2, 0.6, 1.0]), min_size=2, max_size=4), min_size=1, max_size=8
    ),
    at_most=st.integers(0, 8),
)
def test_the_largest_are_listed_and_all_are_counted(store, votes, at_most):
    run = judged_run(store, {str(place): [panel(*values)] for place, values in enumerate(votes)})
    found = run.disagreements(at_most=at_most)
    everything = run.disagreements()
    assert found.found == everything.found[:at_most]
    differing = sum(len(set(values)) > 1 for values in votes)
    assert len(found.found) + found.left_out == len(everything.found) == differing
    assert everything.tallies[0].agreed == len(votes) - differing
    apart = [-1 if each.apart is None else each.apart for each in everything.found]
    assert apart == sorted(apart, reverse=True)


def test_votes_in_a_strangers_file_may_be_anything(store):
    votes = [vote("m", True), vote("m", "0.5"), "m", vote(None, 0.3, 7), vote("n", 0.4)]
    run = judged_run(
        store,
        {
            "a": [judgement(0.5, detail={"votes": votes})],
            "b": [judgement(0.5, detail={"votes": 5, "model": 1})],
        },
    )
    (only,) = run.disagreements().found
    assert [(one.by, one.value, one.reason) for one in only.opinions] == [
        ("None", 0.3, None),
        ("n", 0.4, "so"),
    ]
