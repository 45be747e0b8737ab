"""A suite can be made of Python objects: lists of cases, mappings, data frames."""

import inspect
from decimal import Decimal

import msgspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from trivium.errors import SuiteError
from trivium.suites.case import Case
from trivium.suites.settings import Limits, Settings
from trivium.suites.suite import Suite

ROWS = [{"id": "a", "input": "1 + 1?", "references": ["2"]}, {"id": "b", "input": "2 + 2?"}]


def test_cases_and_mappings_of_a_list_are_cases():
    suite = Suite.load([Case(id="a", input="1 + 1?", references=("2",)), ROWS[1]], name="sums", seed=7)
    assert (suite.name, suite.settings.seed) == ("sums", 7)
    assert suite.cases == Suite(name="s", cases=ROWS).cases


def test_cases_in_memory_without_an_id_are_numbered():
    assert [case.id for case in Suite.load({"input": str(n)} for n in range(3))] == ["0", "1", "2"]


def test_a_mapping_holds_the_keys_of_a_suite_file(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("repeats: 2\nlimits: {retries: 1}\n")
    keys = {"name": "sums", "seed": 1, "repeats": 5, "limits": {"seconds": 9}, "cases": ROWS}
    suite = Suite.load(keys, config=config, seed=3)
    assert suite == Suite(
        name="sums", cases=ROWS, settings=Settings(seed=3, repeats=2, limits=Limits(seconds=9, retries=1))
    )


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_frame_holds_one_case_a_row(table):
    columns = {"id": ["a", "b"], "input": ["1 + 1?", "2 + 2?"], "references": [["2"], None]}
    assert Suite.load(table(columns), name="s") == Suite(name="s", cases=ROWS)
    assert Suite.load({"name": "s", "cases": table(columns)}) == Suite(name="s", cases=ROWS)


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, pa.table])
def test_the_usual_columns_of_a_frame_are_understood_and_the_others_are_metadata(table):
    suite = Suite.load(table({"question": ["1 + 1?", "?"], "answer": ["2", None], "year": [2017, None]}))
    assert [case.references for case in suite] == [("2",), ()]
    assert [case.metadata for case in suite] == [{"year": 2017}, {}]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            3,
            "suite: found the number 3, expected a suite, a file, a list of cases, a mapping or a data frame",
        ),
        (None, "suite: found nothing"),
        (b"suite.yaml", "suite: found a bytes"),
        (Settings, "suite: found a"),
        ([], "suite: holds no case"),
        ([1], r"suite: cases\[0\]: found the number 1, expected a mapping with keys id, input"),
        ([{"inptu": "x"}], r'suite: cases\[0\]: unknown key "inptu". Did you mean "input"\?'),
        (pd.DataFrame({"a": [1]}), "suite: cases: no column has a usual name of the input"),
        (pa.array([1, 2]), r"suite: cases\[0\]: found the number 1"),
        (Suite(name="s", cases=ROWS), 'suite "s": is a suite already: with_settings'),
    ],
)
def test_anything_else_is_one_plain_message(source, message):
    with pytest.raises(SuiteError, match=message):
        Suite.load(source)


def test_load_spells_out_every_setting():
    keywords = inspect.signature(Suite.load).parameters.keys()
    assert keywords - set(Settings.__struct_fields__) == {"source", "name", "description", "config"}
    assert set(Settings.__struct_fields__) <= keywords


def test_every_setting_reaches_the_suite(tmp_path):
    other = Settings(
        metrics=("jaccard",), references="mean", group="id", repeats=3, reduce="best", failed_attempts="skip",
        encoder="e", similarity={"cosine": 1.0}, success={"exact": True}, passed={"metric": "jaccard"},
        tools={"match": "ordered"}, messages={"productive": ("x",)}, judge={"samples": 3},
        composite={"missing": "zero"}, limits={"retries": 1}, gates={"jaccard": {"at_least": 0.5}},
        decide={"policy": "proof"}, retrieval={"k": 3}, monitor={"sample_rate": 0.5}, margin=0.5, level=0.9,
        resamples=10, seed=1, until_decided=True, agent="agent.py:answer", world="shop:Shop",
        user={"model": ("a", "b")},
    )  # fmt: skip
    path = tmp_path / "cases.json"
    path.write_bytes(msgspec.json.encode(ROWS))
    for source in (path, str(path), ROWS):
        loaded = Suite.load(source, **{name: getattr(other, name) for name in Settings.__struct_fields__})
        assert loaded.settings == Suite(name="s", cases=ROWS, settings=other).settings
        changed = msgspec.structs.asdict(loaded.settings)
        assert all(changed[name] != value for name, value in msgspec.structs.asdict(Settings()).items())


def test_none_takes_back_what_a_file_says():
    keys = {"cases": ROWS, "metrics": ["jaccard"], "encoder": "e", "judge": {"samples": 3}}
    settings = Suite.load(keys, metrics=None, encoder=None, judge=None).settings
    assert (settings.metrics, settings.encoder, settings.judge) == (None, None, None)


def test_a_wrong_keyword_is_a_type_error():
    with pytest.raises(TypeError, match=r"Suite.load\(\) got an unexpected keyword argument 'repeat'"):
        Suite.load(ROWS, repeat=3)


@pytest.mark.parametrize("case", [{"id": "a", "input": "q"}, {"question": "q", "answer": "a"}])
def test_a_single_case_is_told_apart_from_a_suite(case):
    with pytest.raises(SuiteError, match="is one case, not a suite: put it in a list"):
        Suite.load(case)


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), Decimal("nan"), pd.NA, pd.NaT])
def test_missing_is_missing_in_records_as_in_frames(missing):
    records = [{"question": "Capital of Fiji?", "answer": "Suva"}, {"question": "Any?", "answer": missing}]
    for source in (records, pd.DataFrame(records).astype(object)):
        assert [each.references for each in Suite.load(source).cases] == [("Suva",), ()]


def test_missing_parts_of_a_list_are_no_references():
    [case] = Suite.load([{"question": "?", "answer": ["a", float("nan"), None, "b"]}]).cases
    assert case.references == ("a", "b")


def test_whole_numbers_stay_whole_where_pandas_has_a_gap():
    frame = pd.DataFrame({"question": ["a", "b", "c"], "answer": [4, None, 6], "price": [1.5, None, 2.0]})
    cases = Suite.load(frame).cases
    assert [each.references for each in cases] == [("4",), (), ("6",)]
    assert [each.metadata for each in cases] == [{"price": 1.5}, {}, {"price": 2.0}]
