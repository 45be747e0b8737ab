"""Runs whose attempts and scores are in Parquet files beside the store."""

import errno
import json
import os
import random
import re
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import trivium as tv
from tests.runs.worker_metrics import FATAL
from trivium.cli.main import run_command
from trivium.errors import InputError, MissingExtra, StoreError, TriviumError
from trivium.labels.blind import material_of
from trivium.labels.queue import LabelQueues
from trivium.runs.engines import processes as engine
from trivium.runs.pipeline import NoProgress
from trivium.store.browsing.attempts import find_attempts
from trivium.store.browsing.search import search
from trivium.store.browsing.search_index import IDLE_SECONDS, SearchIndex
from trivium.store.partitions import file as parquet_file
from trivium.store.partitions import reader, writer
from trivium.store.store import Store
from trivium.suites.suite import Suite

CASES = 700
METRICS = ["cosine", "jaccard", "tool_success", "success"]


@pytest.fixture(autouse=True)
def _small_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_file, "PARTITION_ROWS", 200)


@pytest.fixture
def outputs(tmp_path: Path) -> str:
    return written(tmp_path / "outputs.jsonl")


def suite(count: int = CASES) -> Suite:
    cases = [
        {"id": f"c{index}", "input": f"question {index}", "references": [f"the answer is {index % 9}"]}
        for index in range(count)
    ]
    return Suite(name="s", cases=cases).with_settings(passed={"metric": "jaccard", "at_least": 0.5})


