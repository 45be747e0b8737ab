"""Invalid outputs that are left out, counted and named, so that the others are scored."""

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trivium as tv
from trivium.agents.recorded import Recorded, open_recorded
from trivium.agents.recorded.outputs import RecordedOutputs, listed_outputs
from trivium.cli.main import run_command
from trivium.errors import InputError, OutputsError
from trivium.suites.suite import Suite

SUITE = Suite.load(
    [{"id": str(index), "input": f"{index}?", "references": [f"x {index}"]} for index in range(8)]
)

VALID = [{"case": str(index), "output": f"x {index}"} for index in range(6)]
WRONG = [{"case": "99", "output": "unknown case"}, {"case": "7", "seconds": -1, "output": "x"}]
MIXED: list[dict[str, Any]] = [*VALID[:2], WRONG[0], *VALID[2:4], WRONG[1], VALID[1], *VALID[4:]]
"""Six valid outputs, one of an unknown case, one with a negative time, one given twice."""


def lines(path: Path, rows: list[Any]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n")
    return str(path)


def jsonl(folder: Path, rows: list[Any]) -> str:
    return lines(folder / "o.jsonl", rows)


def other_keys(folder: Path, rows: list[Any]) -> str:
    renamed = [{"id": row["case"], "answer": row["output"], "seconds": row.get("seconds")} for row in rows]
    return lines(folder / "o.jsonl", renamed)


def csv(folder: Path, rows: list[Any]) -> str:
    cells = [f"{row['case']},{row['output']},{row.get('seconds', '')}" for row in rows]
    return lines(folder / "o.csv", ["case,output,seconds", *cells])


def parquet(folder: Path, rows: list[Any]) -> str:
    pq.write_table(pa.Table.from_pylist([{"seconds": None} | row for row in rows]), folder / "o.parquet")
    return str(folder / "o.parquet")


FILES = {"jsonl": jsonl, "other keys": other_keys, "csv": csv, "parquet": parquet}


def cases(recorded: Recorded) -> list[str]:
    return [attempt.case for _, attempt in recorded]


def in_parts(recorded: Any) -> list[str]:
    """Cases by part, as another process reads them."""
    sent = pickle.loads(pickle.dumps(recorded))
    return [attempt.case for part in sent.parts() for _, attempt in sent.read(part)]


@pytest.mark.parametrize("kind", FILES)
def test_valid_outputs_of_a_file_are_read_and_the_others_are_named(tmp_path: Path, kind: str) -> None:
    source = FILES[kind](tmp_path, MIXED)
    recorded = open_recorded(source, SUITE, skip_invalid=True)
    assert cases(recorded) == in_parts(recorded) == [row["case"] for row in VALID]
    (note,) = [note for note in recorded.notes if "left out" in note]  # type: ignore[attr-defined]
    assert note.startswith(f"3 outputs are left out as invalid: {source}: ")
    for what in ('no case "99"', "seconds: found", "duplicate of"):
        assert what in note


@pytest.mark.parametrize("kind", FILES)
def test_without_the_option_a_mistake_refuses_the_file(tmp_path: Path, kind: str) -> None:
    with pytest.raises(OutputsError, match='no case "99"'):
        open_recorded(FILES[kind](tmp_path, MIXED), SUITE)


@pytest.mark.parametrize("kind", FILES)
def test_a_file_without_a_valid_output_is_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(OutputsError, match='no case "99"'):
        open_recorded(FILES[kind](tmp_path, WRONG), SUITE, skip_invalid=True)


def test_a_list_in_memory_is_read_likewise() -> None:
    recorded = RecordedOutputs([listed_outputs(MIXED)], SUITE, skip_invalid=True)
    assert cases(recorded) == in_parts(recorded) == [row["case"] for row in VALID]
    assert "outputs[6]: duplicate of outputs[1]" in recorded.notes[0]


@pytest.mark.parametrize("own_keys", [True, False])
def test_broken_lines_are_left_out(tmp_path: Path, own_keys: bool) -> None:
    key = "output" if own_keys else "answer"
    rows: list[Any] = [{"case": str(index), key: "x"} for index in range(3)]
    source = lines(tmp_path / "o.jsonl", [rows[0], '{"case": "1", ', rows[1], "\ufffe[", rows[2]])
    recorded = open_recorded(source, SUITE, skip_invalid=True)
    assert cases(recorded) == ["0", "1", "2"]
    assert recorded.notes[-1].startswith(f"2 outputs are left out as invalid: {source}: line 2")  # type: ignore[attr-defined]


def test_rows_with_missing_or_further_cells_are_left_out(tmp_path: Path) -> None:
    source = lines(tmp_path / "o.csv", ["case,output", "0,x", "1", '2,"x\ny"', "3,x,y", "4,x"])
    with pytest.raises(OutputsError) as refused:
        open_recorded(source, SUITE)
    wrong = ["line 3: has 1 cells, expected 2", "line 6: has 3 cells, expected 2"]
    assert all(each in str(refused.value) for each in wrong)
    recorded = open_recorded(source, SUITE, skip_invalid=True)
    assert cases(recorded) == in_parts(recorded) == ["0", "2", "4"]
    (note,) = recorded.notes  # type: ignore[attr-defined]
    assert note.startswith(f"2 outputs are left out as invalid: {source}: line 3: has 1 cells")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Six files: one damaged, one cut off, one with a wrong column, one with an output of another."""
    folder = tmp_path / "logs"
    for index in range(6):
        lines(folder / f"{index}.jsonl", [{"case": str(index), "output": "x"}])
    lines(folder / "2.jsonl", [{"case": "2", "output": "x"}, {"case": "1", "output": "again"}])
    table = pa.table({"case": ["6"] * 50, "output": [str(index) * 40 for index in range(50)]})
    pq.write_table(table, folder / "3.parquet")
    whole = (folder / "3.parquet").read_bytes()
    (folder / "3.parquet").write_bytes(whole[:100] + bytes(200) + whole[300:])
    (folder / "4.parquet").write_bytes(whole[:50])
    pq.write_table(pa.table({"case": ["7"], "seconds": ["soon"], "output": ["x"]}), folder / "5.parquet")
    return folder


def test_of_many_files_the_unreadable_ones_are_left_out(logs: Path) -> None:
    recorded = open_recorded(str(logs), SUITE, skip_invalid=True)
    assert cases(recorded) == in_parts(recorded) == ["0", "1", "2", "3", "4", "5"]
    (note,) = recorded.notes  # type: ignore[attr-defined]
    assert note.startswith("1 output and 3 files of outputs are left out as invalid: ")
    assert note.endswith("; and 1 more mistake")
    for number in (3, 4, 5):
        assert f"{logs}/{number}.parquet" in note


@pytest.mark.parametrize("damaged", [b"", b"\n", b'{"case": "0", "outp', b"\x00\xff\n", b"[\n"])
def test_a_folder_holds_outputs_though_its_first_file_is_damaged(logs: Path, damaged: bytes) -> None:
    for path in logs.glob("*.parquet"):
        path.unlink()
    (logs / "0.jsonl").write_bytes(damaged)
    recorded = open_recorded(str(logs), SUITE, skip_invalid=True)
    assert cases(recorded) == ["1", "2", "3", "4", "5"]
    assert f"{logs}/0.jsonl: " in recorded.notes[-1]  # type: ignore[attr-defined]
    with pytest.raises(OutputsError, match=r"0\.jsonl: "):
        open_recorded(str(logs), SUITE)


def test_without_the_option_all_mistakes_of_many_files_are_told(logs: Path) -> None:
    with pytest.raises(OutputsError) as refused:
        open_recorded(str(logs), SUITE)
    assert all(f"{logs}/{number}.parquet: " in str(refused.value) for number in (3, 4, 5))


def test_an_output_in_two_files_is_read_once(logs: Path) -> None:
    for path in logs.glob("*.parquet"):
        path.unlink()
    recorded = open_recorded(str(logs), SUITE, skip_invalid=True)
    assert cases(recorded) == ["0", "1", "2", "3", "4", "5"]
    twice = f'{logs}/2.jsonl: line 2: duplicate of {logs}/1.jsonl: line 1: case "1", repeat 0'
    assert recorded.notes == (f"1 output is left out as invalid: {twice}",)  # type: ignore[attr-defined]


def test_files_that_are_all_unreadable_are_refused(logs: Path) -> None:
    for path in logs.glob("*.jsonl"):
        path.unlink()
    with pytest.raises(OutputsError) as refused:
        open_recorded(str(logs), SUITE, skip_invalid=True)
    assert all(f"{logs}/{number}.parquet: " in str(refused.value) for number in (3, 4, 5))


@pytest.mark.parametrize("workers", [1, 2])
def test_their_attempts_are_missing_and_the_run_says_why(
    tmp_path: Path, workers: int, capfd: pytest.CaptureFixture[str]
) -> None:
    suite = lines(
        tmp_path / "cases.jsonl", [{"id": each.id, "input": "", "references": ["x"]} for each in SUITE]
    )
    source, store = jsonl(tmp_path, MIXED), f"{tmp_path}/a.db"
    command = ["score", suite, "--outputs", source, "--metrics", "jaccard", "--workers", str(workers)]
    assert run_command([*command, "--store", store, "--skip-invalid", "--json"]) == 3
    answer = json.loads(capfd.readouterr().out)
    assert (answer["attempts"], answer["missing"]) == (6, 2)
    assert any(line.startswith("3 outputs are left out as invalid") for line in answer["warnings"])
    assert "2 of 8 attempts are missing" in answer["warnings"]


def test_missing_attempts_leave_a_gate_open_that_they_could_change(tmp_path: Path) -> None:
    def gate(at_least: float) -> Any:
        run = tv.evaluate(
            SUITE,
            outputs=MIXED,
            skip_invalid=True,
            metrics=["jaccard"],
            gates={"jaccard": {"at_least": at_least}},
            store=f"{tmp_path}/a.db",
        )
        return run.summary().gates[0]

    assert gate(0.01).answer == "pass"
    open_ = gate(0.9)
    assert (open_.answer, open_.missing) == ("inconclusive", 2)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"agent": lambda _: "x"}, "give --outputs"),
        ({"outputs": VALID, "until_decided": True}, "exclude each other"),
        ({"outputs": "tau-bench:x.json"}, "is no file of outputs"),
        ({"outputs": "traces:x.json"}, "is no file of outputs"),
    ],
)
def test_the_option_is_refused_where_it_would_mean_nothing_or_mislead(
    tmp_path: Path, options: dict[str, Any], why: str
) -> None:
    suite = SUITE.with_settings(judge={"models": ["openai:m"]}, gates={"factual_accuracy": {"at_least": 0.5}})
    with pytest.raises(InputError, match=why):
        tv.evaluate(suite, skip_invalid=True, store=f"{tmp_path}/a.db", **options)
