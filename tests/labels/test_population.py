"""What a queue may ask about, how unsure the judge was, and what a labeller can answer."""

import math

import pytest
from sqlalchemy import text

from tests.labels.labelled import judged
from tests.runs.judged_runs import judged_run, judgement
from trivium.errors import TrustError
from trivium.labels.population import choices_for, population_of, unpacked


def signal(**signals):
    return {"signals": signals}


def test_the_stated_confidence_says_where_the_judge_is_unsure(store):
    items, name = population_of(store, [judged(store, 4)], "clarity")
    assert name == "confidence"
    assert list(items.uncertainty) == [0, -0.25, -0.5, -0.75]
    assert list(items.prediction) == [0, 1, 0, 1]


def test_without_a_stated_confidence_a_signal_serves_and_missing_ones_are_unknown(store):
    details = [signal(verbalized_confidence=5), signal(verbalized_confidence=1), {"signals": "broken"}]
    run = judged_run(
        store, {f"c{place}": [judgement(1.0, detail=detail)] for place, detail in enumerate(details)}
    )
    items, name = population_of(store, [run.record], "clarity")
    assert name == "verbalized"
    assert list(items.uncertainty[:2]) == [-1, 0]
    assert math.isnan(items.uncertainty[2])
    with pytest.raises(TrustError, match="no confidence is called"):
        population_of(store, [run.record], "clarity", uncertainty="verbalised")


def test_an_abstention_is_the_least_sure_and_gets_the_mean_of_the_others(store):
    scores = {
        "a": [judgement(0.5, detail={"confidence": 0.9})],
        "b": [judgement(None)],
        "c": [judgement(1.0, detail={"confidence": 0.2})],
    }
    items, _ = population_of(store, [judged_run(store, scores).record], "clarity")
    assert items.prediction[1] == 0.75
    assert items.uncertainty[1] == math.inf


def test_without_any_signal_all_items_are_alike(store):
    run = judged_run(store, {"a": [judgement(1.0)], "b": [judgement(0.0)]})
    items, name = population_of(store, [run.record], "clarity")
    assert name is None
    assert all(math.isnan(value) for value in items.uncertainty)


def test_packed_items_are_the_same_again(store):
    items, _ = population_of(store, [judged(store, 4)], "clarity")
    again = unpacked(items.packed())
    assert (again.cases, again.runs) == (items.cases, items.runs)
    for name in ("run", "position", "repeat", "group", "prediction", "uncertainty"):
        assert list(getattr(again, name)) == list(getattr(items, name))


@pytest.mark.parametrize(
    ("dimension", "names", "values"),
    [
        ("technical_accuracy", ["very poor", "poor", "fair", "good", "very good"], [0.2, 0.4, 0.6, 0.8, 1]),
        ("no rubric has it", ["wrong", "partly right", "right"], [0, 0.5, 1]),
    ],
)
def test_the_answers_are_those_of_the_rubric(store, dimension, names, values):
    asks, choices = choices_for(judged(store, 1), dimension)
    assert [choice.name for choice in choices] == names
    assert [choice.value for choice in choices] == pytest.approx(values)
    assert [choice.key for choice in choices] == [str(number) for number in range(1, len(names) + 1)]
    assert bool(asks) == (dimension == "technical_accuracy")


def test_levels_are_ordered_and_keep_what_they_mean(store):
    _, choices = choices_for(judged(store, 1), "completeness")
    assert [choice.value for choice in choices] == sorted(choice.value for choice in choices)


QUERIES = [
    "SELECT * FROM labels WHERE run = 'r' AND dimension = 'd' AND undone IS NULL ORDER BY number",
    "SELECT * FROM labels WHERE queue = 1 AND undone IS NULL ORDER BY number",
    """SELECT place FROM labels WHERE queue = 1 AND "by" = 'ann' ORDER BY number""",
    "SELECT number FROM labels WHERE key = 'k'",
    "SELECT place FROM label_tasks WHERE queue = 1 AND missing > 0 ORDER BY place",
    "SELECT place FROM label_leases WHERE queue = 1 AND \"by\" = 'ann'",
    "SELECT place FROM label_grants WHERE queue = 1 AND place = 1 AND \"by\" = 'ann'",
    "SELECT id FROM label_queues WHERE id = 'q'",
    "SELECT id FROM label_queues WHERE run = 'r' AND dimension = 'd'",
]


@pytest.mark.parametrize("query", QUERIES)
def test_queries_of_labels_are_answered_from_an_index(store_on_both, query):
    store = store_on_both
    with store.engine.connect() as connection:
        if store.engine.dialect.name == "sqlite":
            plan = [row[-1] for row in connection.execute(text(f"EXPLAIN QUERY PLAN {query}"))]
            assert any(line.startswith("SEARCH") for line in plan), plan
        else:
            connection.execute(text("SET enable_seqscan = off"))
            plan = [row[0] for row in connection.execute(text(f"EXPLAIN {query}"))]
            assert not any("Seq Scan" in line for line in plan), plan
