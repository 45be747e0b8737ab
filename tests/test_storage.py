"""Cases, outputs and partitions in object storage: fsspec's file system in memory."""

import gzip
import json
import pickle
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trivium as tv
from trivium import storage
from trivium.agents.recorded import open_recorded
from trivium.cli.main import run_command
from trivium.errors import InputError, MissingExtra, OutputsError, StoreError, SuiteError
from trivium.runs.items.files import read_items
from trivium.storage import is_remote, open_file, path_of, replaced_when_complete
from trivium.store.store import Store
from trivium.suites.suite import Suite
from trivium.traces.readers.collection import TraceFiles

BUCKET = "memory://bucket"


@pytest.fixture(autouse=True)
def bucket() -> Iterator[fsspec.AbstractFileSystem]:
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]
    cases = [
        {"id": str(index), "input": "?", "references": [f"the answer is {index % 3}"]} for index in range(600)
    ]
    outputs = [{"case": str(index), "output": f"the answer is {index % 4}"} for index in range(600)]
    for name, lines in (("cases", cases), ("outputs", outputs)):
        memory.pipe(f"/bucket/{name}.jsonl", encoded(lines))
        memory.pipe(f"/bucket/{name}/a.jsonl", encoded(lines[:400]))
        memory.pipe(f"/bucket/{name}/deep/b.jsonl", encoded(lines[400:]))
    with memory.open("/bucket/outputs.parquet", "wb") as file:
        pq.write_table(pa.Table.from_pylist(outputs), file, row_group_size=250)
    memory.pipe("/bucket/suite.yaml", b"name: s\ncases: cases/*.jsonl\nmetrics: [jaccard]\n")
    yield memory
    memory.store.clear()


def encoded(lines: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("cases.jsonl", 600),
        ("cases", 600),
        ("cases/*.jsonl", 400),
        ("cases/**/*.jsonl", 600),
        ("suite.yaml", 400),
    ],
)
def test_cases_are_read_from_every_kind_of_address(source: str, count: int) -> None:
    suite = Suite.load(f"{BUCKET}/{source}")
    assert [case.id for case in suite] == [str(index) for index in range(count)]
    assert suite.case("7").references == ("the answer is 1",)
    assert suite.name == {"suite.yaml": "s"}.get(source, "cases")


@pytest.mark.parametrize("source", ["outputs.jsonl", "outputs.parquet", "outputs", "outputs/**/*.jsonl"])
def test_outputs_are_read_from_every_kind_of_address(source: str, tmp_path: Path) -> None:
    suite = Suite.load(f"{BUCKET}/cases.jsonl")
    recorded = open_recorded(f"{BUCKET}/{source}", suite)
    assert [case.id for case, _ in recorded] == [str(index) for index in range(600)]
    run = tv.evaluate(suite, outputs=f"{BUCKET}/{source}", metrics=["jaccard"], store=f"{tmp_path}/s.db")
    assert run.summary().metrics["jaccard"].n == 600


