"""Items in many files: a folder or a pattern gives the same table as one file."""

import json
from pathlib import Path

import numpy as np
import pytest

from trivium.errors import ItemsError
from trivium.runs.items.files import read_items


def lines_of(groups):
    return [{"group": str(g), "item": "x", "pred": g % 3, "gt": 1, "confidence": g / 10} for g in groups]


def write(path, lines):
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".csv":
        rows = [",".join(map(str, line.values())) for line in lines]
        path.write_text("\n".join([",".join(lines[0]), *rows]) + "\n")
    else:
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "all.jsonl", lines_of(range(9)))
    write(tmp_path / "parts" / "a.jsonl", lines_of(range(4)))
    write(tmp_path / "parts" / "b.csv", lines_of(range(4, 6)))
    write(tmp_path / "parts" / "c.jsonl", lines_of(range(6, 9)))
    (tmp_path / "parts" / "notes.txt").write_text("no items")
    return tmp_path / "parts"


@pytest.mark.parametrize("pattern", ["", "*.[jc]*"])
def test_a_folder_or_a_pattern_gives_the_items_of_one_file(folder, pattern):
    one, many = read_items(folder.parent / "all.jsonl"), read_items(str(folder / pattern))
    assert many.groups.ids == one.groups.ids
    for ours, theirs in ((many.pred, one.pred), (many.confidence, one.confidence)):
        assert np.array_equal(ours, theirs)
    assert many.name(4).startswith(f'{folder / "b.csv"}: line 2, group "4"')
    assert many.name(6).startswith(f'{folder / "c.jsonl"}: line 1, group "6"')


def test_mistakes_of_all_files_are_told_with_file_and_line(folder):
    with (folder / "a.jsonl").open("a") as file:
        file.write('{"group": "a", "item": "x", "pred": 1}\n')
    with (folder / "c.jsonl").open("a") as file:
        file.write("{broken\n")
        file.write('{"group": "2", "success": false}\n')
    with pytest.raises(ItemsError) as error:
        read_items(folder)
    first, second, third = str(error.value).splitlines()
    assert first.startswith(f'{folder / "a.jsonl"}: line 5, group "a"')
    assert second.startswith(f"{folder / 'c.jsonl'}: line 4")
    assert third.startswith(f'{folder / "c.jsonl"}: line 5, group "2": is said to have failed')


def test_an_item_that_is_in_two_files_is_told_with_its_file(folder):
    write(folder / "d.jsonl", lines_of([0]))
    [note] = read_items(folder).notes
    assert f"the first in {folder / 'd.jsonl'}: line 1" in note


def test_no_file_is_told(tmp_path):
    with pytest.raises(ItemsError, match="no file has such a name"):
        read_items(str(tmp_path / "*.jsonl"))
    with pytest.raises(ItemsError, match="a folder without files of items"):
        read_items(tmp_path)


def test_a_file_whose_name_looks_like_a_pattern_is_read(tmp_path):
    path = Path(tmp_path / "items[1].jsonl")
    write(path, lines_of(range(3)))
    assert read_items(str(path)).n == 3


COLUMNS = [
    ["paper_id", "question", "prediction", "ground_truth", "confidence"],
    ["case", "dimension", "Predicted", "label", "confidence"],
    ["document_id", "item", "pred", "truth", "confidence"],
]


@pytest.mark.parametrize("names", COLUMNS)
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_columns_of_other_tools_are_the_fields_they_mean(tmp_path, names, suffix):
    """Also in another order than ours; what was read as what is said."""
    rows = [("a", "1", 1.0, 1.0, 0.9), ("b", "1", 0.0, 1.0, 0.6), ("b", "2", 2.0, 1.0, 0.5)]
    path = tmp_path / f"items{suffix}"
    if suffix == ".csv":
        path.write_text("\n".join(",".join(map(str, row)) for row in [names, *rows]))
    elif suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in rows))
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        pyarrow = pytest.importorskip("pyarrow")
        parquet.write_table(pyarrow.table(dict(zip(names, zip(*rows, strict=True), strict=True))), path)
    found = read_items(path)
    assert (found.pred.tolist(), found.gt.tolist()) == ([1, 0, 2], [1, 1, 1])
    assert list(found.group_names) == ["a", "b", "b"]
    assert found.confidence.tolist() == [0.9, 0.6, 0.5]
    (note,) = found.notes
    assert all(f"{name} as " in note for name in names if name not in {"item", "pred", "confidence"})


def test_without_a_column_of_names_rows_name_the_items_of_a_table(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("paper_id,pred,gt\na,1,1\na,2,1\n")
    found = read_items(path)
    assert [found.name(row).partition(", ")[2] for row in (0, 1)] == [
        'group "a", item "2"',
        'group "a", item "3"',
    ]


@pytest.mark.parametrize(
    ("one", "zero"), [("ACCEPT", "REJECT"), ("pass", "fail"), ("Yes", "No"), ("true", "false"), (True, False)]
)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_two_words_are_a_prediction_and_its_truth(tmp_path, one, zero, suffix):
    lines = [{"id": i, "pred": pred, "gt": gt} for i, (pred, gt) in enumerate([(zero, one), (one, one)])]
    path = tmp_path / f"items{suffix}"
    write(path, lines)
    found = read_items(path)
    assert (found.pred.tolist(), found.gt.tolist()) == ([0, 1], [1, 1])
    assert list(found.group_names) == ["0", "1"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((("yes", "no"), ("pass", "no")), 'pred: found the text "pass", expected no or yes'),
        ((("yes", "no"), ("yes", 1)), "gt: found 1, expected no or yes as in the items before it"),
        ((("yes", "no"), (1, 1)), "line 2: gt: found 1, expected no or yes"),
        (((1, 1), ("yes", 1)), 'pred: found the text "yes", expected a number'),
    ],
)
def test_words_and_numbers_are_not_mixed(tmp_path, values, expected):
    path = tmp_path / "items.jsonl"
    write(path, [{"group": "a", "item": "x", "pred": pred, "gt": gt} for pred, gt in values])
    with pytest.raises(ItemsError, match=expected):
        read_items(path)


def test_further_columns_are_not_read_and_named_where_a_field_is_missing(tmp_path):
    path = tmp_path / "items.jsonl"
    line = {"paper_id": "a", "id": "x", "pred": 1, "gt": 1, "model": "m", "source": {"a": 1}}
    write(path, [line])
    found = read_items(path)
    assert found.name(0).endswith('line 1, group "a", item "x"')
    assert found.notes == ("read paper_id as group, id as item; not read: model, source",)
    del line["gt"]
    write(path, [line | {"verdict": 1}] * 3)
    with pytest.raises(ItemsError, match=r'"gt" is missing[^\n]*2 more like it\)\n.*model, source, verdict$'):
        read_items(path)


def test_a_field_and_another_name_of_it_are_two_columns(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("group,item,pred,prediction,gt\na,1,1,1,1\n")
    with pytest.raises(ItemsError, match='unknown column "prediction"'):
        read_items(path)
