"""Which labels of the store the statistics of a judge use, and which never enter."""

import json

import numpy as np
import pytest
from sqlalchemy import insert, select

from tests.labels.labelled import judged, label_all, volunteered
from tests.store.postgres import on_sqlite
from trivium.cli.labels.tables import progress_text
from trivium.errors import MOST_PROBLEMS, InputError, ItemsError
from trivium.labels.files import LABEL_COLUMNS, import_labels, label_rows
from trivium.labels.joining import items_of_queue, labels_for
from trivium.labels.progress import progress_of
from trivium.runs.artifacts.curve import CurveOptions, curve_artifact
from trivium.runs.artifacts.judge import agreement_answer, calibrate, certificate
from trivium.runs.items import files
from trivium.runs.items.files import Labels
from trivium.runs.items.join import items_of_run
from trivium.store import schema
from trivium.store.export.tables import write_csv, write_jsonl
from trivium.store.labels import QueueSettings
from trivium.trust.cluster_bootstrap import BootstrapOptions


def used(labels):
    return {label.case: label.value for label in labels.records()}


@pytest.fixture
def store(store_on_both):
    return store_on_both


def test_a_queue_gives_the_labels_that_are_a_random_sample(queues, run, store):
    queue = queues.create(run, "clarity", by="ann")
    for _ in range(5):
        task = queues.next(queue.id, "ann")
        queues.answer(queue.id, task.place, "ann", "label", 0.5)
    labels = labels_for(store, run, "clarity")
    assert len(used(labels)) == 5
    assert "a simple random sample" in labels.notes[0]


def test_labels_after_an_item_without_an_answer_wait(queues, run, store):
    queue = queues.create(run, "clarity", by="ann")
    queues.next(queue.id, "ann")  # in her hands
    label_all(queues, queue, "ben")
    assert used(labels_for(store, run, "clarity")) == {}
    assert progress_of(queues, queue.id).estimate.waiting == 12
    label_all(queues, queue, "ann")
    assert len(used(labels_for(store, run, "clarity"))) == 12


def test_of_several_people_the_median_counts_until_somebody_decides(queues, store):
    run = judged(store, 1)
    queue = queues.create(run, "clarity", by="ann", settings=QueueSettings(overlap=1.0, people=3))
    for name, value in (("ann", 0.0), ("ben", 0.25), ("cem", 1.0)):
        label_all(queues, queue, name, lambda _case, value=value: value)
    assert used(labels_for(store, run, "clarity")) == {"c0": 0.25}
    queues.adjudicate(queue.id, 1, "eve", 0.5)
    queues.adjudicate(queue.id, 1, "dora", 0.75)
    decided = labels_for(store, run, "clarity")
    assert used(decided) == {"c0": 0.75}
    assert "where people disagreed, somebody decided: dora 1" in decided.notes
    assert progress_of(queues, queue.id).decided == {"dora": 1}


def test_items_of_which_nobody_can_tell_are_counted_and_left_out(queues, store):
    run = judged(store, 2)
    queue = queues.create(run, "clarity", by="ann")
    queues.answer(queue.id, queues.next(queue.id, "ann").place, "ann", "cannot_tell")
    queues.answer(queue.id, queues.next(queue.id, "ann").place, "ann", "label", 1.0)
    labels = labels_for(store, run, "clarity")
    assert list(used(labels).values()) == [1.0]
    assert any("nobody can tell" in note for note in labels.notes)
    assert progress_of(queues, queue.id).cannot_tell == 1


def test_volunteered_labels_never_enter(queues, run, store):
    volunteered(store, run, "c3", 1.0)
    with pytest.raises(InputError, match="1 label was volunteered, which nobody asked for, and left out"):
        labels_for(store, run, "clarity")
    queue = queues.create(run, "clarity", by="ann")
    label_all(queues, queue, "ben", lambda _case: 0.0)
    assert used(labels_for(store, run, "clarity"))["c3"] == 0.0
    assert progress_of(queues, queue.id).estimate.value == 0.0


def test_the_estimate_of_a_queue_is_peoples_mean_once_all_are_labelled(queues, run):
    queue = queues.create(run, "clarity", by="ann")
    label_all(queues, queue, "ann", lambda case: int(case[1:]) / 11)
    progress = progress_of(queues, queue.id)
    assert progress.estimate.value == pytest.approx(0.5)
    assert progress.estimate.interval_items.low == pytest.approx(progress.estimate.interval_items.high)
    assert (progress.answered, progress.people) == (12, {"ann": 12})


