"""Outputs in a folder, or named by a pattern."""

import errno
import json
import os
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trivium as tv
from trivium.agents.recorded import Partitioned, open_recorded
from trivium.cli.main import run_command
from trivium.errors import OutputsError, SuiteError
from trivium.suites.suite import Suite


@pytest.fixture
def suite():
    return Suite(
        name="s", cases=[{"id": str(index), "input": "q", "references": ["yes"]} for index in range(9)]
    )


@pytest.fixture
def logs(tmp_path):
    """Nine outputs in three files, one of them in a folder below."""
    folder = tmp_path / "logs"
    (folder / "deep").mkdir(parents=True)
    for number, name in enumerate(("a.jsonl", "b.jsonl", "deep/c.jsonl")):
        lines = [{"case": str(3 * number + index), "output": f"yes {index}"} for index in range(3)]
        (folder / name).write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    return folder


def cases(recorded):
    return [attempt.case for _, attempt in recorded]


def problems(source, suite):
    with pytest.raises(OutputsError) as caught:
        open_recorded(str(source), suite)
    return str(caught.value)


@pytest.mark.parametrize("name", ["", "**/*.jsonl"])
def test_a_folder_or_a_pattern_is_read_file_after_file(suite, logs, name):
    recorded = open_recorded(str(logs / name), suite)
    assert cases(recorded) == cases(recorded) == [str(index) for index in range(9)]
    assert len(recorded) == 9


@pytest.mark.parametrize("name", ["", "*.jsonl"])
def test_a_link_to_a_file_that_is_lost_is_told(suite, logs, name):
    (logs / "a0.jsonl").symlink_to("/nowhere/a0.jsonl")
    (logs / ".#a.jsonl").symlink_to("somebody@somewhere.1")  # an editor's lock
    what = f"{logs}/a0.jsonl: is a link to /nowhere/a0.jsonl, which is not there"
    assert problems(logs / name, suite) == what
    rest = open_recorded(str(logs / name), suite, skip_invalid=True)
    assert len(rest) == (6 if name else 9)
    assert rest.notes == (f"1 file of outputs is left out as invalid: {what}",)


