"""Tests importing judgements, joining labels, and exported rows of items."""

import json
from pathlib import Path

import pytest

import trivium as tv
from trivium.errors import InputError, ItemsError
from trivium.runs.items.files import Labels, read_items
from trivium.runs.items.import_judgements import judgement_rows
from trivium.runs.rows import rows_of_kind


def write(name: str, *lines) -> str:
    Path(name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return name


@pytest.fixture
def run(tmp_path, monkeypatch) -> tv.Run:
    """Three cases in two groups, twice each; one attempt failed."""
    monkeypatch.chdir(tmp_path)
    cases = [{"id": f"c{i}", "input": "q", "references": ["yes"], "group": f"g{i // 2}"} for i in range(3)]
    outputs = [{"case": f"c{i}", "repeat": r, "output": "yes"} for i in range(3) for r in range(2)]
    outputs[5] = {"case": "c2", "repeat": 1, "error": "timeout"}
    write("cases.jsonl", *cases)
    write("outputs.jsonl", *outputs)
    Path("suite.yaml").write_text("name: s\ncases: cases.jsonl\nrepeats: 2\nmetrics: [jaccard]\n")
    return tv.evaluate("suite.yaml", outputs="outputs.jsonl")


def judgement(case: str, value, **keys) -> dict:
    return {"case": case, "dimension": "tone", "value": value} | keys


def label(case: str, value, **keys) -> dict:
    return {"case": case, "dimension": "tone", "value": value} | keys


@pytest.fixture
def judged(run) -> tv.Run:
    return run.with_judgements(
        write(
            "judgements.jsonl",
            judgement("c0", 0.8, confidence=0.9, signals={"token_msp": 0.7}, model="m1", prompt="p1"),
            judgement("c0", 0.6, repeat=1),
            judgement("c1", None, reason="too little to go by"),
            judgement("c2", 0.4),
        )
    )


def refusal(call, *arguments, **options) -> str:
    with pytest.raises(InputError) as caught:
        call(*arguments, **options)
    return str(caught.value)


def test_judgements_stand_beside_the_scores_in_a_new_run(run, judged):
    assert judged.id != run.id
    before = [evaluation.scores.keys() for evaluation in run.evaluations()]
    assert before == [{"jaccard"}] * 6
    after = [
        evaluation.scores["tone"].status if "tone" in evaluation.scores else None
        for evaluation in judged.evaluations()
    ]
    assert after == ["ok", "ok", "abstained", None, "ok", None]
    assert list(judged.attempts()) == list(run.attempts())
    assert judged.summary().metrics["tone"].n == 3  # the abstention is none
    assert judged.provenance.judges == ["m1"]
    assert judged.provenance.prompts == ["p1"]
    assert judged.provenance.judgements["of_run"] == run.id


def test_judgements_can_be_added_to_judgements(judged):
    both = judged.with_judgements(write("more.jsonl", judgement("c1", 1.0, repeat=1)))
    tones = [evaluation.scores.get("tone") for evaluation in both.evaluations()]
    assert [score.value if score else None for score in tones] == [0.8, 0.6, None, 1.0, 0.4, None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (judgement("c9", 1), 'line 1: the run has no case "c9".'),
        (judgement("c0", 1, repeat=7), 'line 1: the run has no repeat 7 of case "c0"'),
        (judgement("c0", 1.5), "value: found the number 1.5, expected a number of at least 0 and at most 1"),
        (judgement("c0", 1) | {"dimension": "jaccard"}, '"jaccard" is computed, not judged: tier text'),
        ({"case": "c0", "dimension": "tone"}, '"value" is missing'),
    ],
)
def test_judgements_that_fit_no_attempt_are_refused_and_leave_nothing(run, line, expected):
    assert expected in refusal(run.with_judgements, write("j.jsonl", line))
    assert tv.Run.load().id == run.id


def test_an_attempt_that_is_judged_twice_is_refused(run):
    path = write("j.jsonl", judgement("c0", 1), judgement("c0", 0))
    assert "line 2" in refusal(run.with_judgements, path)
    assert "in line 1 already" in refusal(run.with_judgements, path)


def test_labels_make_items_of_judgements(judged):
    labels = write("l.jsonl", label("c0", 1.0), label("c1", 0.0), label("c2", 0.5))
    table = judged.items(dimension="tone", labels=labels)
    assert table.groups.ids == ("g0", "g1")
    assert table.groups.codes.tolist() == [0, 0, 1]
    assert table.predicted.tolist() == [True, False, True]
    assert table.pred[0] == 0.8
    assert table.gt.tolist() == [1.0, 0.0, 0.5]
    assert table.confidence[0] == 0.9
    assert table.signals[0] == {"token_msp": 0.7}
    assert table.rest.pred.tolist() == [0.6]
    assert table.scale == (0.0, 1.0)
    assert table.origin.run_id == judged.id
    assert any("1 abstained" in note for note in table.notes)
    assert table.provenance == {"judges": ["m1"], "prompts": ["p1"]}


