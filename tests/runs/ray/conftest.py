"""A Ray cluster of two nodes on this machine."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

NODE = {
    "node_ip_address": "127.0.0.1",
    "num_cpus": 1,
    "object_store_memory": 80 * 2**20,
    "include_log_monitor": False,
}
LOOPBACK = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray then takes the loopback address, as on these systems
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]),
}


@pytest.fixture(scope="package")
def cluster() -> Iterator[object]:
    """A head and a node of one CPU each; both score. It takes seconds to start."""
    from ray._private import ray_constants

    with pytest.MonkeyPatch.context() as patch:
        for name, value in LOOPBACK.items():
            patch.setenv(name, value)
        patch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", False)
        made = started()
        try:
            patch.setenv("RAY_ADDRESS", made.address)
            yield made
        finally:
            made.shutdown()


def lose_a_node(cluster: Any, folder: Path, ended: Event) -> None:
    """Kill a node once two processes have begun (``began-PID``), then tell the other by a file ``go``."""
    while len(begun := list(folder.glob("began-*"))) < 2:
        if ended.wait(0.01):
            return
    cluster.remove_node(cluster.nodes_of_test.pop(), allow_graceful=False)
    while all(alive(int(each.name.partition("-")[2])) for each in begun):
        time.sleep(0.01)
    (folder / "go").touch()


def alive(pid: int) -> bool:
    """Whether a process runs. In some containers nobody reaps orphans that have ended."""
    try:
        os.kill(pid, 0)
        return not Path("/proc").is_dir() or "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


def started() -> object:
    """Start the nodes; Ray gives each 30 seconds, which a busy machine may need more than once."""
    from ray.cluster_utils import Cluster

    for attempts_left in (2, 1, 0):
        made = Cluster()
        try:
            made.add_node(**NODE, no_monitor=True, include_dashboard=False)  # the head
            made.nodes_of_test = [made.add_node(**NODE)]
        except Exception:
            made.shutdown()
            if not attempts_left:
                raise
        else:
            return made
    raise AssertionError
