"""Resamples on a Ray cluster of two nodes on this machine, one of which is killed; oracle: threads."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.cli.trust.trust_commands import items, run_trust
from tests.runs.ray.conftest import NODE, alive, lose_a_node
from trivium.errors import TriviumError
from trivium.runs.engines import ray_resampling
from trivium.runs.engines.ray_resampling import on_ray
from trivium.trust.cluster_bootstrap import BootstrapOptions
from trivium.trust.rater_agreement import agreement
from trivium.trust.resampling import ChunkMap, over_resamples
from trivium.trust.selective.inference import (
    bootstrap_deltas,
    bootstrap_selective_metrics,
)
from trivium.trust.selective.items import Items

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")


def invented(seed: int, groups: int, levels: int | None) -> Items:
    rng, size = np.random.default_rng(seed), groups
    sure = rng.random(size) if levels is None else rng.integers(levels, size=size) / levels
    return Items.of(range(size), rng.random(size), sure, predicted=rng.random(size) < 0.9)


@pytest.fixture(scope="class")
def chunk_map(cluster) -> Iterator[ChunkMap]:
    from ray import is_initialized

    with on_ray() as connected:
        yield connected
    assert not is_initialized()


class TestOnOneConnection:
    @pytest.mark.parametrize(("rng", "levels"), [("pcg64", None), ("legacy", 20)])
    def test_replicates_are_those_of_one_machine_to_the_bit(
        self, chunk_map, rng: str, levels: int | None
    ) -> None:
        left, right = invented(1, 70_000, levels), invented(2, 70_000, levels)
        names, told = ["aurc", "eaurc", "mae_at_0.5"], []
        plan = BootstrapOptions(resamples=70, seed=7, rng=rng)
        there = BootstrapOptions(resamples=70, seed=7, rng=rng, chunk_map=chunk_map, progress=told.append)
        remote = bootstrap_selective_metrics(left, names, there)
        remote_deltas = bootstrap_deltas(left, right, names, there)
        assert sum(told) == 140
        for name, found in bootstrap_selective_metrics(left, names, plan).items():
            assert remote[name].replicates.tobytes() == found.replicates.tobytes()
            assert remote[name].interval == found.interval
        for name, delta in bootstrap_deltas(left, right, names, plan).items():
            assert remote_deltas[name].estimate.replicates.tobytes() == delta.estimate.replicates.tobytes()

    def test_bca_and_agreement_are_those_of_one_machine_to_the_bit(self, chunk_map) -> None:
        made, draw = invented(3, 3_000, None), np.random.default_rng(4)
        plan = BootstrapOptions(resamples=50, seed=7, method="bca")
        people = draw.integers(1, 6, 70_000)
        graded = np.clip(people + draw.integers(-1, 2, people.size), 1, 5), people, range(people.size)
        there = bootstrap_selective_metrics(made, ["aurc"], replace(plan, chunk_map=chunk_map))["aurc"]
        agreed = agreement(*graded, resamples=150, chunk_map=chunk_map)
        here = bootstrap_selective_metrics(made, ["aurc"], plan)["aurc"]
        assert there.interval == here.interval
        assert agreed == agreement(*graded, resamples=150, threads=1)


def patient(folder: str, counts: np.ndarray) -> np.ndarray:
    """The counts of two groups, once there is a file ``go``."""
    Path(folder, f"began-{os.getpid()}").touch()
    while not Path(folder, "go").exists():
        time.sleep(0.01)
    return counts[:2].astype(np.float64)


def test_a_node_that_is_lost_costs_nothing(cluster, tmp_path: Path) -> None:
    """What the lost node was to compute, the other computes."""
    ended = Event()
    options = {"resamples": 40, "seed": 3, "rng": "pcg64", "at_once": 4}
    with ThreadPoolExecutor(1) as aside:
        lost = aside.submit(lose_a_node, cluster, tmp_path, ended)
        try:
            with on_ray() as chunk_map:
                found = over_resamples(
                    partial(patient, str(tmp_path)), 300_000, chunk_map=chunk_map, **options
                )
        finally:
            ended.set()
        lost.result()
    here = over_resamples(lambda counts: counts[:2].astype(np.float64), 300_000, threads=1, **options)
    assert found.tolist() == here.tolist()
    cluster.nodes_of_test.append(cluster.add_node(**NODE))


def answer(capfd, *words: str) -> dict:
    """What a command prints; of nodes lost before, Ray may tell on standard error whenever it likes."""
    code, out, _ = run_trust(capfd, *words, "--json")
    assert code == 0
    return json.loads(out)


def test_a_command_gives_the_same_answer(cluster, tmp_path: Path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ray_resampling, "SECONDS_BETWEEN_REMINDERS", float("inf"))  # on a busy machine
    computed = ray_resampling._computed

    def noisy(*given: Any) -> Iterator[np.ndarray]:
        print("(raylet) a node is lost")  # as Ray does whenever it likes: it must be no part of the answer
        yield from computed(*given)

    monkeypatch.setattr(ray_resampling, "_computed", noisy)
    options = (items(600), "--range", "0:1", "--bootstrap-resamples", "9000", "--created-at", "now")
    here, there = (answer(capfd, "curve", *options, "--engine", engine) for engine in ("local", "ray"))
    assert there == here
    options = (items(600), "--bootstrap-resamples", "9000")
    here, there = (answer(capfd, "agree", *options, "--engine", engine) for engine in ("local", "ray"))
    assert there == here


def failing(counts: np.ndarray) -> np.ndarray:
    raise ArithmeticError("in a worker")


def test_what_goes_wrong_in_a_worker_is_said(cluster) -> None:
    with on_ray() as chunk_map, pytest.raises(TriviumError, match="failed: ArithmeticError: in a worker"):
        over_resamples(failing, 5, resamples=20, seed=0, rng="pcg64", chunk_map=chunk_map)


def dying(counts: np.ndarray) -> np.ndarray:
    os._exit(1)


def test_resamples_that_end_every_worker_end_the_command(cluster, monkeypatch) -> None:
    monkeypatch.setattr(ray_resampling, "MOST_LOST", 1)
    with on_ray() as chunk_map, pytest.raises(TriviumError, match="cannot compute the resamples: "):
        over_resamples(dying, 5, resamples=20, seed=0, rng="pcg64", chunk_map=chunk_map)


def test_another_version_on_a_node_is_said(cluster, monkeypatch) -> None:
    monkeypatch.setattr(ray_resampling, "__version__", "0.0.0")
    with (
        on_ray() as chunk_map,
        pytest.raises(TriviumError, match=r"has Trivium .*, the run 0\.0\.0"),
    ):
        over_resamples(failing, 5, resamples=20, seed=0, rng="pcg64", chunk_map=chunk_map)


def test_ctrl_c_ends_the_workers(cluster, tmp_path: Path) -> None:
    """They would compute for ever."""
    from ray import is_initialized

    def interrupt() -> None:
        while len(list(tmp_path.glob("began-*"))) < 2:
            if ended.wait(0.01):
                return
        os.kill(os.getpid(), signal.SIGINT)

    ended, waiting = Event(), partial(patient, str(tmp_path))
    with ThreadPoolExecutor(1) as aside:
        aside.submit(interrupt)
        try:
            with pytest.raises(KeyboardInterrupt), on_ray() as chunk_map:
                over_resamples(waiting, 5, resamples=20, seed=0, rng="pcg64", at_once=1, chunk_map=chunk_map)
        finally:
            ended.set()
    assert not is_initialized()
    while any(alive(int(each.name.partition("-")[2])) for each in tmp_path.glob("began-*")):
        time.sleep(0.01)


def test_nothing_answers_or_ray_is_not_installed(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    code, out, err = run_trust(capsys, "curve", items(), "--engine", "ray")
    assert (code, out) == (2, "")
    assert "no Ray cluster answers at 127.0.0.1:1 (RAY_ADDRESS)" in err
    monkeypatch.setitem(sys.modules, "ray", None)
    code, out, err = run_trust(capsys, "curve", items(), "--engine", "ray")
    assert code == 2
    assert 'pip install "trivium[ray]"' in err
