"""Tests that data frames have the rows and types of an export, and name a missing library."""

import io
import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trivium as tv
from trivium.errors import InputError, MissingExtra
from trivium.store.export.tables import SCORE_COLUMNS, score_rows, write_parquet

CASES = [{"id": name, "input": name, "references": [name.upper()]} for name in "abc"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tv.Run:
    suite = tv.Suite(name="letters", cases=CASES).with_settings(
        metrics=["jaccard", "success"], success={"metric": "jaccard", "at_least": 0.5}, repeats=2
    )
    store = tmp_path_factory.mktemp("frames") / "store.db"
    return tv.evaluate(suite, agent={"a": "A", "b": "x"}.get, store=str(store))


def test_a_table_is_what_parquet_holds(run: tv.Run) -> None:
    file = io.BytesIO()
    write_parquet(score_rows(run.store, run.record), SCORE_COLUMNS, file)

    assert run.to_arrow().equals(pq.read_table(file))


@pytest.mark.parametrize("what", ["scores", "attempts", "summary", "judgements"])
def test_polars_and_pandas_hold_the_same_rows(run: tv.Run, what: str) -> None:
    table = run.to_arrow(what)

    assert run.to_polars(what).to_dicts() == table.to_pylist()
    frame = run.to_pandas(what)
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    assert rows == table.to_pylist()


def test_columns_have_their_types(run: tv.Run) -> None:
    scores = run.to_polars()
    assert (scores.schema["repeat"], scores.schema["value"]) == (pl.Int64, pl.Float64)
    frame = run.to_pandas()
    assert (frame["repeat"].dtype, frame["value"].dtype) == (pd.Int64Dtype(), "float64")

    jaccard = scores.filter(pl.col("metric") == "jaccard")
    # a is right, b is wrong, c never answers: 1, 0 and nothing, twice
    assert jaccard["value"].to_list() == [1.0, 1.0, 0.0, 0.0, None, None]
    assert frame[frame.metric == "jaccard"].groupby("case").value.mean()["a"] == 1.0


def test_a_run_of_many_rows_comes_whole(tmp_path: Path) -> None:
    cases = [{"id": str(i), "input": "x", "references": ["x"]} for i in range(1500)]
    suite = tv.Suite(name="many", cases=cases).with_settings(metrics=["jaccard"])
    run = tv.evaluate(suite, agent=lambda text: text, store=str(tmp_path / "store.db"))

    assert run.to_arrow().num_rows == 3000  # a score and a composite each, more than one batch


def test_items_come_with_labels(run: tv.Run, tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"case": "a", "repeat": 0, "dimension": "jaccard", "value": 1, "by": "ann"}\n')

    assert run.to_arrow("labels", labels=labels).column("case").to_pylist() == ["a"]
    with pytest.raises(InputError, match="needs people's labels"):
        run.to_arrow("items")


def test_an_unknown_kind_of_rows_is_reported(run: tv.Run) -> None:
    with pytest.raises(InputError, match='a run has no "score": .*Did you mean "scores"?'):
        run.to_arrow("score")


@pytest.mark.parametrize(
    ("library", "method", "extra"),
    [
        ("pyarrow", "to_arrow", "parquet"),
        ("polars", "to_polars", "polars"),
        ("pandas", "to_pandas", "pandas"),
    ],
)
def test_a_library_that_is_not_there_is_named(
    run: tv.Run, monkeypatch: pytest.MonkeyPatch, library: str, method: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(MissingExtra, match=rf'pip install "trivium\[{extra}\]"$'):
        getattr(run, method)()


def test_an_empty_run_is_an_empty_table_with_its_columns(tmp_path: Path, run: tv.Run) -> None:
    table = run.to_arrow("judgements")

    assert table.num_rows == 0
    assert isinstance(table, pa.Table)
    assert "dimension" in table.column_names
