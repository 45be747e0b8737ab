"""Recorded outputs scored by several processes: same rows, nothing lost, and an end when the run ends."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

import trivium as tv
from tests.runs import worker_metrics
from tests.runs.worker_metrics import FATAL
from trivium.agents.recorded import Partitioned, open_recorded
from trivium.errors import MissingExtra, OutputsError, Problem, TriviumError, TrustError
from trivium.metrics.registry import BUILT_IN, CASE_FIGURES, REGISTERED, build_metrics
from trivium.metrics.text.encoders.encoder import cores
from trivium.records.lines import PART_RECORDS
from trivium.runs.engines import processes as engine
from trivium.runs.engines.job import AttemptKeys, Job, Task, packed
from trivium.runs.engines.partition import LOST, PartScorer
from trivium.runs.engines.workers import NoWorkers, Workers
from trivium.runs.pipeline import NoProgress
from trivium.store import schema
from trivium.store.store import Store
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite

CASES = 3 * PART_RECORDS + 10
ODD = "tests.runs.worker_metrics"
METRICS = ("cosine", "jaccard", "success", "time")


@pytest.fixture(autouse=True)
def _no_more_metrics_than_before():
    """Suites of other tests that name no metrics are scored by all that there are."""
    before = dict(REGISTERED)
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


def files(folder: Path, *, cases: int = CASES) -> tuple[Path, Path]:
    suite, outputs = folder / "cases.jsonl", folder / "outputs.jsonl"
    with suite.open("w") as file, outputs.open("w") as out:
        for index in range(cases):
            case = {"id": str(index), "input": "?", "references": [f"the answer is {index} 答案"]}
            file.write(json.dumps(case | {"group": f"g{index // 3}"}) + "\n")
            line = {"case": str(index), "output": f"the answer may be {index % 7}", "seconds": index / 7}
            out.write(json.dumps(line) + "\n")
            if index % 50 == 0:
                out.write("\n" + json.dumps(line | {"repeat": 1, "error": "it broke"}) + "\n")
    return suite, outputs


def stored(store: str, run: tv.Run) -> list[tuple]:
    with Store(store, read_only=True) as opened, opened.engine.connect() as connection:
        found = []
        for table, columns in (("attempts", "case_body body"), ("evaluations", "composite passed body")):
            each = getattr(schema, table)
            of_run = select(each.c.position, each.c.repeat, *(each.c[name] for name in columns.split()))
            rows = connection.execute(of_run.where(each.c.run == run.record.number)).all()
            found += sorted(tuple(row) for row in rows)
        return found


def figures(run: tv.Run) -> dict:
    summary = dict(run.record.summary or {})
    return {name: value for name, value in summary.items() if name not in {"run", "created", "seconds"}}


def scored(folder: Path, store: str, **options: object) -> tv.Run:
    suite, outputs = files(folder)
    given: dict = {
        "metrics": list(METRICS),
        "outputs": str(outputs),
        "store": f"{folder}/{store}.db",
    } | options
    return tv.evaluate(Suite.load(suite, repeats=2, group="group"), **given)


@pytest.fixture
def one(tmp_path: Path) -> tv.Run:
    return scored(tmp_path, "one")


def test_the_rows_and_the_summary_are_those_of_one_process(tmp_path: Path, one: tv.Run) -> None:
    """Also of outputs in memory."""
    _, outputs = files(tmp_path)
    lines = [json.loads(line) for line in outputs.read_text().splitlines() if line]
    for name, options in (("two", {"workers": 2}), ("three", {"workers": 3, "outputs": lines})):
        several = scored(tmp_path, name, **options)
        assert stored(f"{tmp_path}/{name}.db", several) == stored(f"{tmp_path}/one.db", one)
        assert figures(several) == figures(one) | {"metadata": figures(several)["metadata"]}
    assert figures(one)["attempts"] == CASES + CASES // 50 + 1


def test_without_a_number_a_run_begins_in_its_own_process(
    tmp_path: Path, one: tv.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    monkeypatch.setattr(
        Workers, "scored", lambda self, tasks: started.extend(task.indices for task in tasks) or iter(())
    )
    short = scored(tmp_path, "short", workers=None)
    assert (started, figures(short)) == ([], figures(one))
    monkeypatch.setattr(engine, "SECONDS_BEFORE_WORKERS", 0.0)
    monkeypatch.setattr(engine, "SECONDS_WORTH_WORKERS", 0.0)
    scored(tmp_path, "long", workers=None)
    assert started[0] == range(PART_RECORDS, 2 * PART_RECORDS)  # the first part was scored here
    assert started[-1].stop == CASES + CASES // 50 + 1


def test_stored_attempts_are_scored_again_by_several_processes(
    tmp_path: Path, one: tv.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if another run holds them."""
    store = f"{tmp_path}/one.db"
    again: dict = {"attempts_of": one.id, "outputs": None, "metrics": ["jaccard", "time"]}
    here = scored(tmp_path, "one", **again)
    monkeypatch.setattr("trivium.agents.recorded.outputs.RecordedOutputs.read", None)  # the store has them
    two = scored(tmp_path, "one", workers=2, **again)
    assert (stored(store, two), figures(two)) == (stored(store, here), figures(here))
    assert len([row for row in stored(store, two) if row]) == CASES + CASES // 50 + 1


