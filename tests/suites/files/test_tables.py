import csv
import gzip
import re
import sys
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trivium.errors import MissingExtra, SuiteError
from trivium.runs.evaluate import evaluate
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


ROWS = [
    ["id", " input", "references", "tags", "metadata", "expect.output", "metadata.size"],
    [],
    ["a", "one\r\nline,\rand \u2028 \U0001f600 more\n", '["r", "s"]', "t, u", '{"k": [1.5]}', "x", "7"],
    ["b", "q", "", "", "", "", ""],
    *([f"n{i}", f"question {i}" * 40, f"r{i}", "t", "", "", str(i)] for i in range(900)),
]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_rows_over_several_lines_are_read_as_they_are_written(tmp_path, encoding, end):
    path = tmp_path / "c.csv"
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, lineterminator=end).writerows(ROWS)
    suite = Suite.load(path)
    assert suite.cases[0] == Case(
        id="a",
        input=ROWS[2][1],
        references=("r", "s"),
        tags=("t", "u"),
        expect=Expect(output="x"),
        metadata={"k": [1.5], "size": "7"},
    )
    assert suite.cases[1] == Case(id="b", input="q")
    assert [case.id for case in suite.cases[2:]] == [f"n{i}" for i in range(900)]
    assert suite.digest == Suite(name="c", cases=list(suite)).digest


def test_files_of_other_tools_are_numbered_from_file_to_file(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("question,answer\nq,s\nr,t\n")
    suite = Suite.load(tmp_path)
    assert [(case.id, case.references) for case in suite] == [
        ("1", ("s",)), ("2", ("t",)), ("3", ("s",)), ("4", ("t",)),
    ]  # fmt: skip
    assert "question" in suite.notes[0]


WRITTEN = {
    "a comma": "id,input\na,x\nb,y\n",
    "a semicolon, as Excel in most of Europe": "\ufeffid;input\r\na;x\r\nb;y\r\n",
    "a tab": "id\tinput\na\tx\nb\ty\n",
    "a bar": "id|input\na|x\nb|y\n",
    "a line that states it": "\ufeffsep=;\r\nid;input\r\na;x\r\nb;y\r\n",
    "blank lines before and between": "\n\nid,input\n\na,x\n\nb,y\n\n",
    "empty rows and columns behind": "id,input,,\na,x,,\nb,y,,\n,,,\n,\n",
    "the index of pandas": ",id,input\n0,a,x\n1,b,y\n",
    "quotes around all": '"id";"input"\n"a";"x"\n"b";"y"\n',
}
"""Two cases, as programs write them."""


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("content", WRITTEN.values(), ids=WRITTEN)
def test_tables_are_read_as_programs_write_them(tmp_path, suffix, content):
    path = tmp_path / f"c{suffix}"
    path.write_text(content, encoding="utf-8", newline="")
    suite = Suite.load(path)
    assert [(each.id, each.input) for each in suite.cases] == [("a", "x"), ("b", "y")]
    assert suite.notes == ()


def test_a_comma_within_a_text_separates_nothing_where_semicolons_do(tmp_path):
    (tmp_path / "c.csv").write_text('id;input\na;"1,5; 2,5"\nb;1,5\n')
    assert [each.input for each in Suite.load(tmp_path / "c.csv").cases] == ["1,5; 2,5", "1,5"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no case"),
        (b"id,input\n", "holds no case"),
        (b'id,input\na,"x\ny"\n\na,q\n', 'line 5: duplicate id "a" (first in line 2)'),
        (b'id,input,complexity\na,"x\ny",simple\nb,q,huge\n', 'line 4: complexity: found the text "huge"'),
        (b'id,input\na,"x\ny"\nb,q,r\n', "line 4: has 3 cells, expected 2 as in the first line"),
        (b'id,input\na,q\nb,"x\ny', "line 3: broken CSV: unexpected end of data"),
        (b"id,input,expect\na,q,{\n", "line 2: expect: broken JSON"),
        (b"id;input\na;q;r\n", "line 2: has 3 cells, expected 2 as in the first line"),
        (b"sep=;\nid;input\na\n", "line 3: has 1 cells, expected 2 as in the first line"),
        (b"id,inputs,input\na,q,r\n", 'unknown column "inputs". Did you mean "input"?'),
        ("id,input\na,q\nb,é\n".encode("latin-1"), "line 3: byte 0xe9 at offset 15 is not valid UTF-8"),
        ("\ufeffid,input\na,".encode() + b"\xff", "line 2: byte 0xff at offset 14 is not valid UTF-8"),
        ("id,input\na,q\n".encode("utf-16"), "is UTF-16, expected UTF-8"),
        (b"PK\x03\x04\n", "is a ZIP archive, such as an Excel workbook"),
        (gzip.compress(b"id,input\n", mtime=0), "is compressed (gzip), expected text: unpack it (gunzip)"),
    ],
)
def test_mistakes_are_told_with_their_lines(tmp_path, content, said):
    (tmp_path / "c.csv").write_bytes(content)
    with pytest.raises(SuiteError, match=re.escape(f"c.csv: {said}")):
        Suite.load(tmp_path / "c.csv")


def test_a_list_in_a_cell_is_several_references_and_in_expect_output_one_answer(tmp_path):
    path = tmp_path / "cases.csv"
    path.write_text(
        "id,input,references,expect.output\n"
        '1,x,"[""Paris"", ""Lutetia""]",\n'
        '2,x,"Paris, Lutetia",\n'
        '3,x,,"[1, 2.50]"\n'
    )
    suite = Suite.load(path)
    several, one, _ = suite
    assert several.references == ("Paris", "Lutetia")
    assert one.references == ("Paris, Lutetia",)
    said = {"1": "Lutetia", "2": "Lutetia", "3": "[1, 2.5]"}
    given = [{"case": case, "output": output} for case, output in said.items()]
    run = evaluate(suite, outputs=given, metrics=["success"], store=tmp_path / "store.db")
    assert {each.case: each.scores["success"].value for each in run.evaluations()} == {"1": 1, "2": 0, "3": 1}
