"""Computes on a Ray cluster, and survives the loss of its nodes: any tasks, and chunks of resamples.

The main process decides what is computed and yields results in order; Ray starts workers and carries data.
"""

import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from trivium._version import __version__
from trivium.errors import MissingExtra, TriviumError
from trivium.trust.arrays import Floats
from trivium.trust.resampling import ChunkMap, Compute, Weightings

if TYPE_CHECKING:
    from ray import ObjectRef

log = logging.getLogger(__name__)

T = TypeVar("T")

AHEAD = 2
"""Tasks for each CPU of the cluster: one that is computed, and one that waits."""

MOST_LOST = 10
"""Workers that may be lost with a chunk of resamples before the command ends."""

SECONDS_BETWEEN_REMINDERS = 30.0
"""How often the command says that it waits for the cluster."""


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


@dataclass
class Computed(Generic[T]):
    """An item and what became of its task.

    Attributes:
        item: The item.
        result: Its result; None if too many workers were lost with it.
        workers_lost: Number of workers that were lost with it.
        why_lost: How Ray describes the loss of the last worker.
        done: Whether there will be no further task.
    """

    item: T
    result: Any = None
    workers_lost: int = 0
    why_lost: str = ""
    done: bool = False


def in_order(
    submit: "Callable[[T], ObjectRef[Any]]",
    items: Iterator[T],
    *,
    at_once: int,
    most_lost: int,
    stopped: Event | None = None,
) -> Generator[Computed[T], None, None]:
    """Compute a task for each item, and yield each item with its result, in order.

    A task whose worker is lost is computed again, elsewhere. If this ends early, tasks on their way are left
    to the end of the connection, or computed in vain: to cancel a task that ends at this moment aborts the
    whole process (Ray 2.60).

    Args:
        submit: Submits the task of an item, which Ray itself does not compute again.
        items: The items.
        at_once: Most tasks on their way. As many results may wait for an earlier one.
        most_lost: Workers that an item may cost before it is yielded without a result.
        stopped: Ends this once it is set.

    Raises:
        TriviumError: If a task raises an error.
    """
    import ray

    order: deque[Computed[T]] = deque()
    running: dict[ObjectRef[Any], Computed[T]] = {}
    heard = time.monotonic()
    while stopped is None or not stopped.is_set():
        while len(running) < at_once and len(order) < 2 * at_once and (item := next(items, None)) is not None:
            order.append(Computed(item))
            running[submit(item)] = order[-1]
        if not order:
            return
        ready, _ = ray.wait(list(running), num_returns=1, timeout=1.0)
        if ready:
            heard = time.monotonic()
        elif time.monotonic() - heard >= SECONDS_BETWEEN_REMINDERS:
            heard = time.monotonic()
            log.warning("waiting for the Ray cluster: no CPU is free, or starting or computing takes long")
        for reference in ready:
            computed = running.pop(reference)
            _receive(reference, computed)
            if not computed.done and computed.workers_lost < most_lost:
                running[submit(computed.item)] = computed
            else:
                computed.done = True
        while order and order[0].done:
            yield order.popleft()


def _receive(reference: "ObjectRef[Any]", computed: Computed[T]) -> None:
    """Take the result of a task, or the loss of its worker."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        computed.result, computed.done = ray.get(reference), True
    except RayTaskError as failed:
        raise described(failed.cause) from failed
    except RayError as lost:
        log.warning("a worker of the Ray cluster was lost: %s", first_line(lost))
        computed.workers_lost, computed.why_lost = computed.workers_lost + 1, first_line(lost)


@contextmanager
def on_ray() -> Iterator[ChunkMap]:
    """Connect to the cluster, and compute chunks of resamples there.

    The function and its data lie once in Ray's object store, from where each node fetches them. A task gets
    the generators of its chunk, on one CPU, and returns the replicates.

    Raises:
        TriviumError: If there is no cluster, a node has another version of Trivium, or ten workers are lost
            with one chunk.
    """
    with cluster() as cpus:
        yield lambda function, chunks: _replicates(function, chunks, AHEAD * cpus)


def _replicates(function: Compute, chunks: Iterator[Weightings], most: int) -> Generator[Floats, None, None]:
    import ray

    shared = ray.put(function)
    # In a list, the task gets the reference, and checks the version before it loads what lies there.
    task = ray.remote(num_cpus=1, max_retries=0)(_compute)
    submit = partial(task.remote, __version__, [shared])
    for computed in in_order(submit, chunks, at_once=most, most_lost=MOST_LOST):
        if computed.result is None:
            raise TriviumError(f"the Ray cluster cannot compute the resamples: {computed.why_lost}")
        yield computed.result


def _compute(version: str, shared: "list[ObjectRef[Any]]", chunk: Weightings) -> Floats:
    """Compute a chunk in a worker, after checking its version of Trivium."""
    import ray

    check_version(version)
    function: Compute = ray.get(shared[0])
    return function(chunk)
