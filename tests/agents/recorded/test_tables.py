"""Recorded outputs in tables, and with the names of other tools."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trivium.agents.recorded import open_recorded
from trivium.agents.recorded.in_memory import OutputsInMemory
from trivium.errors import OutputsError
from trivium.suites.suite import Suite

SUITE = Suite.load([{"id": "a", "input": "1 + 1?"}, {"id": "b", "input": "2 + 2?"}])

ROWS = [
    {"question": "2 + 2?", "expected": "4", "prediction": "five", "model": "m"},
    {"question": "1 + 1?", "expected": "2", "prediction": "two", "model": "m"},
]


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def outputs(recorded: Any) -> list[tuple[str, Any, dict[str, Any]]]:
    return [(case.id, attempt.output, attempt.metadata) for case, attempt in recorded]


def test_a_csv_file_has_the_columns_of_a_line(tmp_path: Path) -> None:
    file = write(
        tmp_path / "o.csv",
        "case,repeat,output,output.json,seconds,reward,error,usage.input_tokens,usage.cost_usd,metadata.model\n"
        "a,0,two,,1.5,1,,7,0.25,m\n"
        'a,1,,"[2]",,,,,,\n'
        "b,,,,,,timeout,,,\n",
    )
    first, second, third = [attempt for _, attempt in open_recorded(file, SUITE)]
    assert (first.output, first.seconds, first.reward, first.metadata) == ("two", 1.5, 1, {"model": "m"})
    assert first.usage is not None
    assert (first.usage.input_tokens, first.usage.cost_usd) == (7, 0.25)
    assert (second.repeat, second.output) == (1, [2])
    assert third.error == "timeout"


def test_a_trace_in_a_cell_or_in_a_file_beside_the_table_is_read(tmp_path: Path) -> None:
    trace = json.dumps({"spans": [{"id": "1", "kind": "agent", "name": "x"}]})
    (tmp_path / "t.json").write_text(trace)
    table = pd.DataFrame({"case": ["a", "b"], "trace": [trace, '{"file": "t.json"}']})
    table.to_csv(tmp_path / "o.csv", index=False)
    for _, attempt in open_recorded(str(tmp_path / "o.csv"), SUITE):
        assert attempt.trace is not None
        assert attempt.trace.spans[0].name == "x"


@pytest.mark.parametrize("kind", ["csv", "parquet", "json", "jsonl", "list", "frame"])
def test_outputs_of_another_tool_find_their_cases_by_the_input(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"o.{kind}"
    recorded: Any
    match kind:
        case "csv":
            pd.DataFrame(ROWS).to_csv(path, index=False)
        case "parquet":
            pq.write_table(pa.Table.from_pylist(ROWS), path)
        case "json":
            path.write_text(json.dumps(ROWS))
        case "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    if kind in {"list", "frame"}:
        recorded = OutputsInMemory(ROWS if kind == "list" else pd.DataFrame(ROWS), SUITE)
    else:
        recorded = open_recorded(str(path), SUITE)
    assert outputs(recorded) == [("b", "five", {"model": "m"}), ("a", "two", {"model": "m"})]
    (note,) = recorded.notes
    assert note.startswith("outputs: read prediction as output; kept as metadata: model; not read: ")
    assert note.endswith("question, expected; cases found by their question")


def test_one_table_may_hold_cases_and_outputs(tmp_path: Path) -> None:
    pd.DataFrame(ROWS).to_csv(tmp_path / "both.csv", index=False)
    both = str(tmp_path / "both.csv")
    suite = Suite.load(both)
    assert [(case.references[0], attempt.output) for case, attempt in open_recorded(both, suite)] == [
        ("4", "five"),
        ("2", "two"),
    ]


def test_lines_of_json_are_read_from_a_json_file_too(tmp_path: Path) -> None:
    file = write(tmp_path / "o.json", '{"case": "a", "output": "2"}\n{"case": "b", "output": "4"}\n')
    assert [attempt.output for _, attempt in open_recorded(file, SUITE)] == ["2", "4"]


def test_an_input_that_two_cases_have_names_no_case() -> None:
    suite = Suite.load([{"input": "q"}, {"input": "q"}])
    with pytest.raises(
        OutputsError, match=r"outputs\[0\]: 2 cases have this input \(0, 1\): add a column case"
    ):
        OutputsInMemory([{"question": "q", "answer": "x"}], suite)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("case,output,case\na,b,c\n", 'duplicate column "case"'),
        ('case,usage\na,"{"\n', "line 2: usage: broken JSON"),
        ("case,output,repeat\na,b,x\n", 'line 2: repeat: found the text "x", expected a whole number'),
        ("case,output\na,b\na,c\n", 'line 3: duplicate of line 2: case "a", repeat 0'),
        ("case,output\n", "holds no output"),
        ("", "holds no output"),
    ],
)
def test_mistakes_are_named_by_their_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(OutputsError, match=message):
        open_recorded(write(tmp_path / "o.csv", text), SUITE)


def test_a_broken_line_of_mapped_json_lines_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "o.jsonl", '{"id": "a", "response": "x"}\n{"id": }\n')
    with pytest.raises(OutputsError, match="line 2: broken JSON"):
        open_recorded(file, SUITE)
