"""Names of other tools mean the same field in every file and object, and a note says what was mapped."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from trivium.errors import SuiteError
from trivium.suites.columns import case_columns, output_columns
from trivium.suites.suite import Suite

ROWS = [
    {"question": "1 + 1?", "answer": "2", "level": "easy"},
    {"question": "2 + 2?", "answer": "4", "level": "hard"},
]


def _csv(path: Path) -> Any:
    file = path / "s.csv"
    pd.DataFrame(ROWS).to_csv(file, index=False)
    return file


def _jsonl(path: Path) -> Any:
    (path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path / "s.jsonl"


def _json(path: Path) -> Any:
    (path / "s.json").write_text(json.dumps(ROWS))
    return path / "s.json"


def _yaml(path: Path) -> Any:
    (path / "s.yaml").write_text(yaml.safe_dump({"cases": ROWS}))
    return path / "s.yaml"


def _parquet(path: Path) -> Any:
    pq.write_table(pa.Table.from_pylist(ROWS), path / "s.parquet")
    return path / "s.parquet"


SOURCES: dict[str, Callable[[Path], Any]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "json": _json,
    "yaml": _yaml,
    "parquet": _parquet,
    "list": lambda _: ROWS,
    "mapping": lambda _: {"cases": ROWS},
    "pandas": lambda _: pd.DataFrame(ROWS),
    "polars": lambda _: pl.DataFrame(ROWS),
    "arrow": lambda _: pa.Table.from_pylist(ROWS),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_common_names_mean_the_same_everywhere(source: Callable[[Path], Any], tmp_path: Path) -> None:
    given = source(tmp_path)
    suite = Suite.load(given)
    first = 1 if isinstance(given, Path) else 0  # rows of files count from 1, objects of Python from 0
    assert [(case.id, case.input, case.references, case.metadata) for case in suite] == [
        (str(first), "1 + 1?", ("2",), {"level": "easy"}),
        (str(first + 1), "2 + 2?", ("4",), {"level": "hard"}),
    ]
    assert suite.notes == ("read question as input, answer as references; kept as metadata: level",)


@pytest.mark.parametrize("name", ["question", "query", "prompt", "Question", "user input"])
@pytest.mark.parametrize(
    "reference", ["expected", "ground_truth", "reference", "ideal", "target", "Expected Output"]
)
def test_many_names_are_known(name: str, reference: str) -> None:
    (case,) = Suite.load([{name: "q", reference: "a"}])
    assert (case.input, case.references) == ("q", ("a",))


def test_ones_own_names_are_left_alone_and_nothing_is_noted() -> None:
    assert case_columns(["id", "input", "references", "metadata.year"]) is None
    assert Suite.load([{"input": "q"}]).notes == ()


def test_an_id_of_another_name_is_used() -> None:
    (case,) = Suite.load([{"question_id": "q7", "question": "q"}])
    assert case.id == "q7"


def test_what_an_agent_answered_is_not_a_reference_beside_one() -> None:
    suite = Suite.load([{"question": "q", "expected": "a", "answer": "b", "prediction": "c"}])
    assert suite.cases[0].references == ("a",)
    assert suite.cases[0].metadata == {}
    assert suite.notes[0].endswith("; not read: prediction, answer")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "q", "prompt": "p"}, '"question" and "prompt" could each be the input'),
        ({"input": "q", "target": "a", "ideal": "b"}, '"target" and "ideal" could each be the references'),
        ({"input": "q", "output": "a"}, '"output" could be the reference or what the agent answered'),
        ({"question": "q", "refrences": "a"}, 'unknown column "refrences". Did you mean "references"'),
        ({"question": "q", "anwser": "a"}, 'unknown column "anwser". Did you mean "answer"'),
    ],
)
def test_what_could_be_two_things_is_asked(row: dict[str, str], message: str) -> None:
    with pytest.raises(SuiteError, match=message):
        Suite.load([row])


def test_a_wrong_line_of_mapped_json_lines_is_named(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text('{"question": "a"}\n\n{"question": }\n')
    with pytest.raises(SuiteError, match=r"line 3, column \d+: broken JSON"):
        Suite.load(file)
    file.write_text('{"question": "a"}\n[1]\n')
    with pytest.raises(SuiteError, match="line 2: found a list of 1, expected a case"):
        Suite.load(file)


def _fields(names: Iterable[str]) -> dict[str, str]:
    columns = output_columns(list(names))
    assert columns is not None
    return columns.renamed


def test_an_answer_is_the_output_in_a_file_of_outputs() -> None:
    assert _fields(["id", "answer"]) == {"id": "case", "answer": "output"}
    assert _fields(["id", "answer", "response"]) == {"id": "case", "response": "output"}


CHAT = [
    {"role": "user", "content": "Where is it?"},
    {"role": "assistant", "content": "Which?"},
    {"role": "user", "content": "42"},
]
ANSWER = {"role": "assistant", "content": "Tomorrow."}


def test_a_recorded_chat_is_a_case_whose_last_answer_is_the_reference(tmp_path: Path) -> None:
    file = tmp_path / "chats.jsonl"
    file.write_text(json.dumps({"messages": [*CHAT, ANSWER]}) + "\n")
    for source in (file, [{"messages": [*CHAT, ANSWER]}]):
        (case,) = Suite.load(source)
        assert (case.input, case.references) == (CHAT, ("Tomorrow.",))


@pytest.mark.parametrize(
    ("row", "references"),
    [
        ({"messages": CHAT}, ()),
        ({"messages": [*CHAT, {"role": "assistant", "tool_calls": [{}], "content": "x"}]}, ()),
        ({"messages": [*CHAT, {"role": "assistant", "content": None}]}, ()),
        ({"messages": [ANSWER]}, ()),
        ({"messages": "no list"}, ()),
        ({"messages": [*CHAT, ANSWER], "ideal": "Soon."}, ("Soon.",)),
    ],
)
def test_what_was_said_last_is_no_reference_unless_it_is_an_answer(
    row: dict[str, Any], references: tuple[str, ...]
) -> None:
    (case,) = Suite.load([row])
    assert case.references == references
    assert case.input == (CHAT if "ideal" in row else row["messages"])


def test_a_data_set_of_deepeval_has_expected_tools_and_a_source(tmp_path: Path) -> None:
    further = {
        "name": None,
        "comments": "seen",
        "source_file": None,
        "expectations": None,
        "tools_called": None,
    }
    golden = {
        "input": "1 + 1?",
        "actual_output": "2",
        "expected_output": "two",
        "retrieval_context": ["sums"],
        "context": ["One and one", "are two."],
        "expected_tools": [{"name": "add", "type": "FUNCTION", "inputParameters": {"a": 1}}, {"name": "say"}],
        **further,
    }
    (tmp_path / "d.json").write_text(
        json.dumps([golden, golden | {"expected_tools": "add", "context": None}])
    )
    first, second = Suite.load(tmp_path / "d.json")
    assert (first.references, first.source) == (("two",), "One and one\n\nare two.")
    assert [(tool.name, tool.arguments) for tool in first.expect.tools or ()] == [
        ("add", {"a": 1}),
        ("say", None),
    ]
    assert first.metadata == {"retrieval_context": ["sums"], "comments": "seen"}
    assert (second.source, second.expect.tools) == (None, None)
    assert second.metadata["expected_tools"] == "add"
