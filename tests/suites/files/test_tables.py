import csv
import sys
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trivium.errors import MissingExtra
from trivium.suites.case import Case, Expect, ExpectedTool
from trivium.suites.suite import Suite


def loaded(tmp_path, text) -> list[Case]:
    (tmp_path / "c.csv").write_bytes(text.encode("utf-8-sig"))
    return list(Suite.load(tmp_path / "c.csv"))


def test_a_table_made_by_hand(tmp_path):
    text = (
        "id, input,references,tags,complexity,group,metadata,expect\r\n"
        '7,"What, then?\nSay it.",one reference,"a, b",simple,g,"{""year"": 2017}","{""output"": ""x""}"\r\n'
        "\r\n"
        '8,q,"[""r1"", ""r2""]","[""a, b""]",,,,\r\n'
        "9,q,[1] is cited,,,,,\r\n"
    )
    assert loaded(tmp_path, text) == [
        Case(id="7", input="What, then?\nSay it.", references=("one reference",), tags=("a", "b"), group="g",
             complexity="simple", metadata={"year": 2017}, expect=Expect(output="x")),
        Case(id="8", input="q", references=("r1", "r2"), tags=("a, b",)),
        Case(id="9", input="q", references=("[1] is cited",)),
    ]  # fmt: skip


def test_blank_lines_may_stand_before_the_columns(tmp_path):
    (tmp_path / "c.csv").write_text('\n\r\nid,input\n\n1,"a\nb"\n')
    assert Suite.load(tmp_path / "c.csv").case("1").input == "a\nb"


def test_columns_may_name_what_is_below(tmp_path):
    text = (
        'id,input.json,metadata.year,metadata,expect.output\n1,"{""a"": [1]}",2017,"{""venue"": ""ACL""}",x\n'
    )
    (case,) = loaded(tmp_path, text)
    assert case.input == {"a": [1]}
    assert case.metadata == {"year": "2017", "venue": "ACL"}
    assert case.expect.output == "x"


def test_a_source_may_be_longer_than_a_csv_reader_likes(tmp_path):
    with (tmp_path / "c.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "input", "source"], ["1", "q", "x" * 500_000]])
    assert len(Suite.load(tmp_path / "c.csv").case("1").source) == 500_000


def test_parquet_with_types_of_its_own(tmp_path):
    rows = [
        {"id": 1, "input": "q", "references": ["r"], "tags": ["t"], "expect": {"tools": [{"name": "look"}]},
         "metadata": {"year": 2017, "at": datetime(2026, 1, 2, tzinfo=UTC)}},
        {"id": 2, "input": "", "references": None, "tags": [], "expect": None, "metadata": {"venue": "ACL"}},
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "c.parquet")
    one, two = Suite.load(tmp_path / "c.parquet")
    assert one == Case(id="1", input="q", references=("r",), tags=("t",), metadata=one.metadata,
                       expect=Expect(tools=(ExpectedTool(name="look"),)))  # fmt: skip
    assert one.metadata["year"] == 2017
    assert one.metadata["at"].startswith("2026-01-02T00:00:00")
    assert two == Case(id="2", input="", metadata={"venue": "ACL"})


def test_parquet_maps_are_mappings(tmp_path):
    schema = pa.schema(
        {"id": pa.string(), "input": pa.string(), "metadata": pa.map_(pa.string(), pa.int64())}
    )
    rows = [{"id": "1", "input": "q", "metadata": [("a", 1), ("b", 2)]}]
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "c.parquet")
    assert Suite.load(tmp_path / "c.parquet").case("1").metadata == {"a": 1, "b": 2}


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "c.parquet").write_bytes(b"PAR1")
    with pytest.raises(MissingExtra, match=r'pip install "trivium\[parquet\]"'):
        Suite.load(tmp_path / "c.parquet")
    with pytest.raises(MissingExtra):
        Suite(name="s", cases=[Case(id="1", input="q")]).save(tmp_path / "d.parquet")
