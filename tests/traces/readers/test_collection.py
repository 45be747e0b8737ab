"""Many files of mixed formats: what is read together, what is passed over, what is named as unreadable."""

import gzip
import json

import pytest

from tests.goldens import SHARED
from tests.runs.trace_scores.samples import support, trace, write
from tests.traces.opentelemetry.spans import agent, content, tool
from trivium.errors import TraceError
from trivium.traces.readers.collection import TraceFiles


def found(*paths, **options):
    files = TraceFiles(paths, **options)
    return files, [each.trace for each in files]


def test_a_trace_that_is_split_over_otlp_files_of_a_folder_is_one(tmp_path):
    (tmp_path / "1.json").write_bytes(content(agent("boss", at=(0, 9))))
    (tmp_path / "2.json").write_bytes(content(tool("look", parent="boss", at=(1, 2))))
    files, traces = found(tmp_path)
    assert [len(each.spans) for each in traces] == [2]
    assert (files.files, dict(files.formats)) == (2, {"otlp": 1})


def test_a_folder_that_trivium_recorded_is_read_together(tmp_path):
    line = {"trace_id": "ab", "span": {"id": "1", "kind": "agent", "name": "a", "start": 0, "end": 1}}
    other = {
        "trace_id": "ab",
        "span": {"id": "2", "kind": "tool", "name": "t", "parent": "1", "start": 0, "end": 1},
    }
    for number, each in enumerate((line, other)):
        (tmp_path / f"{number}.spans.jsonl").write_text(json.dumps(each, separators=(",", ":")) + "\n")
    files, traces = found(tmp_path)
    assert [len(each.spans) for each in traces] == [2]
    assert dict(files.formats) == {"recorded": 1}


def test_gzipped_files_count_and_hidden_and_empty_ones_do_not(tmp_path):
    (tmp_path / "t.jsonl.gz").write_bytes(
        gzip.compress(write(tmp_path / ".hidden.jsonl", trace("a")).read_bytes())
    )
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / ".cache").mkdir()
    write(tmp_path / ".cache" / "b.jsonl", trace("b"))
    files, traces = found(tmp_path)
    assert [each.trace_id for each in traces] == ["a"]
    assert (files.unreadable, files.without_traces) == (0, [])


def test_a_file_without_traces_is_passed_over_in_a_folder_and_a_problem_when_named(tmp_path):
    (tmp_path / "package.json").write_text('{"name": "x"}')
    (tmp_path / "store.db").write_bytes(b"SQLite format 3\x00" + bytes(100))
    files, traces = found(tmp_path)
    assert (traces, files.unreadable) == ([], 0)
    assert sorted(files.without_traces) == [str(tmp_path / "package.json"), str(tmp_path / "store.db")]
    files, traces = found(tmp_path / "package.json")
    assert (traces, files.unreadable, files.without_traces) == ([], 1, [])


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"{broken", "line 2: not valid JSON"),
        (b'{"trace_id": "x", "spans": [{"id": "1"}]}', "line 2: spans[0]"),
        (b"\xff\xfe", "line 2"),
        (b"[" * 100_000, "line 2"),
    ],
)
def test_a_broken_line_among_native_traces_is_named_and_the_others_are_read(tmp_path, line, what):
    path = write(tmp_path / "t.jsonl", support()[0])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes() + line + b"\n\n" + json.dumps(support()[1]).encode())
    files, traces = found(path)
    assert [each.trace_id for each in traces] == ["well", "retried"]
    (problem,) = files.problems
    assert problem.what.startswith(what)


def test_a_format_that_is_named_is_taken(tmp_path):
    path = write(tmp_path / "t.jsonl", trace("a"))
    assert [each.trace_id for each in found(path, format="native")[1]] == ["a"]
    files, traces = found(path, format="otlp")
    assert (traces, files.unreadable) == ([], 1)


def test_paths_that_are_not_there_are_all_named(tmp_path):
    write(tmp_path / "traces.jsonl", trace("a"))
    with pytest.raises(TraceError) as raised:
        TraceFiles([tmp_path / "trace.jsonl", tmp_path / "zzz"])
    assert len(raised.value.problems) == 2
    assert 'Did you mean "traces.jsonl"?' in str(raised.value)


@pytest.mark.skipif(not (SHARED / "data" / "traces").exists(), reason="the shared traces are not there")
def test_every_shared_format_is_read_from_one_folder():
    files, traces = found(SHARED / "data" / "traces")
    assert files.unreadable == 0
    assert files.formats["tau-bench"] == 132
    assert files.formats["agents-eval"] == 24
    assert len(files.formats) >= 10
    assert len(traces) == sum(files.formats.values())
