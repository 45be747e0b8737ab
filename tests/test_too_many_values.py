"""Files that expand, never end or do not fit into memory are refused in words, and soon."""

import gzip
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from trivium.cli.main import run_command
from trivium.errors import TraceError
from trivium.traces.native import native_trace
from trivium.values import MAX_VALUES, holds_too_many_values

TOO_MANY = f"holds more than {MAX_VALUES:,} values, the most that are read"
MANY = b"{}," * (MAX_VALUES // 2) + b"{}"
"""Objects of two bytes each, a little more than the most that are read."""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def _refused(capsys, *arguments: str) -> str:
    assert run_command(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def _packed(name: str, content: bytes) -> str:
    with gzip.open(name, "wb", compresslevel=1) as file:
        file.write(content)
    return name


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (b'{"trace_id": "a", "spans": [', b"]}"),
        (b'{"resourceSpans": [', b"]}"),
        (b'{"data": [', b"]}"),
    ],
)
def test_json_is_bounded_by_its_values(capsys, start, end):
    name = _packed("bomb.json.gz", start + MANY + end)
    assert _refused(capsys, "traces", "show", name) == f"Error: {name}: {TOO_MANY}\n"


def test_lines_of_json_are_bounded(capsys):
    name = _packed("bomb.jsonl.gz", b"{}\n" * (MAX_VALUES // 2))
    assert "holds more than 5,000,000 lines" in _refused(capsys, "traces", "show", name)


def test_a_member_of_an_archive_is_bounded_by_its_values(capsys):
    with zipfile.ZipFile("log.eval", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "t"}, "status": "success"}))
        archive.writestr("samples/a_epoch_1.json", b'{"id": "a", "epoch": 1, "messages": [' + MANY + b"]}")
    assert f"samples/a_epoch_1.json: {TOO_MANY}" in _refused(capsys, "traces", "show", "log.eval")


def test_suites_cases_and_outputs_are_bounded_by_their_values(capsys):
    line = b'{"id": "a", "input": [' + MANY + b"]}\n"
    Path("suite.json").write_bytes(b'{"name": "s", "cases": [' + line + b"]}")
    Path("cases.jsonl").write_bytes(line)
    Path("outputs.jsonl").write_bytes(line)
    Path("sound.jsonl").write_text('{"id": "a", "input": "?"}\n')
    assert (
        _refused(capsys, "score", "suite.json", "--outputs", "o.jsonl") == f"Error: suite.json: {TOO_MANY}\n"
    )
    assert f"cases.jsonl: line 1: {TOO_MANY}" in _refused(
        capsys, "score", "cases.jsonl", "--outputs", "o.jsonl"
    )
    message = _refused(capsys, "score", "sound.jsonl", "--outputs", "outputs.jsonl", "--store", "s.db")
    assert f"outputs.jsonl: line 1: {TOO_MANY}" in message


def test_values_up_to_the_bound_pass():
    assert not holds_too_many_values(b"[" + b"1," * (MAX_VALUES - 1) + b"1")
    assert holds_too_many_values(b"[" + b"1," * MAX_VALUES + b"1")


def _field(tag: int, content: bytes) -> bytes:
    length, size = b"", len(content)
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([tag]) + length + bytes([size]) + content


SPAN = _field(0x12, _field(0x0A, b"a" * 16) + _field(0x12, b"b" * 8))


EMPTY = "4,194,304 messages that are empty or nearly so"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda: _field(0x12, b"\x12\x00" * 5_000_000), EMPTY),
        (lambda: b"\x12\x00" * 5_000_000, EMPTY),
        (lambda: _field(0x12, SPAN * 1_000_001), "holds more than 1,000,000 spans"),
        (lambda: _field(0x12, b"\x7a" + b"x" * 70_000_000), "is of 70,000,011 bytes; at most 67,108,864"),
    ],
    ids=["spans without ids", "scopes", "spans with ids", "one large message"],
)
def test_protobuf_is_bounded_by_its_messages(capsys, content, message):
    pytest.importorskip("opentelemetry.proto")
    assert message in _refused(capsys, "traces", "show", _packed("bomb.pb.gz", _field(0x0A, content())))


def test_a_stream_of_protobuf_is_bounded_by_its_messages(capsys, monkeypatch):
    pytest.importorskip("opentelemetry.proto")
    monkeypatch.setattr("trivium.traces.readers.otlp.protobuf.MAX_MESSAGES", 1_000)
    name = _packed("stream.pb.gz", b"\x04\x0a\x02\x12\x00" + b"\x02\x0a\x00" * 1_000)
    assert "holds more than 1,000 messages" in _refused(capsys, "traces", "show", name)


def test_mistakes_are_counted_and_not_stored():
    with pytest.raises(TraceError) as caught:
        native_trace({"spans": [{}] * 1_000})
    assert (len(caught.value.problems), caught.value.left_out) == (20, 2_980)  # a span lacks three keys


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are kept on Linux alone")
def test_what_does_not_fit_into_memory_is_refused_in_words():
    inner = b"{}," * (MAX_VALUES // 4)
    name = _packed("large.json.gz", b'{"trace_id": "a", "spans": [' + inner + b"{}]}")
    Path("large.json").write_bytes(b'{"name": "s", "cases": [' + inner + b"{}]}")
    for arguments in (["traces", "show", name], ["score", "large.json", "--outputs", "o.jsonl"]):
        shell = [
            "sh",
            "-c",
            'ulimit -v 450000 && exec "$0" "$@"',
            sys.executable,
            "-m",
            "trivium",
            *arguments,
        ]
        done = subprocess.run(shell, capture_output=True, text=True)
        assert done.returncode == 2
        assert "memory" in done.stderr
        assert "Traceback" not in done.stderr


def test_devices_and_pipes_are_refused_wherever_a_file_is_read(capsys):
    Path("suite.json").write_text('{"name": "s", "cases": [{"id": "a", "input": "?"}]}')
    Path("linked.json").write_text('{"name": "s", "cases": "zero.jsonl"}')
    for name in ("zero.json", "zero.yaml", "zero.toml", "zero.jsonl", "zero.csv"):
        Path(name).symlink_to("/dev/zero")
        os.mkfifo(f"pipe{Path(name).suffix}")
        for each in (name, f"pipe{Path(name).suffix}"):
            message = _refused(capsys, "score", each, "--outputs", "o.jsonl")
            assert message.startswith(f"Error: {each}: is a device or a pipe, not a file: it may never end")
    assert "zero.jsonl: is a device or a pipe, not a file" in _refused(
        capsys, "score", "linked.json", "--outputs", "o.jsonl"
    )
    for name in ("zero.jsonl", "pipe.jsonl"):
        message = _refused(capsys, "score", "suite.json", "--outputs", name, "--store", "s.db")
        assert message.startswith(f"Error: {name}: is a device or a pipe, not a file")
        assert f"{name}: is a device or a pipe, not a file" in _refused(capsys, "trust", "curve", name)
        assert f"{name}: is a device or a pipe, not a file" in _refused(capsys, "traces", "show", name)
