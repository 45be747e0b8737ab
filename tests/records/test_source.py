"""Sources of records: all in order, any of them by itself, and each with its place."""

import csv
import io
import os
import pickle
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.agents.recorded import open_recorded
from trivium.errors import ItemsError, OutputsError, Problem, SuiteError
from trivium.records import lines, source
from trivium.records.lines import RecordFile, runs
from trivium.records.source import FILES, Listed, files_of, open_records
from trivium.suites.suite import Suite

LINES = st.lists(st.sampled_from(['{"a": 1}', '{"b": "é"}', "", "  ", "[1]", "broken"]), max_size=30)
CELLS = st.lists(st.lists(st.text('a \n,"é', max_size=4), min_size=2, max_size=2), max_size=15)


def opened(path: Path) -> Any:
    return open_records(path, error=OutputsError)


@given(LINES, st.booleans(), st.sampled_from(["\n", "\r\n"]), st.randoms(use_true_random=False))
def test_every_line_is_found_again_with_its_number(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], mark: bool, end: str, rng: Any
) -> None:
    path = tmp_path_factory.mktemp("lines") / "x.jsonl"
    path.write_bytes((b"\xef\xbb\xbf" if mark else b"") + "".join(each + end for each in texts).encode())
    expected = [(number, each) for number, each in enumerate(texts, 1) if each.strip()]
    records = opened(path)
    found = [(number, line.decode().rstrip("\r\n")) for number, line in records.scan(keep=True)]
    assert found == expected
    assert len(records) == len(expected)
    assert [index for part in records.parts() for index in part] == list(range(len(expected)))
    some = sorted(rng.sample(range(len(expected)), rng.randint(0, len(expected))))
    again = pickle.loads(pickle.dumps(records))
    assert [number for number, _ in again.rows(some)] == [expected[index][0] for index in some]


@given(CELLS, st.randoms(use_true_random=False))
def test_rows_of_csv_over_several_lines_are_found_again(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], rng: Any
) -> None:
    path = tmp_path_factory.mktemp("rows") / "x.csv"
    expected, number = [], 2
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write("one,two\n")
        for row in rows:
            text = io.StringIO(newline="")
            csv.writer(text, lineterminator="\n").writerow(row)
            file.write(text.getvalue())
            if any(row):
                expected.append((number, {k: v for k, v in zip(("one", "two"), row, strict=True) if v}))
            number += text.getvalue().count("\n")
    records = opened(path)
    assert list(records.scan(keep=True)) == expected
    some = sorted(rng.sample(range(len(expected)), rng.randint(0, len(expected))))
    assert list(records.rows(some)) == [expected[index] for index in some]


@given(st.sets(st.integers(0, 40)).map(sorted))
def test_indices_that_follow_one_another_are_read_together(indices: list[int]) -> None:
    found = list(runs(indices))
    assert [index for run in found for index in run] == indices
    assert all(later.start > earlier.stop for earlier, later in pairwise(found))


def test_parts_end_at_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "PART_BYTES", 100)
    (tmp_path / "x.jsonl").write_text(("1" * 39 + "\n") * 7 + "1" * 500 + "\n1\n")
    records = opened(tmp_path / "x.jsonl")
    assert len(list(records.scan(keep=True))) == 9
    assert [len(part) for part in records.parts()] == [3, 3, 2, 1]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_a_file_that_has_changed_is_not_read_on(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    pq.write_table(pa.table({"a": ["1"]}), path) if suffix == ".parquet" else path.write_text("a\n1\n")
    records = opened(path)
    list(records.scan(keep=True))
    os.utime(path, ns=(1, 1))
    with pytest.raises(OutputsError, match="has changed since it was checked"):
        list(records.rows(range(1)))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_two_columns_of_one_name_are_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    if suffix == ".csv":
        path.write_text("a,b,a\n1,2,3\n")
    else:
        columns = [pa.array(["1"]), pa.array(["2"]), pa.array(["3"])]
        pq.write_table(pa.Table.from_arrays(columns, names=["a", "b", "a"]), path)
    with pytest.raises(ItemsError, match='duplicate column "a"'):
        open_records(path, error=ItemsError)


def test_what_is_no_json_value_in_memory_is_named() -> None:
    records = Listed([{"a": object()}, {"a": 1}], places="outputs[{}]")
    records.convert(lambda row, _: row)
    (_, wrong), (_, plain) = records.scan()
    assert isinstance(wrong, Problem)
    assert str(wrong).startswith("outputs[0]: is no JSON value: ")
    assert plain == {"a": 1}


def test_folders_and_patterns_name_the_same_files(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.CSV", "sub/c.parquet", "d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    names = [path.relative_to(tmp_path).as_posix() for path in files_of(str(tmp_path)) or ()]
    assert names == ["a.CSV", "b.jsonl", "sub/c.parquet"]
    assert files_of(f"{tmp_path}/*.jsonl") == files_of("*.jsonl", folder=tmp_path) == [tmp_path / "b.jsonl"]
    assert files_of(str(tmp_path / "b.jsonl")) is None
    with pytest.raises(SuiteError, match="no file has such a name"):
        files_of(f"{tmp_path}/*.json")


class Fields(RecordFile):
    """A kind of file that is not there yet: ``name=value`` fields, separated by blanks."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        self.names = sorted({pair.partition("=")[0] for pair in path.read_text().split()})

    def records(self, file: IO[bytes], start: int, number: int) -> Iterator[tuple[int, int, Any]]:
        for offset, line, text in lines.lines_of(file, "", error=SuiteError, start=start, first=number):
            yield offset, line, dict(pair.split("=") for pair in text.decode().split())


def test_a_new_kind_of_file_is_one_class_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FILES, ".fields", Fields)
    (tmp_path / "cases.fields").write_text("id=a input=x\n\nid=b input=z\n")
    (tmp_path / "outputs.fields").write_text("id=b response=two\nid=a response=one\n")
    monkeypatch.setattr("trivium.suites.files.tables.TABLES", source.TABLES | {".fields"})
    suite = Suite.load(tmp_path / "cases.fields")
    assert [case.input for case in suite] == ["x", "z"]
    recorded = open_recorded(str(tmp_path / "outputs.fields"), suite)
    assert [(case.id, attempt.output) for case, attempt in recorded] == [("b", "two"), ("a", "one")]
    (tmp_path / "wrong.fields").write_text("id=b response=two\n\nid=zz response=one\n")
    with pytest.raises(OutputsError, match=r'wrong\.fields: line 3: the suite has no case "zz"'):
        open_recorded(str(tmp_path / "wrong.fields"), suite)
    assert [path.suffix for path in files_of(str(tmp_path)) or ()] == [".fields"] * 3
