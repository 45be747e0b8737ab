"""Cases, outputs and partitions in a bucket, through the real client of S3 and a server on loopback."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trivium as tv
from tests.s3_server import Objects, serving
from trivium.cli.main import run_command
from trivium.errors import InputError, OutputsError, TriviumError
from trivium.store.store import Store

pytestmark = pytest.mark.skipif(find_spec("s3fs") is None, reason="needs s3fs, which is slow to import")

COUNT = 120


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    import s3fs

    with serving() as objects:
        for name, value in environment(objects).items():
            monkeypatch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        cases = [
            {"id": str(index), "input": "?", "references": [f"the answer is {index % 3}"]}
            for index in range(COUNT)
        ]
        outputs = [{"case": str(index), "output": f"the answer is {index % 4}"} for index in range(COUNT)]
        objects.content["cases.jsonl"] = encoded(cases)
        objects.content["outputs/a.jsonl"] = encoded(outputs[: COUNT // 2])
        table = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(outputs[COUNT // 2 :]), table)
        objects.content["outputs/b.parquet"] = table.getvalue()
        yield objects
        s3fs.S3FileSystem.clear_instance_cache()


def environment(objects: Objects) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": objects.address,
        "AWS_ACCESS_KEY_ID": "key-of-the-test",
        "AWS_SECRET_ACCESS_KEY": "secret-of-the-test",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def encoded(lines: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def scored(folder: Path, **options: object) -> tv.Run:
    return tv.evaluate(
        "s3://bucket/cases.jsonl",
        outputs="s3://bucket/outputs",
        metrics=["jaccard", "cosine"],
        store=f"{folder}/s.db",
        **options,
    )


def test_a_run_from_a_bucket_into_a_bucket(tmp_path: Path, s3: Objects) -> None:
    run = scored(tmp_path, partitions="s3://bucket/scores")
    assert run.summary().metrics["jaccard"].n == COUNT
    manifest = json.loads(s3.content[f"scores/{run.id}/manifest.json"])
    assert [each["bytes"] for each in manifest["partitions"]] == [
        len(s3.content[f"scores/{run.id}/part-000000000.parquet"])
    ]
    with Store(f"{tmp_path}/s.db") as store:
        assert [each.evaluation.case for each in store.evaluations(store.run())] == [
            str(i) for i in range(COUNT)
        ]
    assert b"secret-of-the-test" not in (tmp_path / "s.db").read_bytes()


@pytest.mark.cpu(12, "processes import the client of S3")
def test_worker_processes_read_the_bucket_themselves(tmp_path: Path, s3: Objects) -> None:
    one = scored(tmp_path)
    command = [
        "score",
        "s3://bucket/cases.jsonl",
        "--outputs",
        "s3://bucket/outputs",
        "--metrics",
        "jaccard,cosine",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "trivium", *command, "--workers", "2", "--json"],
        cwd=tmp_path,
        env=os.environ | environment(s3) | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout)["metrics"] == json.loads(json.dumps(one.record.summary or {}))["metrics"]


def test_a_server_that_is_busy_is_asked_again(tmp_path: Path, s3: Objects) -> None:
    s3.failures["outputs/a.jsonl"] = [503, 500]
    assert scored(tmp_path).summary().attempts == COUNT
    assert s3.failures["outputs/a.jsonl"] == []


@pytest.mark.parametrize("key", ["cases.jsonl", "outputs/a.jsonl"])
def test_a_bucket_that_refuses_is_told(tmp_path: Path, s3: Objects, key: str) -> None:
    s3.failures[key] = [403]
    with pytest.raises(InputError, match=rf"s3://bucket/{key}: cannot be"):
        scored(tmp_path)


def test_a_bucket_that_refuses_to_be_written_to_is_told(tmp_path: Path, s3: Objects) -> None:
    class Refused(dict[str, list[int]]):
        def get(self, key: str, default: object = None) -> object:
            return [403] if key.startswith("scores/") and "parquet" in key else default

    s3.failures = Refused()
    with pytest.raises(TriviumError, match="scores/.*: cannot be written to"):
        scored(tmp_path, partitions="s3://bucket/scores")
    s3.failures = {}
    with Store(f"{tmp_path}/s.db") as store:
        run = store.run()
    assert run.state == "interrupted"
    assert scored(tmp_path, resume=run.id).summary().attempts == COUNT


def test_a_partition_that_cannot_be_reached_is_not_taken_for_lost(tmp_path: Path, s3: Objects) -> None:
    run = scored(tmp_path, partitions="s3://bucket/scores")
    key = f"scores/{run.id}/part-000000000.parquet"
    s3.failures[key] = [403]
    with pytest.raises(TriviumError, match=f"{key}: cannot be reached"):
        scored(tmp_path, resume=run.id)
    s3.failures.clear()
    assert len(list(run.evaluations())) == COUNT
    del s3.content[key]
    assert scored(tmp_path, resume=run.id).summary().attempts == COUNT


def test_a_bucket_that_is_not_there_is_told(s3: Objects) -> None:
    with pytest.raises(InputError, match="s3://other/cases.jsonl: (there is no such file|cannot be)"):
        tv.evaluate("s3://other/cases.jsonl", outputs="s3://bucket/outputs")


def test_a_part_is_read_without_the_rest_of_its_file(tmp_path: Path, s3: Objects) -> None:
    from trivium.agents.recorded import open_recorded
    from trivium.suites.suite import Suite

    many, padding = range(600), "x" * 20_000
    s3.content["cases.jsonl"] = encoded([{"id": str(index), "input": "?"} for index in many])
    suite = Suite.load("s3://bucket/cases.jsonl")
    lines = [{"case": str(index), "output": padding} for index in many]
    s3.content["outputs.jsonl"] = encoded(lines)
    recorded = open_recorded("s3://bucket/outputs.jsonl", suite)
    s3.requests.clear()
    parts = list(recorded.parts())
    assert [case.id for case, _ in recorded.read(parts[1])] == [str(index) for index in parts[1]]
    fetched = [key for method, key in s3.requests if method == "GET" and key == "outputs.jsonl"]
    assert 1 < len(fetched) <= 12  # of a megabyte each


TRACE = {"trace_id": "7", "spans": [{"id": "1", "kind": "tool", "name": "search", "start": 0, "end": 1}]}


def ended(s3: Objects, capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, str, str]:
    code = run_command(["traces", *command])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.out, captured.err


@pytest.mark.parametrize("source", ["logs/a.jsonl", "logs/*.jsonl"])
def test_traces_in_a_bucket_are_shown_and_a_busy_server_is_asked_again(
    s3: Objects, capsys: pytest.CaptureFixture[str], source: str
) -> None:
    s3.content["logs/a.jsonl"] = encoded([TRACE])
    s3.failures["logs/a.jsonl"] = [503, 500]
    code, out, err = ended(s3, capsys, "show", f"s3://bucket/{source}", "--json")
    assert (code, json.loads(out)["traces"], err) == (0, 1, "")
    assert s3.failures["logs/a.jsonl"] == []


@pytest.mark.parametrize(
    ("command", "source", "said"),
    [
        ("show", "s3://bucket/logs/a.jsonl", "s3://bucket/logs/a.jsonl: cannot be "),
        ("show", "s3://bucket/none.jsonl", "s3://bucket/none.jsonl: "),
        ("show", "s3://other/none.jsonl", "s3://other/none.jsonl: "),
        ("show", "s3://other/*.jsonl", "s3://other/*.jsonl: no file has such a name"),
        ("import", "s3://bucket/logs/a.jsonl", "s3://bucket/logs/a.jsonl: cannot be "),
        ("score", "s3://bucket/none.jsonl", "s3://bucket/none.jsonl: "),
    ],
)
def test_a_bucket_that_refuses_or_lacks_traces_is_told(
    s3: Objects, capsys: pytest.CaptureFixture[str], command: str, source: str, said: str
) -> None:
    s3.content["logs/a.jsonl"] = encoded([TRACE])
    s3.failures["logs/a.jsonl"] = [403]
    code, _, err = ended(s3, capsys, command, source)
    assert code == 2
    assert said in err


def test_outputs_in_a_bucket_name_trace_files_beside_them(s3: Objects) -> None:
    from trivium.agents.recorded import open_recorded
    from trivium.suites.suite import Suite

    s3.content["logs/t/a.jsonl"] = encoded([TRACE])
    s3.content["logs/o.jsonl"] = encoded([{"case": "7", "trace": {"file": "t/a.jsonl"}}])
    suite = Suite.load("s3://bucket/cases.jsonl")
    recorded = open_recorded("s3://bucket/logs/o.jsonl", suite)
    ((_, attempt),) = recorded
    assert attempt.trace is not None
    s3.failures["logs/t/a.jsonl"] = [403]
    ((_, attempt),) = recorded
    assert "s3://bucket/logs/t/a.jsonl: cannot be" in attempt.metadata["trace_error"]
    with pytest.raises(OutputsError, match='line 1: trace.file: "t/a.jsonl" cannot be reached'):
        open_recorded("s3://bucket/logs/o.jsonl", suite)
