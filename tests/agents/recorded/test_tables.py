"""Recorded outputs in tables, and with the names of other tools."""

import csv
import json
import pickle
import random
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trivium as tv
from trivium.agents.recorded import Partitioned, open_recorded
from trivium.agents.recorded.outputs import RecordedOutputs, listed_outputs
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
        recorded = RecordedOutputs([listed_outputs(ROWS if kind == "list" else pd.DataFrame(ROWS))], SUITE)
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
        RecordedOutputs([listed_outputs([{"question": "q", "answer": "x"}])], suite)


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


@pytest.mark.parametrize("word", ["inf", "-inf", "nan", "1e400"])
@pytest.mark.parametrize("column", ["seconds", "reward", "usage.cost_usd"])
def test_a_number_that_is_not_finite_is_a_mistake(word: str, column: str, tmp_path: Path) -> None:
    file = write(tmp_path / "o.csv", f"case,output,{column}\na,two,{word}\n")
    message = rf"o\.csv: line 2: {column}: found the number {float(word)}, expected"
    with pytest.raises(OutputsError, match=message):
        open_recorded(file, SUITE)
    name, _, below = column.partition(".")
    value = {below: float(word)} if below else float(word)
    with pytest.raises(OutputsError, match=rf"outputs\[0\]\.{column}: found the number {float(word)}"):
        RecordedOutputs([listed_outputs([{"case": "a", "output": "two", name: value}])], SUITE)


def test_whole_numbers_may_be_floats_as_data_frames_have_them_beside_missing_ones(tmp_path: Path) -> None:
    table = pd.DataFrame({"case": ["a", "a", "b"], "output": ["x", "y", "z"], "repeat": [0, 1, None]})
    table.to_parquet(tmp_path / "o.parquet")
    table.to_csv(tmp_path / "o.csv", index=False)
    lines = '{"case": "a", "output": "x", "repeat": 0.0}\n{"case": "a", "output": "y", "repeat": 1.0}\n'
    write(tmp_path / "o.jsonl", lines)
    for name, attempts in (("o.parquet", 3), ("o.csv", 3), ("o.jsonl", 2)):
        recorded = open_recorded(str(tmp_path / name), SUITE)
        assert [attempt.repeat for _, attempt in recorded] == [0, 1, 0][:attempts]
    with pytest.raises(OutputsError, match=r"repeat: found the number 0\.5, expected a whole number"):
        RecordedOutputs([listed_outputs([{"case": "a", "output": "x", "repeat": 0.5}])], SUITE)


def test_a_broken_line_of_mapped_json_lines_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "o.jsonl", '{"id": "a", "response": "x"}\n{"id": }\n')
    with pytest.raises(OutputsError, match="line 2, column 8: broken JSON"):
        open_recorded(file, SUITE)


MANY = Suite.load([{"id": str(index), "input": f"{index}?"} for index in range(1000)])


def table(path: Path, *, end: str = "\n") -> str:
    trace = json.dumps({"spans": [{"id": "1", "kind": "tool", "name": "search"}]}, indent=1)
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        lines = csv.writer(file, lineterminator=end)
        lines.writerow(["case", "output", "trace", "seconds"])
        for index in range(1000):
            lines.writerow([index, f"of {index},\nor é" * (index % 9), trace, index / 8])
            if index % 50 == 0:
                lines.writerow([])
    return str(path)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_part_of_a_csv_file_can_be_read_in_any_order_by_any_process(end: str, tmp_path: Path) -> None:
    source = table(tmp_path / "o.csv", end=end)
    lines = pd.read_csv(source, keep_default_na=False, dtype={"case": str}).to_dict("records")
    recorded = open_recorded(source, MANY)
    assert isinstance(recorded, Partitioned)
    parts = list(recorded.parts())
    assert len(parts) > 3
    assert [index for part in parts for index in part] == list(range(1000))
    random.Random(3).shuffle(parts)
    again = pickle.loads(pickle.dumps(recorded))
    read = [pair for part in sorted(parts, key=lambda each: each.start) for pair in again.read(part)]
    whole = {part.start: list(recorded.read(part)) for part in parts}
    assert read == [pair for start in sorted(whole) for pair in whole[start]] == list(recorded)
    assert [(case.id, attempt.output or "", attempt.seconds) for case, attempt in read] == [
        (line["case"], line["output"], line["seconds"]) for line in lines
    ]
    assert {attempt.trace.spans[0].name for _, attempt in read if attempt.trace} == {"search"}


