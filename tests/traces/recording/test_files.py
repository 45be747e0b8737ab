"""Files of recordings: what is in them, whatever happens to the process that writes them."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

import trivium as tv
from trivium.cli.main import run_command
from trivium.errors import TraceError
from trivium.traces.readers.collection import read_path, read_trace_file
from trivium.traces.recording import config as configuring
from trivium.traces.recording.file_exporter import RotatingFile


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(configuring._Current, "recording", configuring.Recording(folder=tmp_path / "traces"))
    return tmp_path / "traces"


@tv.trace.tool
def add(a, b=2):
    return a + b


@tv.trace.agent
def boss(count):
    tv.trace.message("worker", {"count": count})
    return sum(add(number) for number in range(count))


def read(folder):
    name, traces = read_path(folder)
    assert name == "recorded"
    return traces


def test_each_outermost_span_is_a_trace_that_every_command_reads(folder, capsys):
    boss(3)
    boss(2)
    first, second = read(folder)
    assert [len(first.tool_calls), len(second.tool_calls)] == [3, 2]
    assert [message.receiver for message in first.messages] == ["worker"]
    assert first.trace_id != second.trace_id
    assert first.problems == second.problems == ()
    (file,) = folder.iterdir()
    assert read_trace_file(file) == [first, second]
    assert run_command(["traces", "show", str(folder), "--json"]) == 0
    summary = msgspec.json.decode(capsys.readouterr().out)
    assert (summary["format"], summary["traces"], summary["tools"]) == ("recorded", 2, {"add": 5})


def test_files_are_for_their_owner_alone(folder):
    boss(1)
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_new_file_is_begun_when_one_is_large_and_traces_go_on_in_it(folder):
    tv.trace.configure(folder=folder, rotate_bytes=2000)
    boss(40)
    files = sorted(folder.iterdir())
    assert len(files) > 3
    assert all(file.stat().st_size <= 2000 for file in files)
    (trace,) = read(folder)
    assert len(trace.tool_calls) == 40
    assert {span.parent for span in trace.tool_calls} == {trace.spans[0].id}


def test_threads_write_whole_lines(folder):
    threads = [threading.Thread(target=boss, args=(30,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(trace.tool_calls) for trace in read(folder)] == [30] * 8


def _forked(count):
    boss(count)


def test_forked_processes_write_files_of_their_own(folder):
    boss(1)
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_forked, args=(4,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 3
    boss(2)
    assert len(list(folder.iterdir())) == 4
    assert sorted(len(trace.tool_calls) for trace in read(folder)) == [1, 2, 4, 4, 4]


KILLED = """
import os, signal, trivium as tv

@tv.trace.tool
def step(n):
    return n

with tv.trace.agent("outer"), tv.trace.agent("inner"):
    for n in range(50):
        step(n)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_leaves_all_that_ended_and_what_it_ended_under(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL
    (trace,) = read(tmp_path / "logs" / "traces")
    assert len(trace.tool_calls) == 50
    assert [(span.name, span.ok, span.end) for span in trace.spans[:2]] == [
        ("outer", None, None), ("inner", None, None),
    ]  # fmt: skip
    assert {span.parent for span in trace.tool_calls} == {trace.spans[1].id}


@pytest.mark.parametrize(
    ("variables", "calls", "problem_text"),
    [
        ({}, 1, True),
        ({"TRIVIUM_TRACES": "elsewhere"}, 1, True),
        ({"TRIVIUM_TRACES": "off"}, 0, False),
        ({"TRIVIUM_TRACES_CONTENT": "off"}, 1, False),
    ],
)
def test_the_environment_says_where_and_what(tmp_path, variables, calls, problem_text):
    code = "import trivium as tv\n@tv.trace.tool\ndef t(x): return x\nt('private')"
    environment = os.environ | variables
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, env=environment)
    files = list(tmp_path.rglob("*.jsonl"))
    assert len(files) == calls
    if files:
        where = variables.get("TRIVIUM_TRACES", "logs/traces")
        assert files[0].parent == tmp_path / where
        assert ("private" in files[0].read_text()) is problem_text


