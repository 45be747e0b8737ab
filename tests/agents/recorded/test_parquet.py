"""Recorded outputs in Parquet, read a part at a time."""

import json
import os
import pickle
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trivium as tv
from trivium.agents.recorded import Partitioned, open_recorded
from trivium.agents.recorded.outputs import RecordedOutputs
from trivium.errors import OutputsError
from trivium.records import parquet
from trivium.records.parquet import ParquetFile
from trivium.suites.suite import Suite

SUITE = Suite.load(
    [{"id": str(index), "input": f"{index}?", "references": [f"x {index}"]} for index in range(1000)]
)
TRACE = {"trace_id": "t", "spans": [{"id": "1", "kind": "tool", "name": "search", "start": 0, "end": 1}]}


def rows(count: int = 1000) -> list[dict[str, Any]]:
    return [
        {
            "case": str(index),
            "output": f"x {index % 7}",
            "seconds": index / 10,
            "trace": json.dumps(TRACE),
            "metadata": {"model": "m", "none": None},
        }
        for index in range(count)
    ]


def written(path: Path, table: list[dict[str, Any]] | dict[str, Any], **options: Any) -> str:
    made = pa.table(table) if isinstance(table, dict) else pa.Table.from_pylist(table)
    pq.write_table(made, path, **options)
    return str(path)


def problems(source: str, suite: Suite = SUITE) -> list[str]:
    with pytest.raises(OutputsError) as caught:
        open_recorded(source, suite)
    return str(caught.value).splitlines()


def test_rows_are_the_lines_of_a_file(tmp_path: Path) -> None:
    source = written(tmp_path / "o.parquet", rows(), row_group_size=300)
    lines = [{**row, "trace": TRACE, "metadata": {"model": "m"}} for row in rows()]
    (tmp_path / "o.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    recorded = open_recorded(source, SUITE)
    assert isinstance(recorded, Partitioned)
    assert len(recorded) == 1000
    assert list(recorded) == list(open_recorded(str(tmp_path / "o.jsonl"), SUITE))


def test_any_part_can_be_read_in_any_order_by_any_process(tmp_path: Path) -> None:
    recorded = open_recorded(written(tmp_path / "o.parquet", rows(), row_group_size=300), SUITE)
    assert isinstance(recorded, Partitioned)
    parts = list(recorded.parts())
    assert [index for part in parts for index in part] == list(range(1000))
    assert max(map(len, parts)) == 256
    assert not any(part.start < edge < part.stop for part in parts for edge in (300, 600, 900))
    ranges = [*parts, *(range(index, index + 1) for index in range(0, 1000, 97)), range(5, 5)]
    random.Random(1).shuffle(ranges)
    again = pickle.loads(pickle.dumps(recorded))
    for each in ranges:
        for source in (recorded, again):
            assert [case.id for case, _ in source.read(each)] == [str(index) for index in each]


def test_parts_are_bounded_in_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "PART_BYTES", 10_000)
    table = [{"case": str(index), "output": f"{index:05}" * 200} for index in range(100)]
    recorded = open_recorded(written(tmp_path / "o.parquet", table), SUITE)
    assert isinstance(recorded, Partitioned)
    assert {len(part) for part in recorded.parts()} <= set(range(1, 11))
    assert [case.id for part in recorded.parts() for case, _ in recorded.read(part)] == [
        str(index) for index in range(100)
    ]


def test_reading_on_decodes_each_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    monkeypatch.setattr(
        parquet, "_opened", lambda path, old=parquet._opened: opened.append(path) or old(path)
    )
    recorded = open_recorded(written(tmp_path / "o.parquet", rows()), SUITE)
    opened.clear()
    assert len(list(recorded)) == 1000
    assert len(opened) == 1


def test_mistakes_are_told_with_their_rows(tmp_path: Path) -> None:
    table = rows(40)
    table[3]["case"] = "x"
    table[5]["seconds"] = -1.0
    table[7]["trace"] = "{"
    text = "\n".join(problems(written(tmp_path / "o.parquet", table)))
    assert 'row 4: the suite has no case "x"' in text
    assert "row 6: seconds" in text
    assert "row 8: trace: " in text


def test_duplicates_are_told_with_both_rows(tmp_path: Path) -> None:
    source = written(tmp_path / "o.parquet", rows(400) + rows(30)[29:])
    assert problems(source) == [f'{source}: row 401: duplicate of row 30: case "29", repeat 0']
    assert problems(written(tmp_path / "o.parquet", rows(60) + rows(60)))[-1].strip() == "… and 40 more"