def test_any_metric_can_be_held_against_people(run):
    labels = write("l.jsonl", {"case": "c0", "dimension": "jaccard", "value": 1})
    assert run.items(dimension="jaccard", labels=labels).pred.tolist() == [1.0]


def test_a_failed_attempt_is_no_abstention(judged):
    labels = write("l.jsonl", label("c0", 1.0), label("c2", 0.5, repeat=1))
    table = judged.items(dimension="tone", labels=labels)
    assert (table.n, table.failed) == (1, ("g1",))
    mixed = write("l.jsonl", label("c2", 1.0), label("c2", 0.5, repeat=1))
    assert any("1 failed attempts" in note for note in judged.items(dimension="tone", labels=mixed).notes)


def test_several_people_count_by_their_median(judged):
    people = [label("c0", value, by=by) for value, by in ((0.0, "ann"), (1.0, "bob"), (0.9, "eve"))]
    assert judged.items(dimension="tone", labels=write("l.jsonl", *people)).gt.tolist() == [0.9]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([label("c7", 1.0)], 'line 1: the run has no case "c7"'),
        ([label("c0", 1.0, repeat=4)], 'line 1: the run has no repeat 4 of case "c0"'),
        (
            [label("c0", 1.0, by="ann"), label("c0", 0.5, by="ann")],
            'line 2: "tone" of repeat 0 of case "c0" is labelled by ann in line 1',
        ),
        ([label("c0", 1.0), label("c0", 0.5)], "is labelled in line 1 already"),
        ([label("c0", 2.0)], "value: found the number 2.0"),
        ([label("c0", 1.0) | {"dimension": "tune"}], 'no label of "tone". Did you mean "tune"?'),
    ],
)
def test_labels_that_fit_no_attempt_are_refused(judged, lines, expected):
    assert expected in refusal(judged.items, dimension="tone", labels=write("l.jsonl", *lines))


def test_a_dimension_without_scores_is_refused(run):
    labels = write("l.jsonl", label("c0", 1.0))
    assert 'has no score "tone"' in refusal(run.items, dimension="tone", labels=labels)


def test_labels_in_csv(judged):
    Path("l.csv").write_text("case,repeat,dimension,value,by,at\nc0,0,tone,0.5,ann,2026-11-21T10:00:00Z\n")
    assert judged.items(dimension="tone", labels="l.csv").gt.tolist() == [0.5]


def test_what_is_exported_can_be_read_again(run, judged):
    Path("j.jsonl").write_text(
        "".join(
            json.dumps(row) + "\n" for row in rows_of_kind("judgements", None)[0](judged.store, judged.record)
        )
    )
    again = run.with_judgements("j.jsonl")
    assert list(judgement_rows(again.store, again.record)) == list(
        judgement_rows(judged.store, judged.record)
    )

    labels = Path(write("l.jsonl", label("c0", 1.0, by="ann"), label("c1", 0.0)))
    make, columns = rows_of_kind("items", labels)
    rows = list(make(judged.store, judged.record))
    assert set(columns) == set(rows[0])
    table = read_items(write("i.jsonl", *rows))
    assert table.gt.tolist() == [1.0, 0.0]
    assert table.predicted.tolist() == [True, False]

    expected = list(rows_of_kind("labels", labels)[0](judged.store, judged.record))
    assert [row["value"] for row in expected] == [1.0, 0.0]
    assert Labels(write("again.jsonl", *expected)).value(("c0", 0, "tone")) == 1.0


def test_items_cannot_be_exported_without_labels():
    with pytest.raises(InputError, match="--labels FILE"):
        rows_of_kind("items", None)


def test_an_import_that_breaks_leaves_the_run_interrupted(run, monkeypatch):
    def broken(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(run.store, "save_case_scores", broken)
    with pytest.raises(KeyboardInterrupt):
        run.with_judgements(write("j.jsonl", judgement("c0", 1)))
    assert run.store.runs()[0].state == "interrupted"


def test_more_than_twenty_mistakes_are_counted(run):
    path = write("l.jsonl", *[label("c9", 1.0, by=str(i)) | {"case": f"z{i}"} for i in range(22)])
    words = refusal(run.items, dimension="tone", labels=path)
    assert "… and 2 more" in words
    path = write("j.jsonl", *[judgement(f"z{i}", 1) for i in range(22)])
    with pytest.raises(ItemsError, match="… and 2 more"):
        run.with_judgements(path)
