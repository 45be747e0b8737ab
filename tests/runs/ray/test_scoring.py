"""Recorded outputs scored on a Ray cluster of two nodes on this machine, one of which is killed."""

import gc
import random
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

import trivium as tv
from tests.judge_server import ANSWER, Reaction
from tests.runs.ray.conftest import NODE, lose_a_node
from tests.runs.test_workers import ODD, figures, files, job_of, scored, stored
from tests.runs.trace_scores.samples import support, write
from trivium.agents.recorded import open_recorded
from trivium.errors import InputError, MissingExtra, OutputsError, TriviumError
from trivium.metrics.registry import REGISTERED
from trivium.runs.engines import processes as engine
from trivium.runs.engines.job import Task, packed
from trivium.runs.engines.partition import LOST, PartScorer, ScoredPart
from trivium.runs.engines.ray_workers import Part, PartQueue, Place, RemoteScorer
from trivium.runs.pipeline import NoProgress
from trivium.store.partitions.writer import PartitionWriter
from trivium.store.store import Store
from trivium.suites.suite import Suite

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")


@pytest.fixture(autouse=True)
def _no_more_metrics_than_before() -> Iterator[None]:
    before = dict(REGISTERED)
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[tuple], dict]:
    """Rows and figures of one process."""
    folder = tmp_path_factory.mktemp("one")
    return kept(f"{folder}/one.db", scored(folder, "one"))


def kept(store: str, run: tv.Run) -> tuple[list[tuple], dict]:
    """Rows and figures; the metadata have the folder of the outputs, which is another for each test."""
    return stored(store, run), {key: value for key, value in figures(run).items() if key != "metadata"}


class At(NoProgress):
    """Does something once some attempts are stored."""

    def __init__(self, what, after: int = 1) -> None:
        self._what, self._left = what, after

    def begin(self, *, run: str, total: int | None, already: int) -> None:
        self.run = run

    def advance(self, *, done: int, failed: int) -> None:
        self._left -= done
        if self._left <= 0 and self._what is not None:
            what, self._what = self._what, None
            what()


def test_rows_and_figures_are_those_of_one_process(cluster, one, tmp_path: Path) -> None:
    from ray import is_initialized

    run = scored(tmp_path, "ray", engine="ray")
    assert kept(f"{tmp_path}/ray.db", run) == one
    assert not is_initialized()


def test_workers_of_the_cluster_write_partitions(
    cluster, one, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "PARTS_A_WORKER", 1)
    monkeypatch.setattr(PartitionWriter, "write", None)  # nothing is left for the process of the run
    run = scored(tmp_path, "ray", engine="ray", workers=1, partitions=f"{tmp_path}/parts")
    with Store(f"{tmp_path}/ray.db", read_only=True) as store:
        bodies = [msgspec.json.encode(each.evaluation).decode() for each in store.evaluations(run.record)]
    assert bodies == [row[-1] for row in one[0][-len(bodies) :]]
    assert kept(f"{tmp_path}/ray.db", run)[1] == one[1]
    assert len(list((tmp_path / "parts" / run.id).glob("part-*.parquet"))) == 1


def test_stored_attempts_travel(cluster, one, tmp_path: Path) -> None:
    base = scored(tmp_path, "ray")
    again: dict = {"attempts_of": base.id, "outputs": None}
    run = scored(tmp_path, "ray", engine="ray", **again)
    evaluations = [row for row in stored(f"{tmp_path}/ray.db", run) if len(row) == 5]
    assert evaluations == [row for row in one[0] if len(row) == 5]


