"""Tests reading files of items, and the messages about their mistakes."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.goldens import data
from trivium.errors import InputError, ItemsError
from trivium.runs.items.files import read_items

LINES = [
    {"group": "303", "item": "sleep", "pred": 2, "gt": 1, "confidence": 0.8},
    {"group": 9, "item": "mood", "pred": None, "gt": 0},
    {"group": "311", "success": False},
]


def write(path: Path, *lines) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def refusal(path: Path, **options) -> str:
    with pytest.raises(InputError) as caught:
        read_items(path, **options)
    return str(caught.value)


def test_a_line_an_item(tmp_path):
    table = read_items(write(tmp_path / "i.jsonl", *LINES))
    assert table.groups.ids == ("9", "303")
    assert table.failed == ("311",)
    assert table.groups.codes.tolist() == [1, 0]
    assert list(table.names) == ["sleep", "mood"]
    np.testing.assert_array_equal(table.pred, [2.0, np.nan])
    assert table.gt.tolist() == [1.0, 0.0]
    assert len(table) == 2


def test_csv_and_parquet_say_the_same_as_jsonl(tmp_path):
    rows = [
        {"group": "a", "item": "x", "pred": 1.0, "gt": 0.0, "signals": {"token_msp": 0.5}},
        {"group": "b", "item": "x", "pred": None, "gt": 1.0, "signals": {"token_msp": None}},
    ]
    write(tmp_path / "i.jsonl", *rows)
    (tmp_path / "i.csv").write_text("group,item,pred,gt,signals.token_msp\na,x,1,0,0.5\n\nb,x,,1,\n")
    (tmp_path / "j.csv").write_text(
        'group,item,pred,gt,signals\na,x,1,0,"{""token_msp"": 0.5}"\nb,x,,1,"{""token_msp"": null}"\n'
    )
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "i.parquet")
    texts = [row | {"signals": json.dumps(row["signals"])} for row in rows]
    pq.write_table(pa.Table.from_pylist(texts), tmp_path / "j.parquet")
    first = read_items(tmp_path / "i.jsonl")
    for name in ("i.csv", "j.csv", "i.parquet", "j.parquet"):
        other = read_items(tmp_path / name)
        np.testing.assert_array_equal(other.pred, first.pred)
        assert other.gt.tolist() == first.gt.tolist()
        assert other.groups.ids == first.groups.ids
        assert other.signals[0] == {"token_msp": 0.5}


def test_csv_knows_failed_groups(tmp_path):
    (tmp_path / "i.csv").write_text("group,item,pred,gt,success\na,x,1,0,true\nb,,,,false\n")
    table = read_items(tmp_path / "i.csv")
    assert (table.groups.ids, table.failed) == (("a",), ("b",))


def test_one_missing_key_among_many_items_is_found_and_named(tmp_path):
    lines = [{"group": str(i), "item": "x", "pred": 1, "gt": 1} for i in range(5000)]
    del lines[4321]["gt"]
    path = write(tmp_path / "i.jsonl", *lines)
    assert (
        refusal(path)
        == f'{path}: line 4322, group "4321", item "x": "gt" is missing: every item needs its truth'
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"group": "a", "item": "x", "pred": 1, "gt": 1, "confidence": NaN}', '"confidence" is NaN'),
        (
            '{"group": "a", "item": "x", "pred": 1, "gt": 1, "confidence": Infinity}',
            '"confidence" is infinite',
        ),
        ('{"group": "a", "item": "x", "pred": NaN, "gt": 1}', '"pred" is NaN'),
        ('{"group": "a", "item": "x", "pred": 1, "gt": -Infinity}', '"gt" is infinite'),
        ('{"group": "a", "item": "x", "pred": 1, "gt": null}', '"gt" is missing'),
        ('{"group": "a", "item": "x", "gt": 1}', '"pred" is missing (null abstains)'),
        ('{"group": "a", "pred": 1, "gt": 1}', '"item" is missing'),
        ('{"group": "a", "item": "x", "pred": true, "gt": 1}', "pred: found true, expected a number"),
        ('{"group": "a", "item": "x", "pred": "2", "gt": 1}', 'pred: found the text "2", expected a number'),
        ('{"group": "a", "item": "x", "pred": 1, "gt": 1, "confidnce": 1}', 'Did you mean "confidence"?'),
        ('{"group": "a", "item": "x", "success": false}', "an item of a group that failed"),
        ('{"item": "x", "pred": 1, "gt": 1}', '"group" is missing'),
        ("[1]", "expected a mapping"),
        ('{"group": "a"', "broken JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"group": "\xff"}', "not valid UTF-8"),
    ],
)
def test_a_mistake_is_reported_with_its_line(tmp_path, line, expected):
    path = tmp_path / "i.jsonl"
    good = json.dumps(LINES[0]).encode()
    path.write_bytes(good + b"\n\n" + line.encode("latin-1") + b"\n")
    words = refusal(path)
    assert words.startswith(f"{path}: line 3")
    assert expected in words
    assert words.count("\n") == 0


def test_a_confidence_of_an_abstention_does_not_matter(tmp_path):
    line = '{"group": "a", "item": "x", "pred": null, "gt": 1, "confidence": NaN}'
    assert not read_items(write(tmp_path / "i.jsonl", line)).predicted.any()


def test_a_mistake_of_many_lines_is_told_once_with_their_number(tmp_path):
    words = refusal(
        write(
            tmp_path / "i.jsonl",
            *[{"group": f"g{i}", "item": "x", "pred": 1} for i in range(25)],
            *[{"group": f"g{i}", "item": "x", "pred": "so so" * i, "gt": 1} for i in (1, 2)],
            {"group": "g", "item": "x", "pred": 1, "gt": "much"},
        )
    ).splitlines()
    assert len(words) == 3
    assert words[0].endswith(
        'line 1, group "g0", item "x": "gt" is missing: every item needs its truth (and 24 more like it)'
    )
    assert 'pred: found the text "so so", expected a number, or one of accept and reject' in words[1]
    assert words[1].endswith("(and 1 more like it)")
    assert "line 28" in words[2]
    assert "more like it" not in words[2]


def test_a_group_that_failed_has_no_items(tmp_path):
    words = refusal(write(tmp_path / "i.jsonl", *LINES, {"group": "303", "success": False}))
    assert 'line 4, group "303": is said to have failed, and has items' in words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("group,item,pred,gt,confidense\n", 'Did you mean "confidence"?'),
        ("group,item,pred,gt,gt\n", 'duplicate column "gt"'),
        ("group,item,pred,gt\na,x,1\n", "line 2: has 3 cells, expected 4"),
        ("group,item,pred,gt\na,x,much,1\n", 'pred: found the text "much"'),
        ("group,item,pred,gt\na,x,nan,1\n", 'line 2, group "a", item "x": "pred" is NaN'),
        ('group,item,pred,gt\na,"x,1,1\n', "broken CSV"),
        ("group,item,pred,gt,signals\na,x,1,1,{broken\n", "signals: found the text"),
    ],
)
def test_a_mistake_of_a_table_is_reported(tmp_path, text, expected):
    (tmp_path / "i.csv").write_text(text)
    assert expected in refusal(tmp_path / "i.csv")


def test_invalid_utf_8_is_reported(tmp_path):
    (tmp_path / "i.csv").write_bytes(b"group,item,pred,gt\na,\xff,1,1\n")
    assert "not valid UTF-8" in refusal(tmp_path / "i.csv")


def test_an_invalid_parquet_file_is_reported(tmp_path):
    (tmp_path / "i.parquet").write_text("no")
    assert "is no Parquet file" in refusal(tmp_path / "i.parquet")


def test_a_missing_file_is_reported_with_the_nearest_name(tmp_path):
    write(tmp_path / "items.jsonl", *LINES)
    assert 'Did you mean "items.jsonl"?' in refusal(tmp_path / "item.jsonl")
    assert "cannot tell the format" in refusal(write(tmp_path / "i.txt"))
    assert "only a run artifact (.json) has modes" in refusal(tmp_path / "items.jsonl", mode="zero_shot")


def artifact(path: Path, *results, **experiment) -> Path:
    made = {"provenance": {"mode": "zero"}, "results": {"results": list(results)}} | experiment
    path.write_text(json.dumps({"run_metadata": {"run_id": "r1"}, "experiments": [made]}))
    return path


PERSON = {
    "participant_id": 12,
    "success": True,
    "ground_truth_items": {"Sleep": 1, "Tired": 2},
    "predicted_items": {"Sleep": 1, "Tired": None},
    "item_signals": {"Sleep": {"llm_evidence_count": 2, "consistency_samples": [1, 1], "note": "x"}},
}


def test_a_run_artifact_says_its_scale_and_origin(tmp_path):
    failed = {"participant_id": 3, "success": False, "ground_truth_items": {}, "predicted_items": {}}
    table = read_items(artifact(tmp_path / "r.json", PERSON, failed))
    assert (table.scale, table.failed, table.n) == ((0.0, 3.0), ("3",), 2)
    assert (table.origin.run_id, table.origin.mode) == ("r1", "zero")
    assert table.signals[0]["llm_evidence_count"] == 2


def test_the_real_artifact_has_the_counts_that_its_maker_wrote():
    table = read_items(data("phq8_run.json"), mode="zero_shot")
    assert (table.groups.count, len(table.failed), table.n) == (44, 3, 352)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"ground_truth_items": {"Sleep": 1}}, 'group "12", item "Tired": "gt" is missing'),
        ({"predicted_items": {"Sleep": 1}}, 'group "12", item "Tired": "pred" is missing'),
        ({"predicted_items": {"Sleep": True, "Tired": 1}}, "found true, expected a number"),
        ({"success": "yes"}, 'success: found the text "yes"'),
    ],
)
def test_a_mistake_of_a_participant_is_reported(tmp_path, change, expected):
    assert expected in refusal(artifact(tmp_path / "r.json", PERSON | change))


def test_an_unknown_mode_is_reported_with_the_known_ones(tmp_path):
    path = artifact(tmp_path / "r.json", PERSON)
    assert (
        refusal(path, mode="zerro")
        == f'{path}: has no mode "zerro". Did you mean "zero"? It has the modes zero.'
    )
    both = json.loads(path.read_text())
    both["experiments"] *= 2
    path.write_text(json.dumps(both))
    assert "name one with --mode" in refusal(path)
    assert "several experiments of mode" in refusal(path, mode="zero")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", "expected a run artifact"),
        ("[]", "expected a run artifact"),
        ("{", "broken JSON"),
        ('{"experiments": 1}', "experiments: found the number 1"),
        ('{"experiments": []}', "has no experiment"),
    ],
)
def test_an_invalid_artifact_is_reported(tmp_path, text, expected):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(ItemsError, match=expected):
        read_items(tmp_path / "r.json")
