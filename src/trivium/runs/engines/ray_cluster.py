"""Connects to a Ray cluster, or starts one on this machine; describes what goes wrong there."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from trivium._version import __version__
from trivium.errors import MissingExtra, TriviumError


@contextmanager
def cluster() -> Iterator[int]:
    """Connect to the cluster, or start one on this machine; gives its number of CPUs.

    Ray ends the processes that it starts when the thread that started them ends, so that a cluster of this
    machine does not outlive the command.
    """
    try:
        import ray
    except ImportError as missing:
        raise MissingExtra("ray", "--engine ray") from missing
    from ray.exceptions import RayError

    mine = not ray.is_initialized()
    if mine:
        _check_answers(os.environ.get("RAY_ADDRESS", ""))
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster of our own reports nothing
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR)
        except (RayError, OSError, RuntimeError, ValueError) as refused:
            raise TriviumError(f"Ray cannot be reached or started: {first_line(refused)}") from refused
    try:
        yield max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        if mine:
            ray.shutdown()


def _check_answers(address: str) -> None:
    """Refuse an address at which nothing answers; Ray would try for minutes, then end the process."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except OSError as refused:
        raise TriviumError(f"no Ray cluster answers at {address} (RAY_ADDRESS): {refused}") from refused


def described(cause: BaseException) -> TriviumError:
    """The error of a worker as that of the command."""
    if isinstance(cause, TriviumError):
        return cause
    return TriviumError(f"a worker of the Ray cluster failed: {type(cause).__name__}: {cause}")


def first_line(error: BaseException) -> str:
    """The first line of what an error says."""
    return str(error).strip().partition("\n")[0]


def check_version(version: str) -> None:
    """Check that this node has the version of Trivium of the command.

    Raises:
        TriviumError: If it has another one.
    """
    import ray

    if version != __version__:
        found = f"node {ray.util.get_node_ip_address()} has Trivium {__version__}, the run {version}"
        raise TriviumError(f"{found}: install the same on every node")
