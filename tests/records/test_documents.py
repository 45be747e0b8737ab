import json
import re
from datetime import date
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import assume, given

from tests.strategies import json_objects
from trivium.errors import OutputsError, SuiteError
from trivium.records.documents import (
    MalformedDocument,
    parse_json,
    parse_toml,
    parse_yaml,
    read_document,
    read_mapping,
)
from trivium.suites.suite import Suite


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("2024-05-20", "2024-05-20"),
        ("12:30", "12:30"),
        ("007", "007"),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        (".nan", ".nan"),
        ("12", 12),
        ("-3", -3),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("True", True),
        ("false", False),
        ("~", None),
        ("", None),
        ("'12'", "12"),
    ],
)
def test_a_yaml_word_is_a_word_unless_it_is_plainly_something_else(text, value):
    (found,) = parse_yaml(f"- {text}")
    assert found == value
    assert type(found) is type(value)


def test_yaml_keys_are_texts():
    assert parse_yaml("2017: a\ntrue: b\nno: c") == {"2017": "a", "true": "b", "no": "c"}


def test_yaml_aliases_and_merges_work():
    text = "one: &a {k: 1}\ntwo: *a\nthree:\n  <<: *a\n  z: 2"
    assert parse_yaml(text) == {"one": {"k": 1}, "two": {"k": 1}, "three": {"k": 1, "z": 2}}


@given(json_objects)
def test_yaml_reads_what_another_writer_wrote(value):
    assume(not re.search(r'"[-+.0-9]+[eE][-+0-9]+"', json.dumps(value)))  # "0E0" is a text in YAML 1.1
    assert parse_yaml(yaml.safe_dump(value)) == value


def test_two_yaml_documents_are_one_too_many():
    with pytest.raises(MalformedDocument, match="expected a single document"):
        parse_yaml("--- 1\n--- 2")


def test_toml_dates_are_texts():
    assert parse_toml('a = 2024-05-20\nb = [07:30:00]\n[c]\nd = "x"') == {
        "a": date(2024, 5, 20).isoformat(), "b": ["07:30:00"], "c": {"d": "x"}
    }  # fmt: skip


def test_json_with_too_many_digits_is_malformed():
    with pytest.raises(MalformedDocument, match="broken JSON"):
        parse_json("1" * 5000)


def test_the_error_is_of_the_kind_asked_for(tmp_path):
    with pytest.raises(OutputsError, match="no such file"):
        read_document(tmp_path / "x.json", error=OutputsError)
    with pytest.raises(OutputsError, match=r'from "\.csv"'):
        read_document(tmp_path / "x.csv", error=OutputsError)


def test_one_file_of_many_names_itself(tmp_path):
    path = tmp_path / "x.json"
    with pytest.raises(SuiteError) as caught:
        read_mapping(path)
    assert str(caught.value).startswith(f"{path}: there is no such file")
    path.write_text("{")
    with pytest.raises(SuiteError) as caught:
        read_mapping(path)
    assert str(caught.value).startswith(f"{path}: line 1, column 2: broken JSON")
    path.write_text("[]")
    with pytest.raises(SuiteError, match="is no JSON object"):
        read_mapping(path)


@pytest.mark.parametrize("blank", ["", "\n", "\r\n\n", "  \n"])
@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{"a": 1', "line 1, column 8"),
        ('{"a": 1,\n "b": [2,\n 3', "line 3, column 3"),
        ("{]", "line 1, column 2"),
    ],
)
def test_a_text_that_is_cut_short_is_broken_where_it_ends(text, where, blank):
    with pytest.raises(MalformedDocument) as caught:
        parse_json(text + blank)
    assert caught.value.problem.where == where


@pytest.mark.parametrize("root", ["{}", "cases:\n{}"])
def test_numbers_among_the_answers_of_cases_keep_the_form_in_which_they_are_written(tmp_path, root):
    cases = "- {id: 1.10, question: a, answer: 4.50}\n- {id: 1.1, question: b, answer: [1e3, 02139, 7]}\n"
    (tmp_path / "c.yaml").write_text(root.format(cases))
    found = Suite.load(tmp_path / "c.yaml").cases
    assert [each.id for each in found] == ["1.10", "1.1"]
    assert [each.references for each in found] == [("4.50",), ("1e3", "02139", "7")]


CASES_OF_OTHER_TOOLS = """[{"id": "1", "question": {"answer": 4.50}, "answer": 4.50},
 {"id": "2", "question": "b", "answer": [1e3, 7, "x", {"a": 1.50}], "price": 2.50}]"""


@pytest.mark.parametrize("kind", ["json", "jsonl", "suite"])
def test_numbers_among_the_answers_of_other_tools_keep_their_form_in_json(tmp_path, kind):
    path = tmp_path / ("c.jsonl" if kind == "jsonl" else "c.json")
    lines = CASES_OF_OTHER_TOOLS[1:-1].replace(",\n", "\n")
    path.write_text(
        {"json": CASES_OF_OTHER_TOOLS, "suite": f'{{"cases": {CASES_OF_OTHER_TOOLS}}}', "jsonl": lines}[kind]
    )
    one, other = Suite.load(path).cases
    assert one.references == ("4.50",)
    assert other.references == ("1e3", "7", "x", '{"a":1.5}')
    assert (one.input, other.metadata) == ({"answer": 4.5}, {"price": 2.5})


def _as_yaml(folder: Path) -> Path:
    (folder / "c.yaml").write_text("- {id: a, input: q, references: [4.50]}\n")
    return folder / "c.yaml"


def _as_csv(folder: Path) -> Path:
    (folder / "c.csv").write_text("id,input,references\na,q,4.50\n")
    return folder / "c.csv"


def _as_json(folder: Path) -> Path:
    (folder / "c.json").write_text('[{"id": "a", "input": "q", "references": [4.50]}]')
    return folder / "c.json"


def _as_jsonl(folder: Path) -> Path:
    (folder / "c.jsonl").write_text('{"id": "a", "input": "q", "references": [4.50]}\n')
    return folder / "c.jsonl"


def _as_parquet(folder: Path) -> Path:
    table = pa.table({"id": ["a"], "input": ["q"], "references": [[4.50]]})
    pq.write_table(table, folder / "c.parquet")
    return folder / "c.parquet"


@pytest.mark.parametrize("door", [_as_yaml, _as_csv])
def test_a_number_among_references_is_a_text_where_its_form_is_known(tmp_path, door):
    assert Suite.load(door(tmp_path)).cases[0].references == ("4.50",)


@pytest.mark.parametrize(
    "door",
    [
        _as_json,
        _as_jsonl,
        _as_parquet,
        lambda _: [{"id": "a", "input": "q", "references": [4.50]}],
        lambda _: [{"id": "a", "input": "q", "references": 4.50}],
        lambda _: pd.DataFrame({"id": ["a"], "input": ["q"], "references": [4.50]}),
        lambda _: pa.table({"id": ["a"], "input": ["q"], "references": [4.50]}),
    ],
)
def test_elsewhere_a_number_among_references_is_refused_with_words_how_to_write_it(tmp_path, door):
    said = r'references\[0\]: found the number 4.5, expected text: write it as a text, "4.5"'
    with pytest.raises(SuiteError, match=said):
        Suite.load(door(tmp_path))