def written(path: Path, count: int = CASES, *, shuffled: bool = False) -> str:
    trace = {"trace_id": "t", "spans": [{"id": "1", "kind": "tool", "name": "search", "start": 0, "end": 1}]}
    lines = [
        {"case": f"c{index}", "output": f"the answer is {index % 7}", "seconds": index / 7, "trace": trace}
        for index in range(count)
    ]
    if shuffled:
        random.Random(1).shuffle(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def scored(store: str, outputs: str, **options: Any) -> tv.Run:
    return tv.evaluate(suite(), outputs=outputs, metrics=METRICS, store=store, **options)


def everything(store: str, run: tv.Run) -> tuple[list[Any], list[Any], dict[str, Any]]:
    with Store(store, read_only=True) as opened:
        varying = {"run", "created", "seconds", "metadata"}
        summary = {name: value for name, value in (run.record.summary or {}).items() if name not in varying}
        return list(opened.attempts(run.record)), list(opened.evaluations(run.record)), summary


def files(run: tv.Run, folder: Path) -> list[Path]:
    return sorted((folder / run.id).glob("part-*.parquet"))


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    run_command(list(arguments))
    return capsys.readouterr().out


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_is_the_same_wherever_its_bodies_are(tmp_path: Path, workers: int) -> None:
    source = written(tmp_path / "o.jsonl", shuffled=True)
    plain = scored(f"{tmp_path}/a.db", source)
    apart = scored(f"{tmp_path}/b.db", source, partitions=f"{tmp_path}/parts", workers=workers)
    assert everything(f"{tmp_path}/b.db", apart) == everything(f"{tmp_path}/a.db", plain)
    assert len(files(apart, tmp_path / "parts")) == 3


def test_on_both_databases(any_url: str, tmp_path: Path, outputs: str) -> None:
    run = scored(any_url, outputs, partitions=f"{tmp_path}/parts")
    plain = scored(f"{tmp_path}/a.db", outputs)
    assert everything(any_url, run) == everything(f"{tmp_path}/a.db", plain)
    again = tv.evaluate(suite(), attempts_of=run.id, metrics=["cosine"], store=any_url)
    assert again.summary().metrics["cosine"].mean == plain.summary().metrics["cosine"].mean


def test_a_labeller_sees_an_attempt_that_is_in_a_partition(
    any_url: str, tmp_path: Path, outputs: str
) -> None:
    scored(any_url, outputs, partitions=f"{tmp_path}/parts")
    with Store(any_url) as store:
        queues = LabelQueues(store)
        task = queues.next(queues.create(store.run(), "jaccard", by="ann").id, "ann")
        assert task is not None
        shown = material_of(store, task)
    assert (shown.case, shown.input) == (f"c{task.position}", f"question {task.position}")
    assert shown.output == f"the answer is {task.position % 7}"


@pytest.mark.parametrize(("workers", "apart"), [(1, False), (2, True)])
def test_a_stored_run_is_scored_again_into_partitions(
    tmp_path: Path, outputs: str, workers: int, apart: bool
) -> None:
    store, parts = f"{tmp_path}/s.db", f"{tmp_path}/parts"
    first = scored(store, outputs, partitions=parts if apart else None)
    given: dict[str, Any] = {"attempts_of": first.id, "metrics": ["jaccard", "cosine"], "store": store}
    plain = tv.evaluate(suite(), **given)
    again = tv.evaluate(suite(), **given, partitions=parts, workers=workers)
    assert everything(store, again) == everything(store, plain)
    written_to = files(again, tmp_path / "parts")
    assert [file.name for file in written_to] == [f"part-{number:09}.parquet" for number in range(3)]
    assert sum(pl.read_parquet(file, columns=["case"]).height for file in written_to) == CASES

    # One that is lost is scored again, from the attempts of the first run.
    written_to[1].unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        everything(store, again)
    resumed = tv.evaluate(suite(), **given, resume=again.id)
    assert everything(store, resumed) == everything(store, plain)


def test_pages_and_the_search_read_them(tmp_path: Path, outputs: str) -> None:
    found = []
    for name, options in (("a", {}), ("b", {"partitions": f"{tmp_path}/parts"})):
        run = scored(f"{tmp_path}/{name}.db", outputs, **options)
        with Store(f"{tmp_path}/{name}.db") as store:
            worst = find_attempts(store, run.record, limit=30)
            second = find_attempts(store, run.record, limit=30, after=worst.next)
            index = SearchIndex(store)
            while index.step() != IDLE_SECONDS:
                pass
            hits = [hit.case for hit in search(store, "answer 6").hits]
            views = list(store.views(run.record, worst_first=True))
            found.append((worst.rows, second.rows, hits, views, list(store.attempt_outlines(run.record))))
    assert found[0] == found[1]


def test_comparisons_exports_and_reports_read_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_file, "PARTITION_ROWS", 60)
    outputs = written(tmp_path / "outputs.jsonl", 150)
    other = written(tmp_path / "other.jsonl", 150, shuffled=True)
    said = []
    for name, options in (("a", {}), ("b", {"partitions": f"{tmp_path}/parts"})):
        store = f"{tmp_path}/{name}.db"
        given: dict[str, Any] = {"metrics": METRICS, "store": store}
        base = tv.evaluate(suite(150), outputs=outputs, **given)
        head = tv.evaluate(suite(150), outputs=other, **given, **options)
        compared = json.loads(output_of(capsys, "compare", base.id, head.id, "--store", store, "--json"))
        exported = output_of(capsys, "export", head.id, "--store", store, "--stable")
        html = tmp_path / f"{name}.html"
        output_of(capsys, "show", head.id, "--store", store, "--html", str(html))
        report = html.read_text().replace(head.id, "RUN").replace(base.id, "BASE")
        said.append((compared["metrics"], exported, len(report) // 1000))
    assert said[0][:2] == said[1][:2]
    assert said[0][2] == pytest.approx(said[1][2], abs=2)  # the address of the partitions is shown


def test_others_read_the_partitions_by_their_manifest(tmp_path: Path, outputs: str) -> None:
    run = scored(f"{tmp_path}/s.db", outputs, partitions=f"{tmp_path}/parts")
    folder = tmp_path / "parts" / run.id
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["run"], manifest["rows"], len(manifest["partitions"])) == (run.id, CASES, 3)
    for listed, file in zip(manifest["partitions"], files(run, tmp_path / "parts"), strict=True):
        assert listed["file"] == file.name
        assert listed["bytes"] == file.stat().st_size
        assert listed["blake2b"] == blake2b(file.read_bytes(), digest_size=16).hexdigest()
    frame = pl.concat(
        [
            pl.read_parquet(each, columns=["case", "passed", "scores"])
            for each in files(run, tmp_path / "parts")
        ]
    )
    assert sorted(frame["case"]) == sorted(f"c{index}" for index in range(CASES))
    cosines = [
        entry["value"] if isinstance(entry, dict) else entry[1]
        for scores in frame["scores"].to_list()
        for entry in (scores.items() if isinstance(scores, dict) else scores)
        if (entry["key"] if isinstance(entry, dict) else entry[0]) == "cosine"
    ]
    assert sum(cosines) / CASES == pytest.approx(run.summary().metrics["cosine"].mean)
    assert frame["passed"].mean() == pytest.approx(run.summary().pass_rate.value)


KILLED = """
import os, sys
import trivium as tv
from tests.store.partitions.test_partitions import scored
from trivium.runs.engines import processes as engine
from trivium.runs.pipeline import NoProgress
from trivium.store.partitions import file

file.PARTITION_ROWS = 200

class Killed(NoProgress):
    done = 0
    def advance(self, *, done, failed):
        self.done += done
        if self.done >= 600:
            os._exit(9)

scored("s.db", "outputs.jsonl", partitions="parts", progress=Killed())
"""


def test_a_killed_run_repeats_its_last_partition_only(
    tmp_path: Path, outputs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    killed = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, env=environment, check=False)
    assert killed.returncode == 9
    store = f"{tmp_path}/s.db"
    with Store(store) as opened:
        run = opened.run()
        kept = set(opened.attempt_keys(run))
    folder = tmp_path / "parts" / run.id
    complete = sorted(folder.glob("part-*"))
    assert 200 <= len(kept) < 700
    assert len(complete) == len(list(folder.iterdir())) - 1  # one was being written
    before = [file.stat().st_mtime_ns for file in complete]

    class Counted(NoProgress):
        done = 0

        def begin(self, *, run: str, total: int | None, already: int) -> None:
            self.already = already

        def advance(self, *, done: int, failed: int) -> None:
            self.done += done

    progress = Counted()
    monkeypatch.chdir(tmp_path)
    resumed = scored(store, "outputs.jsonl", resume=run.id, progress=progress)
    assert (progress.already, progress.done) == (len(kept), CASES - len(kept))
    assert [file.stat().st_mtime_ns for file in complete] == before
    assert not list(folder.glob(".*"))
    plain = scored(f"{tmp_path}/a.db", outputs)
    assert everything(store, resumed) == everything(f"{tmp_path}/a.db", plain)


class Stop(NoProgress):
    """Interrupts a run once some attempts are scored."""

    def __init__(self, error: BaseException) -> None:
        self.done = 0
        self.error = error

    def advance(self, *, done: int, failed: int) -> None:
        self.done += done
        if self.done >= 500:
            raise self.error


def test_an_interrupted_run_keeps_what_it_scored(tmp_path: Path, outputs: str) -> None:
    store = f"{tmp_path}/s.db"
    with pytest.raises(StoreError, match="as a test"):
        scored(store, outputs, partitions=f"{tmp_path}/parts", progress=Stop(StoreError("as a test")))
    with Store(store) as opened:
        assert opened.run().state == "interrupted"
        assert len(set(opened.attempt_keys(opened.run()))) >= 500
        run = opened.run().id
    resumed = scored(store, outputs, resume=run)
    assert everything(store, resumed) == everything(f"{tmp_path}/a.db", scored(f"{tmp_path}/a.db", outputs))


def test_a_full_disk_ends_the_run_which_can_be_resumed(
    tmp_path: Path, outputs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = f"{tmp_path}/s.db"

    def full(self: Any, data: bytes, old: Any = parquet_file._Hashed.write) -> int:
        if "part-000000002" in str(self._file.name):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return int(old(self, data))

    with monkeypatch.context() as patch:
        patch.setattr(parquet_file._Hashed, "write", full)
        with pytest.raises(StoreError, match="No space left on device. What was stored before is safe"):
            scored(store, outputs, partitions=f"{tmp_path}/parts")
    with Store(store) as opened:
        run = opened.run()
        assert (run.state, len(set(opened.attempt_keys(run)))) == ("interrupted", 512)
    assert not list((tmp_path / "parts" / run.id).glob(".*"))
    resumed = scored(store, outputs, resume=run.id)
    assert everything(store, resumed) == everything(f"{tmp_path}/a.db", scored(f"{tmp_path}/a.db", outputs))


@pytest.mark.parametrize("limit", ["PARTITION_BYTES", "PARTITION_SECONDS"])
def test_a_partition_ends_at_each_limit(
    tmp_path: Path, outputs: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_file, "PARTITION_ROWS", 10_000)
    monkeypatch.setattr(parquet_file, limit, 0)
    run = scored(f"{tmp_path}/s.db", outputs, partitions=f"{tmp_path}/parts")
    assert len(files(run, tmp_path / "parts")) == 3
    assert run.summary().attempts == CASES


def test_bodies_are_read_in_bounded_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = written(tmp_path / "o.jsonl", shuffled=True)
    run = scored(f"{tmp_path}/s.db", source, partitions=f"{tmp_path}/parts")
    at_once = []
    read = reader.Bodies._read

    def counted(self: Any, run: int, column: Any, named: Any) -> Any:
        named = list(named)
        at_once.append(len(named))
        return read(self, run, column, named)

    monkeypatch.setattr(reader.Bodies, "_read", counted)
    monkeypatch.setattr(reader, "CHARACTERS_AT_ONCE", 300 * 1000)
    monkeypatch.setattr(reader, "FEWEST_AT_ONCE", 50)
    monkeypatch.setattr(reader, "MOST_OPEN", 1)
    attempts, *_ = everything(f"{tmp_path}/s.db", run)
    assert [each.position for each in attempts] == list(range(CASES))
    assert at_once[0] == 50
    assert 50 < max(at_once) < 2000


def test_where_nothing_can_be_written_nothing_begins(tmp_path: Path, outputs: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file: cannot be written to"):
        scored(f"{tmp_path}/s.db", outputs, partitions=f"{tmp_path}/file")
    (tmp_path / "locked").mkdir(mode=0o500)
    if not os.access(tmp_path / "locked", os.W_OK):
        with pytest.raises(InputError, match="locked: cannot be written to: Permission denied"):
            scored(f"{tmp_path}/s.db", outputs, partitions=f"{tmp_path}/locked")
    assert not (tmp_path / "s.db").exists()
    with pytest.raises(InputError, match="needs recorded outputs or a stored run"):
        tv.evaluate(suite(), agent=lambda question: "x", store=f"{tmp_path}/s.db", partitions=f"{tmp_path}/p")


def test_a_folder_that_is_lost_before_a_run_is_resumed_is_told(tmp_path: Path, outputs: str) -> None:
    store, parts = f"{tmp_path}/s.db", tmp_path / "parts"
    with pytest.raises(StoreError, match="as a test"):
        scored(store, outputs, partitions=str(parts), progress=Stop(StoreError("as a test")))
    with Store(store) as opened:
        run = opened.run().id
    parts.rename(tmp_path / "elsewhere")
    parts.write_text("")
    with pytest.raises(TriviumError, match="parts.*cannot be"):
        scored(store, outputs, resume=run)
    with Store(store) as opened:
        assert opened.run().state == "interrupted"
    parts.unlink()
    (tmp_path / "elsewhere").rename(parts)
    assert scored(store, outputs, resume=run).summary().attempts == CASES


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, outputs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scored(f"{tmp_path}/s.db", outputs, partitions=f"{tmp_path}/parts")
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r"trivium\[parquet\]"):
        scored(f"{tmp_path}/s.db", outputs, partitions=f"{tmp_path}/more")
    with pytest.raises(MissingExtra, match=r"trivium\[parquet\]"):
        everything(f"{tmp_path}/s.db", run)


def test_the_command_writes_them(tmp_path: Path, outputs: str, capsys: pytest.CaptureFixture[str]) -> None:
    suite().save(tmp_path / "suite.json")
    arguments = ("score", f"{tmp_path}/suite.json", "--outputs", outputs, "--store", f"{tmp_path}/s.db")
    output = output_of(
        capsys, *arguments, "--partitions", f"{tmp_path}/parts", "--metrics", "jaccard", "--details"
    )
    assert f"partitions  {tmp_path}/parts" in re.sub(r"\n +", "", output)
    assert len(list((tmp_path / "parts").glob("*/part-*.parquet"))) == 3


MANY = 2400


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Outputs of which two workers write partitions themselves."""
    monkeypatch.setattr(engine, "PARTS_A_WORKER", 2)
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))
    cases = [{"id": str(index), "input": "?", "references": [f"it is {index % 9}"]} for index in range(MANY)]
    lines = [{"case": str(index), "output": f"it is {index % 7}", "seconds": 1.0} for index in range(MANY)]
    path = tmp_path / "many.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"suite": Suite(name="s", cases=cases), "outputs": str(path), "metrics": ["jaccard", "cosine"]}


def test_workers_write_their_partitions_themselves(
    tmp_path: Path, many: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[Any] = []
    here: list[Any] = []
    add, completed = writer.PartitionWriter.add, parquet_file.PartitionFile.completed

    def counted(self: Any, rows: Any, partition: Any) -> None:
        added.append(partition)
        add(self, rows, partition)

    monkeypatch.setattr(writer.PartitionWriter, "add", counted)
    monkeypatch.setattr(
        parquet_file.PartitionFile, "completed", lambda self: here.append(self) or completed(self)
    )
    apart = tv.evaluate(**many, store=f"{tmp_path}/a.db", workers=2, partitions=f"{tmp_path}/parts")
    plain = tv.evaluate(**many, store=f"{tmp_path}/b.db")
    assert everything(f"{tmp_path}/a.db", apart) == everything(f"{tmp_path}/b.db", plain)
    assert [each.rows for each in added] == [512] * 4 + [352]
    assert here == []
    assert [file.name for file in files(apart, tmp_path / "parts")] == [
        f"part-{first:09}.parquet" for first in range(0, MANY, 512)
    ]


def test_a_partition_that_ends_its_worker_is_scored_one_by_one(
    tmp_path: Path,
    many: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "PARTS_A_WORKER", 1)
    few = Path(many["outputs"]).read_text().splitlines(keepends=True)[:290]
    Path(many["outputs"]).write_text("".join(few))
    given = many | {"metrics": ["jaccard", "tests.runs.worker_metrics:Deadly"]}
    run = tv.evaluate(**given, store=f"{tmp_path}/a.db", workers=2, partitions=f"{tmp_path}/parts")
    summary = run.summary()
    assert summary.attempts == 290
    assert summary.metrics["deadly"].status["error"] == 1
    (lost,) = [line for line in caplog.messages if "is not scored: the process that" in line]
    assert "10" in FATAL
    assert lost.startswith("10, repeat 0, ")
    attempts, *_ = everything(f"{tmp_path}/a.db", run)
    assert [each.position for each in attempts] == list(range(290))
    assert not list((tmp_path / "parts" / run.id).glob(".*"))


def test_a_disk_that_is_full_for_a_worker_ends_the_run(tmp_path: Path, many: dict[str, Any]) -> None:
    store, parts = f"{tmp_path}/a.db", tmp_path / "parts"

    class Blocked(NoProgress):
        """Puts a folder where a partition would be written."""

        def begin(self, *, run: str, total: int | None, already: int) -> None:
            (parts / run / ".part-000001536.parquet").mkdir(exist_ok=True)

    with pytest.raises(StoreError, match="parts: cannot be written to: Is a directory"):
        tv.evaluate(**many, store=store, workers=2, partitions=str(parts), progress=Blocked())
    with Store(store) as opened:
        run = opened.run()
        assert run.state == "interrupted"
        assert len(set(opened.attempt_keys(run))) % 512 == 0
    (parts / run.id / ".part-000001536.parquet").rmdir()
    resumed = tv.evaluate(**many, store=store, resume=run.id)
    assert everything(store, resumed) == everything(
        f"{tmp_path}/b.db", tv.evaluate(**many, store=f"{tmp_path}/b.db")
    )
