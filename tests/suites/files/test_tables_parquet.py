"""Parquet files of other writers: every type is read as what it says, or refused with its row."""

import datetime
import decimal
import errno
import pickle
import re
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest

from trivium import storage
from trivium.errors import ItemsError, SuiteError
from trivium.runs.items.files import read_items
from trivium.suites.case import Case, Expect, ExpectedTool
from trivium.suites.files import tables
from trivium.suites.suite import Suite

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TWO = {"id": ["a", "b"], "input": ["q", "r"]}
TWICE = pa.array([[("k", 1), ("k", 2)], []], pa.map_(pa.string(), pa.int64()))


def written(folder: Path, table) -> Path:
    path = folder / "c.parquet"
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), path)
    return path


def of_one(kind, *values):
    """A struct ``{"x": value}`` a row."""
    return pa.StructArray.from_arrays([pa.array(values, kind)], ["x"])


@pytest.mark.parametrize(
    ("metadata", "read"),
    [
        (of_one(pa.int64(), 1, None), [{"x": 1}, {}]),
        (of_one(pa.null(), None, None), [{}, {}]),
        (of_one(pa.float64(), 0.5, float("nan")), [{"x": 0.5}, {}]),
        (of_one(pa.decimal128(5, 2), decimal.Decimal("1.50"), None), [{"x": "1.50"}, {}]),
        (of_one(pa.binary(), "é".encode(), b""), [{"x": "é"}, {"x": ""}]),
        (of_one(pa.date32(), datetime.date(2020, 1, 2), None), [{"x": "2020-01-02"}, {}]),
        (of_one(pa.timestamp("us"), 1, None), [{"x": "1970-01-01T00:00:00.000001"}, {}]),
        (of_one(pa.time64("us"), 1_000_000, None), [{"x": "00:00:01"}, {}]),
        (of_one(pa.list_(pa.string()), ["u", "v"], []), [{"x": ["u", "v"]}, {"x": []}]),
        (pa.array([[("k", 1), ("l", 2)], []], pa.map_(pa.string(), pa.int64())), [{"k": 1, "l": 2}, {}]),
    ],
)  # fmt: skip
def test_every_type_is_what_json_has_for_it(tmp_path, metadata, read):
    suite = Suite.load(written(tmp_path, TWO | {"metadata": metadata}))
    assert [case.metadata for case in suite] == read


def test_dictionary_columns_and_empty_row_groups_are_read_like_others(tmp_path):
    table = pa.table({"id": ["a", "b"], "input": pa.array(["q", "q"]).dictionary_encode()})
    with pq.ParquetWriter(tmp_path / "c.parquet", table.schema) as file:
        for part in (table.slice(0, 0), table, table.slice(0, 0)):
            file.write_table(part)
    assert [(case.id, case.input) for case in Suite.load(tmp_path / "c.parquet")] == [("a", "q"), ("b", "q")]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (TWO | {"id": [float("nan"), 1.0]}, 'row 1: "id" is missing'),
        (TWO | {"id": [True, False]}, "row 1: id: found true, expected a text"),
        (TWO | {"input": [b"q", b"\xff"]}, "row 2: holds a value that cannot be read: 'utf-8' codec can't"),
        (TWO | {"metadata": of_one(pa.float64(), 0.0, float("inf"))}, "row 2: holds infinity, expected a"),
        (TWO | {"metadata": of_one(pa.timestamp("us"), 2**62, 0)}, "rows 1 to 2: hold a value that cannot"),
        (TWO | {"metadata": TWICE}, "rows 1 to 2: hold a value that cannot be read: Converting to Python"),
        (
            TWO | {"metadata": pa.StructArray.from_arrays([pa.array([1, 2])] * 2, ["k", "k"])},
            "rows 1 to 2: hold a value that cannot be read: Converting to Python dictionary is not supported",
        ),
        (pa.Table.from_arrays([pa.array(["a"])] * 2, names=["id", "id"]), 'duplicate column "id"'),
        ({"id": pa.array([], pa.string()), "input": pa.array([], pa.string())}, "holds no case"),
        ({}, "holds no case"),
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused_with_its_row(tmp_path, table, said):
    with pytest.raises(SuiteError, match=re.escape(f"c.parquet: {said}")):
        Suite.load(written(tmp_path, table))


def test_a_few_kilobytes_that_stand_for_far_more_are_not_held(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "LARGEST_TABLE", 20_000_000)
    path = written(tmp_path, {"id": [str(i) for i in range(512)], "input": ["x" * 100_000] * 512})
    assert path.stat().st_size < 100_000
    with pytest.raises(SuiteError, match="more than the 20,000,000 bytes that are held: use .jsonl"):
        Suite.load(path)
    plain = pa.table({"id": ["1"], "input": ["x" * 30_000_000]})
    pq.write_table(plain, path, compression="zstd", use_dictionary=False)
    with pytest.raises(SuiteError, match="more than the 20,000,000 bytes"):
        Suite.load(path)


MANY = {
    "id": [f"n{i}" for i in range(700)],
    "input": [f"question {i} \u2028 \U0001f600" for i in range(700)],
    "references": [["a", f"b{i}"] if i % 2 else None for i in range(700)],
    "metadata.size": [i * 10**12 for i in range(700)],
    "expect": ['{"tools": [{"name": "f", "arguments": {"n": 18446744073709551616}}]}'] * 700,
}