def test_without_labels_the_store_says_how_to_get_some(run, store):
    with pytest.raises(InputError, match=f"trivium label {run.id} --dimension clarity"):
        labels_for(store, run, "clarity")


@pytest.mark.parametrize(("suffix", "write"), [("jsonl", write_jsonl), ("csv", write_csv)])
def test_labels_go_out_and_come_in_again(queues, run, store, tmp_path, suffix, write):
    queue = queues.create(run, "clarity", by="ann")
    place = queues.next(queue.id, "ann").place
    queues.answer(queue.id, place, "ann", "label", 0.5, note="=2+5 is no formula")
    queues.answer(queue.id, queues.next(queue.id, "ann").place, "ann", "cannot_tell")
    path = tmp_path / f"labels.{suffix}"
    with path.open("wb") as file:
        write(label_rows(store, run=run.id), LABEL_COLUMNS, file)
    assert [label.value for label in Labels(path).records()] == [0.5]
    assert msgspec_counts(import_labels(store, run, path, by="ben", now=5.0)) == (2, 0)
    assert msgspec_counts(import_labels(store, run, path, by="ben", now=6.0)) == (0, 2)
    again = [row for row in label_rows(store, run=run.id) if row["how"] == "imported"]
    assert [(row["value"], row["answer"], row["note"]) for row in again] == [
        (0.5, "label", "=2+5 is no formula"),
        (None, "cannot_tell", None),
    ]


def msgspec_counts(done):
    return done.stored, done.known


def test_imported_labels_are_used_where_there_is_no_queue(run, store, tmp_path):
    path = tmp_path / "labels.jsonl"
    path.write_text('{"case": "c1", "dimension": "clarity", "value": 0.25, "by": "eve"}\n')
    import_labels(store, run, path, by="ben", now=5.0)
    labels = labels_for(store, run, "clarity")
    assert used(labels) == {"c1": 0.25}
    assert "1 label was imported" in labels.notes[0]


def test_labels_that_a_file_calls_volunteered_stay_so(run, store, tmp_path):
    path = tmp_path / "labels.jsonl"
    row = {"case": "c1", "dimension": "clarity", "value": 0.25, "by": "eve", "how": "volunteered"}
    asked = {"case": "c2", "dimension": "clarity", "value": 1.0, "how": "uniform"}
    path.write_text("".join(json.dumps(each) + "\n" for each in (row, asked)))
    read = Labels(path)
    assert used(read) == {"c2": 1.0}
    assert read.notes == ("1 label that was volunteered is left out: nobody asked for it",)
    import_labels(store, run, path, by="ben", now=5.0)
    imported = labels_for(store, run, "clarity")
    assert used(imported) == {"c2": 1.0}
    assert imported.notes[0] == "1 label was volunteered, which nobody asked for, and left out"


def test_a_late_answer_is_named_and_left_out_of_what_a_certificate_uses(queues, run, store, clock):
    queue = queues.create(run, "clarity", by="ann", settings=QueueSettings(uniform=True))
    place = queues.next(queue.id, "eve").place
    clock.now += 10_000
    label_all(queues, queue, "ann", most=3)
    queues.answer(queue.id, place, "eve", "label", 0.0)
    for labels in (labels_for(store, run, "clarity"), items_of_queue(store, queue.id)):
        assert any("1 label was volunteered, which nobody asked for" in note for note in labels.notes)
    assert set(used(labels_for(store, run, "clarity")).values()) == {1.0}
    shown = progress_text(progress_of(queues, queue.id))
    assert "left out, because nobody asked for them: eve 1" in shown


def test_answers_that_an_older_version_took_of_anybody_are_named(queues, run, store):
    queue = queues.create(run, "clarity", by="ann", settings=QueueSettings(uniform=True))
    label_all(queues, queue, "ann", most=3)
    with store.engine.begin() as connection:
        (label, *_) = connection.execute(select(schema.labels)).mappings().all()
        for key in ("x", "y"):
            other = {name: value for name, value in label.items() if name != "number"}
            connection.execute(insert(schema.labels).values({**other, "by": key, "key": key, "value": 0.0}))
    found = labels_for(store, run, "clarity")
    assert used(found)[label["case"]] == 0.0
    assert any(note.startswith("items with more answers than people were asked for") for note in found.notes)
    assert "items with more answers than people were asked" in progress_text(progress_of(queues, queue.id))