def test_a_folder_below_that_cannot_be_read_is_told(suite, logs, monkeypatch):
    def refused(path, scandir=os.scandir):
        if str(path).endswith("deep"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    assert problems(logs, suite).startswith(f"{logs}/deep: cannot be read: Permission denied")
    assert len(open_recorded(f"{logs}/*.jsonl", suite)) == 6
    with pytest.raises(SuiteError, match="deep: cannot be read: Permission denied"):
        Suite.load(logs)


def test_a_pattern_may_leave_files_out(suite, logs):
    assert cases(open_recorded(f"{logs}/[b-z]*.jsonl", suite)) == ["3", "4", "5"]
    assert problems(f"{logs}/*.csv", suite) == f"{logs}/*.csv: no file has such a name"


@pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="the open files of a process are found in /proc"
)
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_what_many_files_keep_of_many_outputs_is_in_one_file(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("trivium.number_buffer.BLOCK", 16)
    for number in range(40):
        cases, outputs = range(100 * number, 100 * number + 100), tmp_path / "logs" / f"{number:02}.{kind}"
        for path in (outputs, tmp_path / "cases" / f"{number:02}.jsonl"):
            path.parent.mkdir(exist_ok=True)
        lines = [json.dumps({"id": str(case), "input": "q", "references": ["x"]}) for case in cases]
        (tmp_path / "cases" / f"{number:02}.jsonl").write_text("\n".join(lines))
        lines = [json.dumps({"case": str(case), "output": "x"}) for case in cases]
        table = "case,output\n" + "".join(f"{case},x\n" for case in cases)
        outputs.write_text("\n".join(lines) if kind == "jsonl" else table)
    before = len(list(Path("/proc/self/fd").iterdir()))
    suite = Suite.load(str(tmp_path / "cases"))
    recorded = open_recorded(str(tmp_path / "logs"), suite)
    again = pickle.loads(pickle.dumps(recorded))
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 8
    assert (
        [attempt.case for _, attempt in again]
        == [attempt.case for _, attempt in recorded]
        == [str(case) for case in range(4_000)]
    )


def test_each_part_is_read_by_itself(suite, logs):
    recorded = open_recorded(str(logs), suite)
    assert isinstance(recorded, Partitioned)
    assert list(recorded.parts()) == [range(3), range(3, 6), range(6, 9)]
    again = pickle.loads(pickle.dumps(recorded))
    assert [cases(again.read(part)) for part in again.parts()] == [list("012"), list("345"), list("678")]
    assert cases(again.read(range(4, 5))) == ["4"]


def test_the_scores_are_those_of_one_file(suite, logs, tmp_path):
    whole = tmp_path / "whole.jsonl"
    whole.write_text("".join(file.read_text() for file in sorted(logs.rglob("*.jsonl"))))
    runs = [
        tv.evaluate(
            suite, outputs=str(source), metrics=["jaccard"], store=f"{tmp_path}/a.db", workers=workers
        )
        for source, workers in ((whole, 1), (logs, 1), (logs, 2))
    ]
    found = [[each.scores["jaccard"].value for each in run.evaluations()] for run in runs]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 9


def test_mistakes_of_all_files_are_told_together(suite, logs):
    with (logs / "a.jsonl").open("a") as file:
        file.write('{"case": "0", "ouput": "no"}\n')
    with (logs / "deep/c.jsonl").open("a") as file:
        file.write('{"case": "40", "output": "no"}\n')
    told = problems(logs, suite)
    assert f'{logs}/a.jsonl: line 5: unknown key "ouput"' in told
    assert f'{logs}/deep/c.jsonl: line 5: the suite has no case "40"' in told
    for index in range(30):
        (logs / f"d{index}.jsonl").write_text('{"case": "40", "output": "no"}\n' * 3)
    assert problems(logs, suite).endswith("… and 72 more")


def test_an_attempt_in_two_files_is_named_in_both(suite, logs):
    with (logs / "b.jsonl").open("a") as file:
        file.write('{"case": "1", "output": "again"}\n')
    what = f'{logs}/b.jsonl: line 5: duplicate of {logs}/a.jsonl: line 2: case "1", repeat 0'
    assert problems(logs, suite) == what


def test_tables_are_read_together(suite, tmp_path):
    (tmp_path / "a.csv").write_text("case,output\n0,yes\n1,no\n")
    (tmp_path / "b.csv").write_text("case,output\n2,yes\n")
    assert cases(open_recorded(f"{tmp_path}/*.csv", suite)) == ["0", "1", "2"]
    assert cases(open_recorded(str(tmp_path), suite)) == ["0", "1", "2"]
    (tmp_path / "b.csv").write_text("case,output\n1,yes\n")
    assert f"{tmp_path}/b.csv: line 2: duplicate of {tmp_path}/a.csv: line 3" in problems(tmp_path, suite)


def test_files_of_all_kinds_are_read_together(suite, tmp_path):
    (tmp_path / "a.csv").write_text("case,output\n0,yes\n1,no\n")
    pq.write_table(pa.table({"answer": ["x", "y"], "case": ["2", "3"]}), tmp_path / "b.parquet")
    (tmp_path / "c.jsonl").write_text('{"case": "4", "output": "yes"}\n')
    recorded = open_recorded(str(tmp_path), suite)
    assert cases(recorded) == list("01234")
    assert recorded.notes == ("outputs: read answer as output",)
    assert [case.id for part in recorded.parts() for case, _ in recorded.read(part)] == list("01234")
    (tmp_path / "d.csv").write_text("case,output\n3,yes\n4,no\n")
    assert problems(tmp_path, suite).splitlines() == [
        f'{tmp_path}/d.csv: line 2: duplicate of {tmp_path}/b.parquet: row 2: case "3", repeat 0',
        f'{tmp_path}/d.csv: line 3: duplicate of {tmp_path}/c.jsonl: line 1: case "4", repeat 0',
    ]


def test_a_folder_of_traces_still_holds_traces(suite, tmp_path):
    trace = {
        "trace_id": "t",
        "metadata": {"case": "1"},
        "spans": [{"id": "a", "kind": "agent", "name": "x", "output": "yes"}],
    }
    (tmp_path / "t.jsonl").write_text(json.dumps(trace) + "\n")
    assert cases(open_recorded(str(tmp_path), suite)) == ["1"]


def test_the_command_takes_a_pattern(logs, tmp_path, capsys):
    lines = [json.dumps({"id": str(index), "input": "q", "references": ["yes"]}) for index in range(9)]
    (tmp_path / "cases.jsonl").write_text("\n".join(lines))
    given = [
        "score",
        str(tmp_path / "cases.jsonl"),
        "--outputs",
        f"{logs}/**/*.jsonl",
        "--metrics",
        "jaccard",
    ]
    assert run_command([*given, "--store", str(tmp_path / "a.db")]) == 0
    assert "9 attempts of 9 cases" in capsys.readouterr().out