def test_scores_of_a_csv_file_are_those_of_lines_with_several_workers(tmp_path: Path) -> None:
    source = table(tmp_path / "o.csv")
    lines = [
        {"case": case.id, "output": attempt.output, "trace": msgspec.to_builtins(attempt.trace)}
        for case, attempt in open_recorded(source, MANY)
    ]
    (tmp_path / "o.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    given: dict[str, Any] = {"metrics": ["tool_success", "completed"], "store": f"{tmp_path}/s.db"}
    runs = [
        tv.evaluate(MANY, outputs=outputs, workers=workers, **given)
        for outputs, workers in ((source, 2), (str(tmp_path / "o.jsonl"), 1))
    ]
    first, second = (
        {each.case: {name: score.value for name, score in each.scores.items()} for each in run.evaluations()}
        for run in runs
    )
    assert len(first) == 1000
    assert first == second


def test_a_csv_file_that_changes_is_refused(tmp_path: Path) -> None:
    recorded = open_recorded(table(tmp_path / "o.csv"), MANY)
    table(tmp_path / "o.csv", end="\r\n")
    with pytest.raises(OutputsError, match="has changed since it was checked"):
        list(recorded)


def test_few_rows_of_a_csv_file_are_held(tmp_path: Path) -> None:
    with (tmp_path / "o.csv").open("w") as file:
        file.write("case,output\n")
        file.writelines(f"{index},{'x' * 30_000}\n" for index in range(1000))
    tracemalloc.start()
    try:
        assert sum(len(attempt.output) for _, attempt in open_recorded(str(file.name), MANY)) == 30_000_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 25_000_000, "three times the bytes of a part"


@pytest.mark.parametrize("end", ["csv", "jsonl", "json"])
def test_a_data_set_of_ragas_has_contexts_in_every_file(end: str, tmp_path: Path) -> None:
    rows = [
        {
            "user_input": "1 + 1?",
            "retrieved_contexts": ['It\'s "2".', "b"],
            "response": "2",
            "reference": "2",
        },
        {"user_input": "2 + 2?", "retrieved_contexts": [], "response": "4", "reference": "4"},
    ]
    file = tmp_path / f"r.{end}"
    if end == "csv":  # as Ragas writes it: lists as Python shows them
        with file.open("w", newline="") as opened:
            writer = csv.DictWriter(opened, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        lines = [json.dumps(row) for row in rows]
        file.write_text("\n".join(lines) if end == "jsonl" else f"[{','.join(lines)}]")
    suite = Suite.load(file)
    assert [(case.input, case.references) for case in suite] == [("1 + 1?", ("2",)), ("2 + 2?", ("4",))]
    assert [(output, about["contexts"]) for _, output, about in outputs(open_recorded(str(file), suite))] == [
        ("2", ['It\'s "2".', "b"]),
        ("4", []),
    ]


@pytest.mark.parametrize("cell", ["[1, 2", "[open('x')]", "[1, 2]x", "[" * 5_000, "['a', b'c']"])
def test_a_cell_that_is_no_list_of_contexts_is_a_mistake(cell: str, tmp_path: Path) -> None:
    file = tmp_path / "o.csv"
    pd.DataFrame({"case": ["a"], "output": ["x"], "contexts": [cell]}).to_csv(file, index=False)
    with pytest.raises(OutputsError, match="line 2: contexts: "):
        open_recorded(str(file), SUITE)