def test_a_local_suite_may_name_remote_cases(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(f"name: s\ncases: {BUCKET}/cases.jsonl\n")
    assert len(Suite.load(tmp_path / "s.yaml")) == 600


def test_partitions_are_written_to_an_address(tmp_path: Path, bucket: fsspec.AbstractFileSystem) -> None:
    given = {"outputs": f"{BUCKET}/outputs.jsonl", "metrics": ["jaccard"]}
    apart = tv.evaluate(
        f"{BUCKET}/cases.jsonl", **given, store=f"{tmp_path}/a.db", partitions=f"{BUCKET}/scores"
    )
    plain = tv.evaluate(f"{BUCKET}/cases.jsonl", **given, store=f"{tmp_path}/b.db")
    assert list(apart.evaluations()) == list(plain.evaluations())
    folder = f"/bucket/scores/{apart.id}"
    assert bucket.ls(folder, detail=False) == [f"{folder}/manifest.json", f"{folder}/part-000000000.parquet"]
    assert json.loads(bucket.cat(f"{folder}/manifest.json"))["rows"] == 600
    bucket.rm(f"{folder}/part-000000000.parquet")
    with (
        pytest.raises(
            StoreError, match=f"600 attempts in {BUCKET}/scores/.*/part-000000000.parquet cannot be read"
        ),
        Store(f"{tmp_path}/a.db") as store,
    ):
        list(store.evaluations(store.run()))


def test_cases_are_copied_once_and_by_each_machine(
    monkeypatch: pytest.MonkeyPatch, bucket: fsspec.AbstractFileSystem
) -> None:
    opened: list[str] = []

    def counted(path: Path, *, read_at_once: int) -> object:
        opened.append(str(path))
        return open_file(path, read_at_once=read_at_once)

    storage._copies.clear()
    suite = Suite.load(f"{BUCKET}/cases.jsonl")
    monkeypatch.setattr(storage, "open_file", counted)
    assert pickle.loads(pickle.dumps(suite.cases))[599].id == "599"
    assert len(Suite.load(f"{BUCKET}/cases.jsonl")) == 600
    assert opened == []
    sent = pickle.dumps(suite.cases)
    (copy,) = storage._copies.values()
    copy.unlink()
    storage._copies.clear()
    assert pickle.loads(sent)[599].id == "599"
    assert opened == [f"{BUCKET}/cases.jsonl"]
    copy = next(iter(storage._copies.values()))
    copy.unlink()
    storage._copies.clear()
    bucket.pipe("/bucket/cases.jsonl", encoded([{"id": "x", "input": "?"}]))
    with pytest.raises(SuiteError, match="has changed since it was opened"):
        pickle.loads(sent)[0]


def test_outputs_that_change_are_refused(bucket: fsspec.AbstractFileSystem) -> None:
    suite = Suite.load(f"{BUCKET}/cases.jsonl")
    recorded = open_recorded(f"{BUCKET}/outputs.jsonl", suite)
    bucket.pipe("/bucket/outputs.jsonl", bucket.cat("/bucket/outputs.jsonl"))
    with pytest.raises(OutputsError, match="has changed since it was checked"):
        list(recorded)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("nothing.jsonl", "there is no such file"),
        ("case.jsonl", 'Did you mean "cases.jsonl"'),
        ("none/*.jsonl", "no file has such a name"),
    ],
)
def test_what_is_not_there_is_told(source: str, said: str) -> None:
    with pytest.raises(SuiteError, match=said):
        Suite.load(f"{BUCKET}/{source}")
    with pytest.raises(OutputsError, match=said):
        open_recorded(f"{BUCKET}/{source}", Suite.load(f"{BUCKET}/cases.jsonl"))


def test_mistakes_are_told_with_the_address(bucket: fsspec.AbstractFileSystem) -> None:
    bucket.pipe("/bucket/outputs/c.jsonl", b'{"case": "0", "output": "x"}\n{"case": 1, "outputs": "x"}\n')
    with pytest.raises(OutputsError, match=f"{BUCKET}/outputs/c.jsonl: line 2: unknown key"):
        open_recorded(f"{BUCKET}/outputs", Suite.load(f"{BUCKET}/cases.jsonl"))


def native(number: int) -> dict[str, object]:
    spans = [{"id": "1", "kind": "tool", "name": "search", "start": 0, "end": number}]
    return {"trace_id": str(number), "spans": spans, "metadata": {"case": str(number)}}


@pytest.fixture
def logs(bucket: fsspec.AbstractFileSystem) -> str:
    """A folder of traces: two on lines, and one in a gzipped file further below."""
    bucket.pipe("/bucket/logs/a.jsonl", encoded([native(1), native(2)]))
    bucket.pipe("/bucket/logs/deep/b.json.gz", gzip.compress(json.dumps(native(3)).encode()))
    return f"{BUCKET}/logs"