def test_traces_travel(cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the process of the run reads their files."""
    path = write(tmp_path / "t.jsonl", *support())
    reports = []
    for engine_, workers in (("local", 1), ("ray", 2)):
        store = f"{tmp_path}/{engine_}.db"
        metrics = ["completed", "tool_success", "centrality"]
        report = tv.score_traces(path, metrics=metrics, store=store, engine=engine_, workers=workers)
        run = tv.Run.load(report.run, store=store)
        reports.append((stored(store, run), figures(run), report.traces))
    assert reports[0] == reports[1]
    assert reports[0][2] == len(support())


OWN = """
import trivium as tv


@tv.metric("own_of_ray")
class Own(tv.Metric):
    "One of the working folder."

    def score(self, metric_input):
        return self.ok(0.25)
"""


def test_relative_paths_and_modules_in_the_working_folder_are_found(
    cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path, cases=5)
    monkeypatch.chdir(tmp_path)
    Path("own_ray_metric.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    metrics = ["own_ray_metric:Own"]
    run = tv.evaluate("cases.jsonl", outputs="outputs.jsonl", metrics=metrics, store="a.db", engine="ray")
    assert run.summary().metrics["own_of_ray"].mean == 0.25


def test_outputs_in_memory_travel(cluster, one, tmp_path: Path) -> None:
    import json

    _, outputs = files(tmp_path)
    lines = [json.loads(line) for line in outputs.read_text().splitlines() if line]
    run = scored(tmp_path, "ray", engine="ray", workers=1, outputs=lines)
    assert stored(f"{tmp_path}/ray.db", run) == one[0]


def test_a_node_that_is_lost_costs_nothing(
    cluster, tmp_path: Path, caplog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other node scores what the lost one was to score; a new node takes its place."""
    monkeypatch.chdir(tmp_path)  # where the metric looks, on every node
    metrics = ["jaccard", f"{ODD}:Patient"]
    ended = threading.Event()
    with ThreadPoolExecutor(1) as aside:
        lost = aside.submit(lose_a_node, cluster, tmp_path, ended)
        try:
            run = scored(tmp_path, "ray", engine="ray", workers=2, metrics=metrics)
        finally:
            ended.set()
        lost.result()
    here = scored(tmp_path, "here", metrics=metrics)
    assert (stored(f"{tmp_path}/ray.db", run), figures(run)) == (
        stored(f"{tmp_path}/here.db", here),
        figures(here),
    )
    assert "a worker of the Ray cluster was lost" in caplog.text
    cluster.nodes_of_test.append(cluster.add_node(**NODE))


def test_judges_are_asked_by_the_run_and_a_lost_node_costs_no_answer_twice(
    cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes compute texts and traces; a node is lost while the judges are asked."""
    from tests.runs.judging import test_judges_of_workers as judged

    def lose(question: object) -> Reaction:
        if question.number == judged.CASES // 2:
            cluster.remove_node(cluster.nodes_of_test.pop(), allow_graceful=False)
        return ANSWER

    monkeypatch.setattr("trivium.records.source.PART_RECORDS", judged.PART_ATTEMPTS)
    with judged.provider(monkeypatch) as server:
        _, alone = judged.scored(tmp_path, "one", workers=1)
        spent = judged.billed(server)
    with judged.provider(monkeypatch, plan=lose) as server:
        run, scores = judged.scored(tmp_path, "ray", workers=2, engine="ray")
    assert judged.judgements(scores) == judged.judgements(alone)
    assert server.counts["requests"] == server.counts["answer"] == judged.CASES
    assert server.peak_in_flight <= judged.AT_ONCE
    assert run.summary().spent.cost_usd == pytest.approx(spent[0])
    cluster.nodes_of_test.append(cluster.add_node(**NODE))


def test_an_attempt_that_ends_its_workers_costs_only_its_own_scores(cluster, tmp_path: Path, caplog) -> None:
    suite, outputs = files(tmp_path, cases=40)
    metrics = ["jaccard", f"{ODD}:Deadly"]
    run = tv.evaluate(
        str(suite), outputs=str(outputs), metrics=metrics, store=f"{tmp_path}/ray.db", engine="ray"
    )
    failed = [each for each in run.evaluations() if each.scores["jaccard"].status == "error"]
    assert [each.case for each in failed] == ["10"]
    assert failed[0].scores["deadly"].reason == LOST
    assert run.summary().attempts == 41
    assert sum("is not scored: the process that" in line for line in caplog.messages) == 1


def test_a_run_that_is_stopped_is_resumed_elsewhere(cluster, one, tmp_path: Path) -> None:
    def stop() -> None:
        raise TriviumError("stopped")

    progress = At(stop)
    with pytest.raises(TriviumError, match="stopped"):
        scored(tmp_path, "ray", engine="ray", progress=progress)
    run = scored(tmp_path, "ray", workers=2, resume=progress.run)
    assert kept(f"{tmp_path}/ray.db", run) == one


def test_outputs_that_change_meanwhile_end_the_run(cluster, tmp_path: Path) -> None:
    def change() -> None:
        with (tmp_path / "outputs.jsonl").open("a") as file:
            file.write("\n")

    with pytest.raises(OutputsError, match="has changed since it was checked"):
        scored(tmp_path, "ray", engine="ray", workers=1, progress=At(change))


def test_what_a_node_lacks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite, outputs = files(tmp_path, cases=3)
    loaded = Suite.load(suite, repeats=2)
    job, part = job_of(tmp_path, loaded, open_recorded(str(outputs), loaded))
    content = packed(job)
    scorer = RemoteScorer()
    # Facts of a worker's process, which is not this one.
    monkeypatch.setattr("trivium.runs.engines.ray_workers.share_cores", lambda processes: None)
    monkeypatch.setattr("trivium.runs.engines.ray_workers.THRESHOLDS_WHILE_SCORING", gc.get_threshold())
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    place = Place(tv.__version__, str(tmp_path), ())
    with pytest.raises(TriviumError, match=r"has Trivium .*, the run 0\.0\.0: install the same"):
        scorer.start(content, place._replace(version="0.0.0"))
    with pytest.raises(TriviumError, match=r"No module named 'a_module_of_nobody' \(every node needs"):
        scorer.start(packed(job._replace(modules=("a_module_of_nobody",))), place)
    with pytest.raises(TriviumError, match=r"/nowhere.*every node needs"):
        scorer.start(content, place._replace(folder=f"{tmp_path}/nowhere"))
    scorer.start(content, place)
    assert scorer.score(Task(part)).rows.evaluations == PartScorer(job).score(Task(part)).rows.evaluations
    outputs.rename(tmp_path / "elsewhere.jsonl")
    with pytest.raises(TriviumError, match="outputs.jsonl.*every node needs the suite, the outputs"):
        scorer.start(content, place)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_an_address_where_nothing_answers_is_said_at_once(tmp_path: Path, monkeypatch, address: str) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(TriviumError, match=rf"no Ray cluster answers at {address} \(RAY_ADDRESS\)"):
        scored(tmp_path, "ray", engine="ray")


def test_what_only_the_process_of_the_run_can_do_is_refused(tmp_path: Path, monkeypatch) -> None:
    suite, outputs = files(tmp_path, cases=3)
    url = f"{tmp_path}/none.db"

    def refused(**options: object) -> str:
        with pytest.raises((InputError, MissingExtra)) as failed:
            tv.evaluate(str(suite), **{"store": url, "engine": "ray", "metrics": ["jaccard"]} | options)
        assert not Path(url).exists()
        return str(failed.value)

    assert refused(outputs=str(outputs), engine="spark") == 'engine: found "spark", expected local or ray'
    assert "scores recorded outputs only" in refused(agent=lambda question: "4")
    judge = {"models": ["openai:gpt-5-mini"]}
    gates = {"jaccard": {"at_least": 0.5}}
    decided = {"until_decided": True, "gates": gates, "judge": judge, "metrics": ["jaccard"]}
    assert "scores many outputs at once" in refused(outputs=str(outputs), **decided)
    monkeypatch.setattr("trivium.runs.start.find_spec", lambda name: None)
    assert 'pip install "trivium[ray]"' in refused(outputs=str(outputs))


def result(indices: range) -> ScoredPart:
    lines = [("", 0, str(index)) for index in indices]
    return ScoredPart(rows=None, aggregation=None, warnings=lines)  # type: ignore[arg-type]


def indices_of(finished: tuple[Task, ScoredPart]) -> list[str]:
    task, scored = finished
    lines = [text for _, _, text in scored.warnings]
    assert lines == [str(index) for index in task.indices]
    return lines


def test_parts_come_in_order_whatever_is_lost() -> None:
    """Workers finish in any order and lose parts at random; each attempt is stored once, in order."""
    for seed in range(300):
        rng = random.Random(seed)
        ends = sorted(rng.sample(range(1, 60), 8))
        parts = [range(a, b) for a, b in zip([0, *ends], [*ends, 60], strict=True)]
        queue = PartQueue(map(Task, parts), size=rng.randint(1, 5))
        out: list[str] = []
        flying: list[Part] = []
        most = 0
        while not queue.done:
            while (part := queue.next(idle=not flying)) is not None:
                flying.append(part)
            most = max(most, len(flying))
            if flying:
                part = flying.pop(rng.randrange(len(flying)))
                chance = rng.random()
                part.lost += chance < 0.2
                if chance < 0.4:
                    queue.again(part)
                elif chance < 0.5 and len(part.task.indices) > 1:
                    queue.one_by_one(part)
                else:
                    part.scored = result(part.task.indices)
            for finished in queue.finished():
                out += indices_of(finished)
        assert out == [str(index) for index in range(60)]


def test_a_queue_holds_no_more_than_its_size() -> None:
    queue = PartQueue(map(Task, [range(2), range(2, 4), range(4, 6)]), size=2)
    first, second = queue.next(idle=True), queue.next(idle=True)
    assert first is not None
    assert second is not None
    assert queue.next(idle=True) is None
    second.scored = result(second.task.indices)
    assert list(queue.finished()) == []
    assert queue.next(idle=True) is None
    first.scored = result(first.task.indices)
    assert list(map(indices_of, queue.finished())) == [["0", "1"], ["2", "3"]]
    third = queue.next(idle=True)
    assert third is not None
    assert third.task.indices == range(4, 6)
