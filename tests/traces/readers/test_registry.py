"""Readers: formats are found out, and what cannot be read is said."""

import json

import pytest

from tests.traces.opentelemetry.spans import agent, content
from trivium.errors import TraceError
from trivium.traces.readers import FORMATS, read_trace
from trivium.traces.readers.collection import read_path, read_trace_file
from trivium.traces.readers.json_input import HEAD_BYTES, documents_of

NATIVE = {"trace_id": "n", "spans": [{"id": "1", "kind": "tool", "name": "t"}]}
CHAT = {"task_id": 1, "trial": 0, "traj": [{"role": "user", "content": "hi"}]}
RUN = {"execution_id": "e", "tool_calls": [{"tool_name": "t", "agent_id": "m"}], "agent_interactions": []}


def write(path, *lines):
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("documents", "format", "count"),
    [
        ([NATIVE], "native", 1),
        ([[NATIVE, NATIVE]], "native", 2),
        ([NATIVE, NATIVE, [NATIVE]], "native", 3),
        ([[CHAT, CHAT]], "tau-bench", 2),
        ([CHAT, CHAT], "tau-bench", 2),
        ([RUN], "agents-eval", 1),
        ([RUN, RUN], "agents-eval", 2),
    ],
)
def test_every_format_is_recognised_whole_or_by_line(tmp_path, documents, format, count):
    path = write(tmp_path / "traces", *documents)
    found, traces = read_path(path)
    assert (found, len(traces)) == (format, count)
    assert read_trace_file(path, format) == traces


def test_a_folder_is_one_run(tmp_path):
    write(tmp_path / "trace.json", RUN)
    found, (trace,) = read_path(tmp_path)
    assert (found, trace.trace_id) == ("agents-eval", "e")


def test_one_value_is_one_trace():
    assert read_trace(NATIVE).trace_id == "n"
    assert read_trace([CHAT]).trace_id == "1/0"
    with pytest.raises(TraceError, match="expected one trace, found 2"):
        read_trace([NATIVE, NATIVE], source="x")


def test_an_unknown_format_names_those_that_are_known(tmp_path):
    path = write(tmp_path / "x.json", {"foo": 1, "bar": 2})
    with pytest.raises(TraceError) as raised:
        read_trace_file(path)
    assert "foo, bar" in str(raised.value)
    assert all(name in str(raised.value) for name in FORMATS)
    with pytest.raises(TraceError, match='Did you mean "tau-bench"'):
        read_trace_file(path, "tau-bensh")
    with pytest.raises(TraceError, match="no known format"):
        read_trace_file(write(path, [1]))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe{", "UTF-8"),
        (b'{"a": 1}\n{"a": "\xff"}', "UTF-8"),
        (b'{"spans": []}\n\n{"spans": [', "line 3: not valid JSON"),
        (b'{"spans": []}\n' + b"[" * 100_000, "line 2: nested too deep"),
        (b"[" * 100_000, "nested too deep"),
        (b"not json\nat all", "not valid JSON"),
    ],
)
def test_broken_content_is_named_with_its_line(tmp_path, content, what):
    path = tmp_path / "broken.jsonl"
    path.write_bytes(content)
    with pytest.raises(TraceError) as raised:
        read_trace_file(path)
    assert str(path) in str(raised.value)
    assert what in str(raised.value)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(TraceError, match="there is no such file"):
        read_trace_file(tmp_path / "none.json")


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    path = write(tmp_path / "big.json", NATIVE)
    with pytest.raises(TraceError, match="at most 10 are read"):
        documents_of(path, max_bytes=10)


def test_a_byte_order_mark_and_not_a_number_are_read(tmp_path):
    path = tmp_path / "python.json"
    span = '{"id": "1", "kind": "tool", "name": "t", "start": NaN, "end": Infinity}'
    path.write_bytes(b"\xef\xbb\xbf" + f'{{"spans": [{span}]}}'.encode())
    (trace,) = read_trace_file(path)
    assert trace.spans[0].start is None
    assert [problem.kind for problem in trace.problems] == ["bad_time", "bad_time"]


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_file_about_as_long_as_what_detection_looks_at_is_read_whole(more, tmp_path):
    name = "b" * (HEAD_BYTES + more - len(content(agent("a", name="b"))) + 1)
    path = tmp_path / "trace.json"
    path.write_bytes(content(agent("a", name=name)))
    assert path.stat().st_size == HEAD_BYTES + more
    assert [span.name for span in read_trace_file(path)[0].spans] == [name]