def test_many_rows_are_the_cases_that_were_written(tmp_path):
    suite = Suite.load(written(tmp_path, MANY))
    call = ExpectedTool(name="f", arguments={"n": 18446744073709551616})
    made = [
        Case(
            id=f"n{i}",
            input=MANY["input"][i],
            references=MANY["references"][i] or (),
            metadata={"size": i * 10**12},
            expect=Expect(tools=(call,)),
        )
        for i in range(700)
    ]
    assert list(suite.cases) == list(Suite(name="c", cases=made).cases)
    assert suite.digest == Suite(name="c", cases=made).digest


def test_columns_of_other_tools_and_numbers_from_file_to_file(tmp_path):
    for name in "ab":
        pq.write_table(pa.table({"question": ["q", "r"], "answer": ["s", "t"]}), tmp_path / f"{name}.parquet")
    suite = Suite.load(tmp_path)
    assert [(case.id, case.references) for case in suite] == [
        ("1", ("s",)), ("2", ("t",)), ("3", ("s",)), ("4", ("t",)),
    ]  # fmt: skip
    assert "question" in suite.notes[0]


def test_mistakes_of_a_large_file_are_told_with_their_rows(tmp_path):
    wrong = {"id": [str(i) for i in range(40)], "input": ["q"] * 40, "complexity": ["huge"] * 40}
    with pytest.raises(SuiteError, match=r"row 1: complexity: found .* the last row 20") as told:
        Suite.load(written(tmp_path, wrong))
    assert (len(told.value.problems), told.value.left_out) == (20, 20)
    with pytest.raises(SuiteError, match=r'row 3: duplicate id "a" \(first in row 1\)'):
        Suite.load(written(tmp_path, {"id": ["a", "b", "a"], "input": ["q"] * 3}))
    for name in "ab":
        pq.write_table(pa.table(TWO), tmp_path / f"{name}.parquet")
    (tmp_path / "c.parquet").unlink()
    with pytest.raises(SuiteError, match=r"b.parquet: row 1: duplicate id .* \(first in .*a.parquet: row 1"):
        Suite.load(tmp_path)


def forgotten(path: Path) -> int:
    """Delete the copies of a file, and return their number."""
    keys = [key for key in storage._copies if key[0] == str(path)]
    for key in keys:
        storage._copies.pop(key).unlink()
    return len(keys)


def test_another_machine_makes_a_copy_of_its_own(tmp_path):
    path = written(tmp_path, MANY)
    cases = Suite.load(path).cases
    sent = pickle.dumps(cases)
    assert pickle.loads(sent)[3] == cases[3]  # beside the copy of this process
    assert forgotten(path) == 1
    assert pickle.loads(sent)[600] == cases[600]
    assert forgotten(path) == 1
    written(tmp_path, MANY | {"input": ["q"] * 700})
    with pytest.raises(SuiteError, match="has changed since it was opened"):
        pickle.loads(sent)[600]


def test_a_large_file_may_decompress_to_many_times_its_size(tmp_path, monkeypatch):
    path = written(tmp_path, MANY)
    monkeypatch.setattr(tables, "LARGEST_TABLE", 1)
    assert len(Suite.load(path)) == 700
    assert forgotten(path) == 1
    monkeypatch.setattr(tables, "MOST_COMPRESSED", 1)
    with pytest.raises(SuiteError, match=f"more than the {path.stat().st_size:,} bytes"):
        Suite.load(path)


def test_a_disk_without_room_for_the_copy_is_told(tmp_path, monkeypatch):
    def full(_: object, target: IO[bytes]) -> None:
        copies.append(Path(target.name))
        target.write(b"{")
        raise OSError(errno.ENOSPC, "No space left on device")

    copies: list[Path] = []
    path = written(tmp_path, TWO)
    monkeypatch.setattr(tables.TableLines, "_write", full)
    with pytest.raises(SuiteError, match="cannot be copied to a temporary file: No space left"):
        Suite.load(path)
    assert [copy.exists() for copy in copies] == [False]


@pytest.mark.parametrize("at", range(0, 600, 25))
def test_a_file_with_a_wrong_byte_is_read_or_refused(tmp_path, at):
    path = written(tmp_path, TWO | {"tags": [["t"], []]})
    content = bytearray(path.read_bytes())
    content[at % len(content)] ^= 0x55
    path.write_bytes(content)
    with suppress(SuiteError):
        assert len(Suite.load(path)) == 2


def test_items_are_of_any_type_that_means_a_number(tmp_path):
    kind = pa.map_(pa.string(), pa.float64())
    table = {
        "group": pa.array(["g", "h"]).dictionary_encode(),
        "item": ["i", "i"],
        "gt": pa.array([1, 0], pa.int8()),
        "pred": [1.0, None],
        "signals": pa.array([[("a", 0.5)], []], kind),
    }
    items = read_items(written(tmp_path, table))
    assert list(items.group_names) == ["g", "h"]
    assert list(items.gt) == [1, 0]
    assert list(items.predicted) == [True, False]
    with pytest.raises(ItemsError, match='row 1.*"confidence" is NaN'):
        read_items(written(tmp_path, table | {"confidence": [float("nan"), 0.5]}))