def test_outputs_find_their_cases_by_the_input(tmp_path: Path) -> None:
    table = [{"question": f"{index}?", "answer": "x"} for index in range(600)]
    recorded = open_recorded(written(tmp_path / "o.parquet", table), SUITE)
    assert [case.id for case, _ in recorded] == [str(index) for index in range(600)]
    assert isinstance(recorded, RecordedOutputs)
    assert recorded.notes == (
        "outputs: read answer as output; not read: question; cases found by their question",
    )
    table[300]["question"] = "1001?"
    source = written(tmp_path / "o.parquet", table)
    assert problems(source) == [f'{source}: row 301: no case has this input: the text "1001?"']


def test_a_file_that_changes_is_refused(tmp_path: Path) -> None:
    recorded = open_recorded(written(tmp_path / "o.parquet", rows()), SUITE)
    written(tmp_path / "o.parquet", rows(500))
    os.utime(tmp_path / "o.parquet", ns=(1, 1))
    with pytest.raises(OutputsError, match="has changed since it was checked"):
        list(recorded)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ([], "holds no output"),
        ({"case": ["1"], "other": ["x"]}, 'unknown column "other"'),
        ({"case": ["1"], "case_id": ["1"]}, 'unknown column "case_id"'),
        ({"answer": ["x"]}, "no column names the case: add one called case"),
    ],
)
def test_other_tables_are_refused(tmp_path: Path, table: Any, said: str) -> None:
    source = written(
        tmp_path / "o.parquet",
        table or {"case": pa.array([], pa.string()), "output": pa.array([], pa.string())},
    )
    assert said in problems(source)[0]


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    source = Path(written(tmp_path / "o.parquet", rows()))
    source.write_bytes(source.read_bytes()[:-9])
    assert "is no Parquet file that can be read" in problems(str(source))[0]


def test_a_corrupt_page_is_told_while_it_is_checked(tmp_path: Path) -> None:
    source = Path(written(tmp_path / "o.parquet", rows(), compression="zstd"))
    content = bytearray(source.read_bytes())
    content[200:400] = bytes(200)
    source.write_bytes(content)
    assert "o.parquet: is no Parquet file that can be read" in problems(str(source))[0]


def test_a_batch_that_stands_for_far_more_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "LARGEST_BATCH", 5_000_000)
    source = written(
        tmp_path / "o.parquet", {"case": [str(i) for i in range(256)], "output": ["x" * 100_000] * 256}
    )
    assert "more than the 5,000,000 bytes that are held" in problems(source)[0]


def test_few_rows_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = []
    plain = parquet._plain_rows
    monkeypatch.setattr(
        parquet, "_plain_rows", lambda batch, *more: held.append(len(batch)) or plain(batch, *more)
    )
    table = {
        "case": [str(index) for index in range(1000)] * 20,
        "repeat": [each for each in range(20) for _ in range(1000)],
    }
    recorded = open_recorded(written(tmp_path / "o.parquet", table | {"output": ["x"] * 20_000}), SUITE)
    assert len(list(recorded)) == 20_000
    assert max(held) <= 4096


def test_it_is_closed_and_can_be_read_again(tmp_path: Path) -> None:
    file = ParquetFile(Path(written(tmp_path / "o.parquet", rows())), error=OutputsError)
    assert [number for number, _ in file.rows(range(3, 6))] == [4, 5, 6]
    file.close()
    assert [number for number, _ in file.rows(range(999, 1000))] == [1000]


@pytest.mark.parametrize("workers", [1, 2])
def test_scores_are_those_of_lines(tmp_path: Path, workers: int) -> None:
    source = written(tmp_path / "o.parquet", rows(), row_group_size=300)
    lines = [{**row, "trace": TRACE} for row in rows()]
    (tmp_path / "o.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    store = f"{tmp_path}/s.db"
    runs = [
        tv.evaluate(
            SUITE,
            outputs=outputs,
            metrics=["cosine", "jaccard", "tool_success"],
            store=store,
            workers=workers,
        )
        for outputs in (source, str(tmp_path / "o.jsonl"))
    ]
    first, second = (run.evaluations() for run in runs)
    assert list(first) == list(second)