@pytest.mark.parametrize(
    ("source", "found"),
    [("", "123"), ("/a.jsonl", "12"), ("/*.jsonl", "12"), ("/**/*.json*", "123")],
)
def test_traces_are_read_from_every_kind_of_address(source: str, found: str, logs: str) -> None:
    files = TraceFiles([logs + source])
    assert sorted(each.trace.trace_id for each in files) == list(found)
    assert files.problems == []
    recorded = open_recorded(f"traces:{logs}{source}", Suite.load(f"{BUCKET}/cases.jsonl"))
    assert sorted(case.id for case, _ in recorded) == list(found)


def traced(bucket: fsspec.AbstractFileSystem, name: str, *files: str) -> list[tuple[str, object]]:
    """The trace of each attempt of a file of outputs that name trace files, or why there is none."""
    lines = [{"case": str(index), "trace": {"file": file}} for index, file in enumerate(files)]
    bucket.pipe(f"/bucket/{name}", encoded(lines))
    suite = Suite.load(f"{BUCKET}/cases.jsonl")
    return [
        attempt.trace.trace_id if attempt.trace else attempt.metadata["trace_error"]
        for _, attempt in open_recorded(f"{BUCKET}/{name}", suite)
    ]


@pytest.mark.parametrize("name", ["logs/o.jsonl", "logs/deep/o.jsonl"])
def test_trace_files_that_outputs_in_a_bucket_name_are_in_that_bucket(
    name: str, bucket: fsspec.AbstractFileSystem, logs: str
) -> None:
    near = "../logs/deep/b.json.gz" if name == "logs/o.jsonl" else "b.json.gz"
    assert traced(bucket, name, near, f"{logs}/deep/b.json.gz") == ["3", "3"]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("{local}", "is outside of memory://bucket, whose file names it"),
        ("../../../{local}", "is outside of memory://bucket, whose file names it"),
        ("../../other/t.json", "is outside of memory://bucket, whose file names it"),
        ("memory://other/t.json", "is outside of memory://bucket, whose file names it"),
        ("memory://bucket/../other/t.json", "is outside of memory://bucket, whose file names it"),
        ("file://{local}", "is no address in object storage, such as s3://BUCKET/FILE"),
        ("http://127.0.0.1:9/t.json", "is no address in object storage, such as s3://BUCKET/FILE"),
        ("simplecache::file://{local}", "is no address in object storage, such as s3://BUCKET/FILE"),
        ("memory://bucket/x::file://{local}", "is no address in object storage, such as s3://BUCKET/FILE"),
        ("none.json", 'there is no file "memory://bucket/logs/none.json"'),
    ],
)
def test_outputs_in_a_bucket_name_no_file_of_another_place(
    file: str, said: str, tmp_path: Path, bucket: fsspec.AbstractFileSystem
) -> None:
    (tmp_path / "t.json").write_bytes(json.dumps(native(1)).encode())
    bucket.pipe("/other/t.json", json.dumps(native(1)).encode())
    with pytest.raises(OutputsError, match=f"logs/o.jsonl: line 1: trace.file: .*{re.escape(said)}"):
        traced(bucket, "logs/o.jsonl", file.format(local=tmp_path / "t.json"))


def test_outputs_of_this_machine_name_traces_in_buckets_and_nowhere_else(tmp_path: Path, logs: str) -> None:
    suite = Suite.load(f"{BUCKET}/cases.jsonl")
    given = [{"case": "1", "trace": {"file": f"{logs}/a.jsonl", "trace_id": "2"}}]
    (tmp_path / "o.jsonl").write_bytes(encoded(given))
    ((_, attempt),) = open_recorded(f"{tmp_path}/o.jsonl", suite)
    assert attempt.trace is not None
    assert attempt.trace.trace_id == "2"
    given[0]["trace"] = {"file": "http://127.0.0.1:9/t.json"}
    (tmp_path / "o.jsonl").write_bytes(encoded(given))
    with pytest.raises(OutputsError, match="is no address in object storage"):
        open_recorded(f"{tmp_path}/o.jsonl", suite)