def test_without_a_number_stored_attempts_are_scored_by_several_processes_if_that_pays(
    tmp_path: Path, one: tv.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    again: dict = {"attempts_of": one.id, "outputs": None, "metrics": ["jaccard"]}
    here = scored(tmp_path, "one", **again)
    begun: list[range] = []
    monkeypatch.setattr(engine, "SECONDS_BEFORE_WORKERS", 0.0)
    monkeypatch.setattr(engine, "SECONDS_WORTH_WORKERS", 0.0)
    inner = Workers.scored
    monkeypatch.setattr(
        Workers,
        "scored",
        lambda self, tasks: inner(self, (begun.append(each.indices) or each for each in tasks)),
    )
    two = scored(tmp_path, "one", workers=None, **again)
    assert begun[0] == range(PART_RECORDS, 2 * PART_RECORDS)
    assert figures(two) == figures(here)


def test_a_short_run_starts_no_process(tmp_path: Path, one: tv.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trivium.runs.engines.workers.ProcessPoolExecutor", None)
    monkeypatch.setattr(engine, "SECONDS_BEFORE_WORKERS", float("inf"))
    assert figures(scored(tmp_path, "short", workers=None)) == figures(one)


def test_an_encoder_is_loaded_several_times_only_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = build_metrics(["jaccard", "semantic"], Settings())
    assert engine.process_count(None, metrics, metrics) == 1
    assert engine.process_count(3, metrics, metrics) == 3
    monkeypatch.setattr("trivium.metrics.text.encoders.loading.installed_backends", tuple)
    assert engine.process_count(None, metrics, metrics) == cores()
    assert engine.process_count(None, metrics[:1], metrics[:1]) == cores()


def test_a_run_is_resumed_by_other_workers(tmp_path: Path, one: tv.Run) -> None:
    """Also of a part that is only partly there."""
    store = f"{tmp_path}/two.db"

    class Stop(NoProgress):
        def begin(self, *, run: str, total: int | None, already: int) -> None:
            self.run, self.already = run, already

        def advance(self, *, done: int, failed: int) -> None:
            raise TriviumError("stopped")

    stop = Stop()
    with pytest.raises(TriviumError, match="stopped"):
        scored(tmp_path, "two", workers=2, progress=stop)
    with Store(store) as opened, opened.engine.begin() as connection:
        for table in (schema.attempts, schema.evaluations):
            assert connection.execute(table.delete().where(table.c.position % 2 == 0)).rowcount > 0
    resumed = scored(tmp_path, "two", workers=2, resume=stop.run)
    assert stored(store, resumed) == stored(f"{tmp_path}/one.db", one)
    assert figures(resumed) == figures(one)


@pytest.mark.cpu(15, "workers start, and end, several times")
def test_an_attempt_that_no_process_survives_costs_only_its_own_scores(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = scored(tmp_path, "two", metrics=["jaccard", f"{ODD}:Deadly"], workers=2)
    lost = {each.case for each in run.evaluations() if each.scores["jaccard"].status == "error"}
    assert lost == FATAL
    assert run.summary().attempts == CASES + CASES // 50 + 1
    figure = run.summary().metrics["deadly"]
    assert figure.status["error"] == len(FATAL)
    assert LOST in {each.scores["jaccard"].reason for each in run.evaluations()}
    assert sum("is not scored: the process that" in line for line in caplog.messages) == len(FATAL)


def test_what_a_metric_logs_is_logged_by_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = scored(tmp_path, "two", metrics=["jaccard", f"{ODD}:Noisy"], workers=2)
    assert "noisy failed on 3, repeat 0: RuntimeError: no luck" in caplog.text
    (failed,) = [each for each in run.evaluations() if each.scores["noisy"].status == "error"]
    assert failed.case == "3"


def test_workers_that_cannot_start_are_nobodys_attempts_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module of a metric is here, and cannot be imported there."""
    monkeypatch.setattr(worker_metrics.Noisy, "__module__", "a_module_that_is_nowhere")
    monkeypatch.setitem(sys.modules, "a_module_that_is_nowhere", worker_metrics)
    with pytest.raises(TriviumError, match="no worker process can be started"):
        scored(tmp_path, "two", metrics=["jaccard", f"{ODD}:Noisy"], workers=2)


def test_where_no_process_can_be_started_a_run_goes_on_without(
    tmp_path: Path, one: tv.Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Some containers have no semaphores."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("trivium.runs.engines.workers.ProcessPoolExecutor", refuse)
    monkeypatch.setattr(engine, "SECONDS_BEFORE_WORKERS", 0.0)
    monkeypatch.setattr(engine, "SECONDS_WORTH_WORKERS", 0.0)
    run = scored(tmp_path, "two", workers=None)
    assert stored(f"{tmp_path}/two.db", run) == stored(f"{tmp_path}/one.db", one)
    assert "Function not implemented" in caplog.text
    assert "scoring goes on in one process" in caplog.messages
    with pytest.raises(TriviumError, match="no worker process can be started"):
        scored(tmp_path, "three", workers=2)


def test_a_metric_that_a_function_made_is_computed_by_the_run(tmp_path: Path) -> None:
    """Such as those that the integrations make of other tools' metrics; workers compute the others."""
    tv.metric("made")(type("Made", (worker_metrics.Noisy,), {"__doc__": "Made by a function."}))
    metrics = ["jaccard", "made"]
    here, two = (scored(tmp_path, str(n), metrics=metrics, workers=n) for n in (1, 2))
    assert stored(f"{tmp_path}/2.db", two) == stored(f"{tmp_path}/1.db", here)
    assert figures(two) == figures(here)


def test_all_metrics_of_the_package_can_be_computed_elsewhere() -> None:
    names = [name for name in BUILT_IN if name not in CASE_FIGURES]
    metrics = build_metrics(names, Settings())
    assert len(metrics) > 20
    assert engine.leaving(metrics, Settings()) == metrics


def test_cases_that_cannot_be_sent_are_scored_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise TypeError("cannot pickle")

    monkeypatch.setattr(Suite, "__reduce_ex__", refuse)
    monkeypatch.setattr(engine, "SECONDS_BEFORE_WORKERS", 0.0)
    monkeypatch.setattr(engine, "SECONDS_WORTH_WORKERS", 0.0)
    run = scored(tmp_path, "two", workers=None)
    assert run.summary().attempts == CASES + CASES // 50 + 1
    assert "cannot be sent to another process: cannot pickle" in caplog.text


def test_where_all_metrics_are_of_a_notebook_no_worker_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_metrics.Noisy, "__module__", "__main__")
    monkeypatch.setattr(Workers, "__init__", None)
    run = scored(tmp_path, "two", metrics=[f"{ODD}:Noisy"], workers=2)
    assert run.summary().attempts == CASES + CASES // 50 + 1
    assert "only the main process can compute noisy: no workers are started" in caplog.messages


def test_outputs_that_change_meanwhile_are_refused(tmp_path: Path) -> None:
    suite, outputs = files(tmp_path)
    loaded = Suite.load(suite, repeats=2)
    job, part = job_of(tmp_path, loaded, open_recorded(str(outputs), loaded))
    outputs.write_text(outputs.read_text() + "\n")
    with pytest.raises(OutputsError, match="has changed since it was checked"):
        PartScorer(job).score(Task(part))


def test_an_error_of_a_worker_ends_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Change(NoProgress):
        def advance(self, *, done: int, failed: int) -> None:
            with (tmp_path / "outputs.jsonl").open("a") as file:
                file.write("\n")

    # Two workers have four parts in hand, and get the fifth once the first is stored.
    suite, outputs = files(tmp_path, cases=6 * PART_RECORDS)
    given = {"outputs": str(outputs), "metrics": ["jaccard"], "store": f"{tmp_path}/two.db", "workers": 2}
    with pytest.raises(OutputsError, match=r"outputs.jsonl: has changed since it was checked"):
        tv.evaluate(Suite.load(suite, repeats=2), **given, progress=Change())
    assert "ended unexpectedly" not in caplog.text


def test_every_error_can_travel() -> None:
    places = [Problem("line 1", "is wrong"), Problem("", "is odd")]
    for error in (
        OutputsError("a.jsonl", places, left_out=3),
        TrustError("no labels"),
        MissingExtra("ray", "--engine ray"),
        NoWorkers(),
        TriviumError("what"),
    ):
        there = pickle.loads(pickle.dumps(error))
        assert (type(there), str(there), vars(there)) == (type(error), str(error), vars(error))


def test_a_job_travels_without_the_texts(tmp_path: Path) -> None:
    """Only indices: 40 bytes a case and 8 an attempt."""
    suite, outputs = files(tmp_path)
    loaded = Suite.load(suite, repeats=2)
    job, part = job_of(tmp_path, loaded, open_recorded(str(outputs), loaded))
    content = packed(job)
    assert b"the answer" not in content
    assert len(content) < 60 * CASES
    scorer = PartScorer(pickle.loads(content))
    here = PartScorer(job).score(Task(part))
    assert scorer.score(Task(part)).rows.evaluations == here.rows.evaluations
    unscored = scorer.unscored(Task(part).alone(1))
    assert len(unscored.rows.evaluations) == 1
    assert unscored.rows.outlines()[0].scores["jaccard"].reason == LOST


def test_processes_of_one_machine_share_long_indices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trivium.number_buffer.BLOCK", 64)
    suite, outputs = files(tmp_path)
    loaded = Suite.load(suite, repeats=2)
    job, part = job_of(tmp_path, loaded, open_recorded(str(outputs), loaded))
    (tmp_path / "shared").mkdir()
    content = packed(job, folder=tmp_path / "shared")
    assert len(content) < len(packed(job)) - 30 * CASES
    assert sum(file.stat().st_size for file in (tmp_path / "shared").iterdir()) > 40 * CASES
    here = PartScorer(job).score(Task(part))
    assert PartScorer(pickle.loads(content)).score(Task(part)).rows.evaluations == here.rows.evaluations


def test_indices_that_are_in_files_change_no_row_and_no_figure(
    tmp_path: Path, one: tv.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trivium.number_buffer.BLOCK", 64)
    again = scored(tmp_path, "blocks", workers=2)
    assert stored(f"{tmp_path}/blocks.db", again) == stored(f"{tmp_path}/one.db", one)
    assert figures(again) == figures(one)


def test_a_worker_imports_neither_the_database_nor_what_asks_judges() -> None:
    """Each starts anew, and half of that time would be theirs."""
    code = (
        "import sys, trivium.runs.engines.workers\n"
        "from trivium.metrics.registry import build_metrics\n"
        "from trivium.suites.settings import Settings\n"
        f"build_metrics(['jaccard', 'tool_success', '{ODD}:Noisy'], Settings())\n"
        "print({'sqlalchemy', 'scipy', 'trivium.metrics.judge.client.models'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True)
    assert done.stdout.decode().strip() == "set()", done.stderr.decode()


@given(st.sets(st.tuples(st.integers(0, 2000), st.integers(0, 3) | st.just(2**31 - 1)), max_size=50))
def test_a_set_of_attempts_holds_what_it_was_given_and_no_more(keys: set[tuple[int, int]]) -> None:
    made = AttemptKeys(keys)
    near = {(position + step, repeat) for position, repeat in keys for step in (-1, 0, 1) if position}
    assert {key for key in keys | near if key in made} == keys


def job_of(folder: Path, suite: Suite, recorded: object) -> tuple[Job, range]:
    assert isinstance(recorded, Partitioned)
    settings = tv.evaluate(
        suite.with_settings(group="group"),
        outputs=[{"case": "0", "output": "a"}],
        metrics=["jaccard"],
        store=f"{folder}/job.db",
    )
    suite = suite.with_settings(group="group")
    job = Job(recorded, suite, suite.settings, METRICS, settings.record, AttemptKeys())
    return job, next(recorded.parts())


def test_parts_cover_all_and_are_bounded_in_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite, outputs = files(tmp_path)
    monkeypatch.setattr("trivium.records.lines.PART_BYTES", 1000)
    recorded = open_recorded(str(outputs), Suite.load(suite, repeats=2))
    assert isinstance(recorded, Partitioned)
    parts = list(recorded.parts())
    assert [index for part in parts for index in part] == list(range(len(recorded)))
    assert max(map(len, parts)) < 20
    read = [attempt for part in parts for _, attempt in recorded.read(part)]
    assert read == [attempt for _, attempt in recorded]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="the children of a process are found in /proc")
def test_no_worker_and_no_temporary_file_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    files(tmp_path)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "trivium", "score", "cases.jsonl", "--outputs", "outputs.jsonl"]
    command += ["--store", "a.db", "--workers", "2", "--metrics", "tests.runs.worker_metrics:Slow,jaccard"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(temporary)}
    run = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 120
        while len(workers := children(run.pid)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(workers) >= 2
        run.kill()
        run.wait()
        while any(map(alive, workers)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert [pid for pid in workers if alive(pid)] == []
        assert list(temporary.iterdir()) == []
    finally:
        run.kill()
        run.communicate()


def children(pid: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and b"resource_tracker" not in (folder / "cmdline").read_bytes():
            found.append(int(folder.name))
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(os.name == "nt", reason="needs SIGINT")
def test_ctrl_c_ends_the_workers_and_says_how_to_go_on(tmp_path: Path) -> None:
    files(tmp_path)
    command = [sys.executable, "-m", "trivium", "score", "cases.jsonl", "--outputs", "outputs.jsonl"]
    command += ["--store", "a.db", "--workers", "2", "--metrics", "tests.runs.worker_metrics:Slow,jaccard"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    run = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 120
        while len(workers := children(run.pid)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(run.pid, signal.SIGINT)
        _, errors = run.communicate(timeout=120)
        assert "--resume" in errors
        assert "Traceback" not in errors
        assert [pid for pid in workers if alive(pid)] == []
    finally:
        run.kill()
