"""Computes chunks of resamples on a Ray cluster, and survives the loss of its nodes."""

import logging
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from trivium._version import __version__
from trivium.errors import TriviumError
from trivium.runs.engines.ray_cluster import check_version, cluster, described, first_line
from trivium.trust.arrays import Floats
from trivium.trust.resampling import Chunk, ChunkMap, Compute

if TYPE_CHECKING:
    from ray import ObjectRef

log = logging.getLogger(__name__)

AHEAD = 2
"""Chunks for each CPU of the cluster that are computed or wait for it."""

MOST_LOST = 10
"""Workers that may be lost with a chunk before the command ends."""

SECONDS_BETWEEN_REMINDERS = 30.0
"""How often the command says that it waits for the cluster."""


@contextmanager
def on_ray() -> Iterator[ChunkMap]:
    """Connect to the cluster, and compute chunks of resamples there.

    The function and its data lie once in Ray's object store, from where each node fetches them. A task gets
    the generators of its chunk, on one CPU, and returns the replicates. Ray computes the chunks of a lost
    node again, elsewhere.

    Raises:
        TriviumError: If there is no cluster, a node has another version of Trivium, or ten workers are lost
            with one chunk.
    """
    with cluster() as cpus:
        yield lambda function, chunks: _computed(function, chunks, AHEAD * cpus)


def _computed(function: Compute, chunks: Iterator[Chunk], most: int) -> Generator[Floats, None, None]:
    """Yield the results in order; at most so many chunks are on their way.

    If this ends early, those on their way are left to the end of the connection, or computed in vain: to
    cancel a task that ends at this moment aborts the whole process (Ray 2.60).
    """
    import ray

    shared = ray.put(function)
    # In a list, the task gets the reference, and checks the version before it loads what lies there.
    compute = ray.remote(num_cpus=1, max_retries=MOST_LOST)(_compute)
    numbered = enumerate(chunks)
    on_their_way: dict[ObjectRef[Any], int] = {}
    finished: dict[int, Floats] = {}
    heard, wanted = time.monotonic(), 0
    while True:
        for number, chunk in islice(numbered, most - len(on_their_way)):
            on_their_way[compute.remote(__version__, [shared], chunk)] = number
        if not on_their_way:
            return
        ready, _ = ray.wait(list(on_their_way), num_returns=1, timeout=1.0)
        if ready:
            heard = time.monotonic()
        elif time.monotonic() - heard >= SECONDS_BETWEEN_REMINDERS:
            heard = time.monotonic()
            log.warning("the resampling waits for the Ray cluster: no CPU is free, or starting takes long")
        for each in ready:
            finished[on_their_way.pop(each)] = _received(each)
        while wanted in finished:
            yield finished.pop(wanted)
            wanted += 1


def _received(reference: "ObjectRef[Any]") -> Floats:
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        found: Floats = ray.get(reference)
    except RayTaskError as failed:
        raise described(failed.cause) from failed
    except RayError as lost:
        raise TriviumError(f"the Ray cluster cannot compute the resamples: {first_line(lost)}") from lost
    return found


def _compute(version: str, shared: "list[ObjectRef[Any]]", chunk: Chunk) -> Floats:
    """Compute a chunk in a worker, after checking its version of Trivium."""
    import ray

    check_version(version)
    function: Compute = ray.get(shared[0])
    return function(chunk)