def test_lists_and_tables_in_a_bucket_name_traces_beside_them(
    bucket: fsspec.AbstractFileSystem, logs: str
) -> None:
    bucket.pipe("/bucket/logs/o.json", b'[{"case": "1", "trace": {"file": "deep/b.json.gz"}}]')
    bucket.pipe("/bucket/logs/o.csv", b'case,trace\n1,"{""file"": ""deep/b.json.gz""}"\n')
    for name in ("o.json", "o.csv"):
        ((_, attempt),) = open_recorded(f"{logs}/{name}", Suite.load(f"{BUCKET}/cases.jsonl"))
        assert attempt.trace is not None
        assert attempt.trace.trace_id == "3"


def test_the_commands_about_traces_read_addresses(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"{tmp_path}/s.db"
    assert run_command(["traces", "import", f"{logs}/*.jsonl"]) == 0
    assert [json.loads(line)["trace_id"] for line in capsys.readouterr().out.splitlines()] == ["1", "2"]
    assert run_command(["traces", "show", f"{logs}/deep/*.gz", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["traces"] == 1
    assert run_command(["traces", "score", logs, "--metrics", "completed", "--store", store, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["traces"] == 3


@pytest.mark.parametrize("command", ["show", "import", "score"])
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("none.jsonl", "memory://bucket/none.jsonl: "),
        ("none/*.jsonl", "memory://bucket/none/*.jsonl: no file has such a name"),
    ],
)
def test_traces_that_are_not_there_are_told(
    command: str, source: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["traces", command, f"{BUCKET}/{source}"]) == 2
    assert said in capsys.readouterr().err


def test_an_unknown_kind_of_address_is_told() -> None:
    with pytest.raises(InputError, match="foo://x/y.jsonl: cannot be reached"):
        Suite.load("foo://x/y.jsonl")


def test_without_universal_pathlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "upath", None)
    with pytest.raises(MissingExtra, match=r"trivium\[cloud\]"):
        Suite.load(f"{BUCKET}/cases.jsonl")


def test_paths_are_no_addresses(tmp_path: Path) -> None:
    assert [is_remote(each) for each in ("a/b", "C:/x", "s3://b", "tau-bench:x", "./s3:/b")] == [
        False, False, True, False, False,
    ]  # fmt: skip
    assert path_of(str(tmp_path)) == tmp_path


@pytest.mark.parametrize("source", ["items.jsonl", "items", "items/*.jsonl"])
def test_items_are_read_from_addresses(source: str, bucket: fsspec.AbstractFileSystem) -> None:
    lines = [
        {"group": str(index), "item": "i", "pred": 1, "gt": index % 2, "confidence": 0.5}
        for index in range(10)
    ]
    bucket.pipe("/bucket/items.jsonl", encoded(lines))
    bucket.pipe("/bucket/items/a.jsonl", encoded(lines[:4]))
    bucket.pipe("/bucket/items/b.jsonl", encoded(lines[4:]))
    assert list(read_items(f"{BUCKET}/{source}").gt) == [0, 1] * 5


def test_a_file_is_replaced_once_the_new_one_is_complete(tmp_path: Path) -> None:
    file, link = tmp_path / "report.txt", tmp_path / "latest.txt"
    link.symlink_to(file)
    with replaced_when_complete(link) as unfinished:
        unfinished.write_text("one")
        assert not file.exists()
    with suppress(ZeroDivisionError), replaced_when_complete(file) as unfinished:
        unfinished.write_text("half")
        raise ZeroDivisionError
    assert (file.read_text(), link.is_symlink()) == ("one", True)
    assert sorted(tmp_path.iterdir()) == [link, file]


def test_a_device_is_written_to_and_not_replaced() -> None:
    with replaced_when_complete(Path("/dev/null")) as unfinished:
        unfinished.write_text("gone")
    assert Path("/dev/null").is_char_device()