def test_a_folder_that_cannot_be_written_is_logged_once_and_does_not_fail_the_agent(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    tv.trace.configure(folder=tmp_path / "file")
    assert boss(4) == 14
    assert len(caplog.records) == 1
    assert "cannot be written" in caplog.text


def test_a_disk_that_is_full_ends_the_file_and_another_is_begun_later(tmp_path, monkeypatch, caplog):
    file = RotatingFile(configuring.Recording(folder=tmp_path), "spans")
    file.write(b"1")
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, line: write(handle, line[:1]))
    file.write(b"22")
    monkeypatch.setattr(os, "write", write)
    file.write(b"3")
    assert "No space left" in caplog.text
    monkeypatch.setattr("trivium.traces.recording.file_exporter.monotonic", lambda: float("inf"))
    file.write(b"4")
    assert [each.read_bytes() for each in sorted(tmp_path.iterdir())] == [b"1\n", b"4\n"]


def cut(file, count):
    """The file without its last bytes, as while a line is being written."""
    file.write_bytes(file.read_bytes()[:-count])


def test_an_incomplete_last_line_is_left_out_and_reported(folder):
    boss(2)
    boss(1)
    (file,) = folder.iterdir()
    number = file.read_bytes().count(b"\n")
    cut(file, 9)
    for traces in (read(folder), read_trace_file(file)):
        assert [len(trace.tool_calls) for trace in traces] == [2, 1]
        # Of the last line, that of the agent's end, only what was written as it was open is known.
        assert [trace.spans[0].end is None for trace in traces] == [False, True]
        assert traces[0].problems == ()
        (problem_text,) = (problem.what for problem in traces[1].problems if problem.kind == "truncated")
        assert problem_text == f"line {number} of {file} was cut short and is left out"


def test_a_line_that_is_whole_needs_no_end(folder):
    boss(1)
    (file,) = folder.iterdir()
    whole = read(folder)
    cut(file, 1)
    assert read(folder) == whole


def test_other_lines_that_are_no_json_are_refused_by_their_number(folder):
    boss(2)
    (file,) = folder.iterdir()
    lines = file.read_bytes().splitlines()
    for at in range(1, len(lines)):
        broken = [*lines[:at], lines[at][:20], *lines[at + 1 :]]
        file.write_bytes(b"\n".join(broken) + b"\n")
        with pytest.raises(TraceError, match=f"line {at + 1}:"):
            read(folder)
    file.write_bytes(b"\n".join([lines[0], lines[1][:9], lines[2][:9]]))
    with pytest.raises(TraceError, match="line 2:"):
        read(folder)


def test_a_file_in_which_nothing_was_written_is_no_obstacle(folder):
    boss(1)
    (folder / "20990101T000000Z-1-0001.spans.jsonl").touch()
    (folder / "20990101T000000Z-1-0001.otlp.jsonl").touch()
    assert len(read(folder)) == 1
    for file in folder.iterdir():
        if file.stat().st_size:
            file.unlink()
    with pytest.raises(TraceError, match="its files are empty"):
        read(folder)


def test_a_message_without_a_span_is_a_trace_of_its_own(folder):
    tv.trace.message("b", "hi", sender="a")
    (trace,) = read(folder)
    assert [message.content for message in trace.messages] == ["hi"]


def test_lines_that_are_none_of_ours_are_refused_by_their_number(tmp_path):
    file = tmp_path / "x.spans.jsonl"
    file.write_text('{"trace_id": "1", "span": {"id": "a", "kind": "tool", "name": "t"}}\n{"trace_id": 5}\n')
    with pytest.raises(TraceError, match="line 2"):
        read_trace_file(file)


def test_keys_of_later_versions_are_passed_over(tmp_path):
    file = tmp_path / "x.spans.jsonl"
    file.write_text('{"trace_id": "1", "version": 9, "span": {"id": "a", "kind": "tool", "name": "t"}}')
    (trace,) = read_trace_file(file)
    assert trace.tool_calls[0].name == "t"


def test_outputs_may_name_a_recording(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    boss(2)
    (file,) = folder.iterdir()
    Path("cases.jsonl").write_text('{"id": "1", "input": "x"}\n')
    line = {"case": "1", "output": "y", "trace": {"file": str(file), "format": "recorded"}}
    Path("outputs.jsonl").write_bytes(msgspec.json.encode(line))
    run = tv.evaluate("cases.jsonl", outputs="outputs.jsonl", metrics=["tool_success"])
    assert run.summary().metrics["tool_success"].mean == 1