def test_a_file_with_a_mistake_is_not_imported_at_all(run, store, tmp_path):
    path = tmp_path / "labels.jsonl"
    good = {"case": "c1", "dimension": "clarity", "value": 0.25}
    bad = [good | {"case": "c99"}, good | {"repeat": 4}, good | {"value": None}, good | {"value": 7}]
    path.write_text("".join(json.dumps(each) + "\n" for each in [good, *bad]))
    with pytest.raises(ItemsError) as raised:
        import_labels(store, run, path, by="ben", now=5.0)
    assert [problem.where for problem in raised.value.problems] == ["line 2", "line 3", "line 4", "line 5"]
    assert list(label_rows(store)) == []


def test_labels_of_attempts_count_for_every_run_that_scored_them(queues, run, store):
    label_all(queues, queues.create(run, "clarity", by="ann"), "ann")
    again = store.new_run(
        id="again",
        suite_name="apart",
        suite="digest",
        kind="recorded",
        settings={},
        attempts_from=run.number,
    )
    assert len(used(labels_for(store, again, "clarity"))) == 12


def label_some(queues, queue, count):
    """People of whom the judge is right where it is confident, and no better than a coin elsewhere."""
    for _ in range(count):
        task = queues.next(queue.id, "ann")
        number = int(task.case[1:])
        truth = number % 2 if number > 60 else (number // 2) % 2
        queues.answer(queue.id, task.place, "ann", "label", truth)


@on_sqlite
def test_labels_asked_where_the_judge_was_unsure_are_weighted(queues, store):
    run = judged(store, 120)
    queue = queues.create(run, "clarity", by="ann", seed=5)
    label_some(queues, queue, 90)
    labels = labels_for(store, run, "clarity")
    assert len(used(labels)) == 90
    assert "weighted by the probability" in labels.notes[0]
    table = items_of_run(store, run, dimension="clarity", labels=labels)
    wrong = table.pred != table.gt
    assert np.average(wrong, weights=table.weights) != pytest.approx(wrong.mean(), abs=0.001)
    agreed = agreement_answer(table, resamples=200)
    assert agreed.exact.value == pytest.approx(1 - np.average(wrong, weights=table.weights))
    area = curve_artifact([table], CurveOptions(plan=BootstrapOptions(resamples=200)))
    risk = area.confidence_variants["confidence"].curve.generalized_risk[-1]
    assert risk == pytest.approx(np.average(wrong, weights=table.weights))
    fitted = calibrate(table, method="temperature", confidence="confidence")
    assert fitted.training_metadata["positive_rate"] == pytest.approx(agreed.exact.value)


@on_sqlite
def test_a_certificate_uses_only_those_that_are_a_random_sample(queues, store):
    run = judged(store, 120)
    queue = queues.create(run, "clarity", by="ann", seed=5)
    label_some(queues, queue, 90)
    table = items_of_queue(store, queue.id)
    made = certificate(table, None, epsilon=0.2, delta=0.2)
    assert made.n == made.n_items == table.at_random.sum() < 60
    left = f"{90 - made.n} labels of items asked because the judge was unsure are not used"
    assert any(left in note for note in made.warnings)
    corrected = agreement_answer(table, resamples=200).corrected
    assert (corrected.labelled, corrected.unlabelled) == (made.n, 120 - made.n)


@on_sqlite
def test_a_queue_for_a_certificate_asks_all_at_random(queues, store):
    run = judged(store, 120)
    queue = queues.create(run, "clarity", by="ann", seed=5, settings=QueueSettings(uniform=True))
    label_some(queues, queue, 90)
    table = items_of_queue(store, queue.id)
    assert table.weights is None
    assert certificate(table, None, epsilon=0.2, delta=0.2).n == 90
    assert "a simple random sample" in table.notes[0]


def test_where_all_are_labelled_all_count_once(queues, store):
    run = judged(store, 12)
    queue = queues.create(run, "clarity", by="ann", seed=5)
    label_some(queues, queue, 12)
    table = items_of_queue(store, queue.id)
    assert table.weights is None
    assert table.at_random is None


def test_only_of_mistakes_that_are_listed_the_nearest_name_is_looked_for(run, store, tmp_path, monkeypatch):
    path, looked = tmp_path / "labels.jsonl", []
    path.write_text('{"case": "x1", "dimension": "clarity", "value": 1}\n' * (MOST_PROBLEMS + 30))
    monkeypatch.setattr(files, "suggest", lambda case, _: looked.append(case) or "")
    with pytest.raises(ItemsError) as raised:
        import_labels(store, run, path, by="ben", now=5.0)
    assert len(looked) == len(raised.value.problems) == MOST_PROBLEMS
    assert raised.value.left_out == 30
