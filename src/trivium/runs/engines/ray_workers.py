"""Scores parts of a run's attempts on a Ray cluster, and survives the loss of its nodes."""

import gc
import logging
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trivium._version import __version__
from trivium.errors import TriviumError
from trivium.metrics.metric import Metric
from trivium.metrics.text.encoders.encoder import cores, share_cores
from trivium.runs.engines.job import Job, Task, packed
from trivium.runs.engines.partition import PartScorer, ScoredPart
from trivium.runs.engines.ray_cluster import AHEAD, check_version, cluster, in_order
from trivium.runs.event_loop import THRESHOLDS_WHILE_SCORING

if TYPE_CHECKING:
    from ray import ObjectRef

log = logging.getLogger(__name__)

MOST_LOST = 2
"""Number of workers that a part may cost before its attempts are scored one at a time, and that one attempt
may then cost before its scores become errors."""

LOST_STARTS = 5
"""Workers lost in a row before they had started, after which the run ends."""

Submit = Callable[[Task], "ObjectRef[ScoredPart]"]
"""Has a part scored by a worker."""


class RayWorkers:
    """Workers on a Ray cluster that score parts of a run's attempts.

    The cluster is that of ``RAY_ADDRESS``, or else one that runs on this machine, or else one that Ray starts
    on this machine for the run. Ray starts a worker wherever a CPU is free. Other workers take over the parts
    of a lost one.

    Args:
        job: What is to be scored, and how. Every node must find its files under the same paths.
        metrics: The metrics of the job.
        count: Most workers; None for as many as the cluster has CPUs.
    """

    def __init__(self, job: Job, metrics: Sequence[Metric], count: int | None) -> None:
        self._job = job
        self._count = count
        self._modules = tuple(sorted({type(metric).__module__ for metric in metrics}))
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the scoring; parts that are not scored yet are abandoned. From any thread."""
        self._stopped.set()

    def scored(self, tasks: Iterator[Task]) -> Iterator[tuple[Task, ScoredPart]]:
        """Score parts, and yield each with its result, in order.

        At most a few parts for each worker are in memory.

        Raises:
            TriviumError: If there is no cluster, no worker starts, or the outputs or the cases have changed.
        """
        content = packed(self._job)
        with cluster() as cpus:
            import ray

            place = Place(__version__, str(Path.cwd()), tuple(sys.path), self._modules)
            # In a list, the task gets the reference, and checks the version before it loads what lies there.
            submit = partial(ray.remote(num_cpus=1, max_retries=0)(_score).remote, place, [ray.put(content)])
            # With fewer workers than CPUs, no part waits for a worker: one more would start for it.
            at_once = AHEAD * cpus if self._count in {None, cpus} else self._count or 1
            for part in in_order(submit, tasks, at_once=at_once, most_lost=MOST_LOST, stopped=self._stopped):
                if part.result is not None:
                    yield part.item, part.result
                else:
                    yield from self._one_by_one(part.item, submit)

    def _one_by_one(self, task: Task, submit: Submit) -> Iterator[tuple[Task, ScoredPart]]:
        """Score the attempts of a part alone, which shows the one that ends its workers."""
        for start in in_order(submit, iter([NOTHING]), at_once=1, most_lost=LOST_STARTS):
            if start.result is None:
                raise TriviumError(f"no worker of the Ray cluster starts: {start.why_lost}")
        log.warning("%d workers were lost with one part: it is scored attempt by attempt", MOST_LOST)
        attempts = map(task.alone, task.indices)
        for one in in_order(submit, attempts, at_once=1, most_lost=MOST_LOST, stopped=self._stopped):
            yield one.item, one.result or PartScorer(self._job).unscored(one.item)


NOTHING = Task(range(0), ())
"""A part without attempts, for which a worker only starts."""


class Place(NamedTuple):
    """The state that a worker takes over from the main process, like a child process would.

    Attributes:
        version: Version of Trivium.
        folder: The working folder, where relative paths begin.
        search: Where modules are searched.
        modules: The modules of the metrics.
    """

    version: str
    folder: str
    search: tuple[str, ...]
    modules: tuple[str, ...]


def _score(place: Place, job: "list[ObjectRef[bytes]]", task: Task) -> ScoredPart:
    """Score a part in a worker process of the cluster."""
    return _scorer(place, job[0]).score(task)


@lru_cache(maxsize=1)
def _scorer(place: Place, job: "ObjectRef[bytes]") -> PartScorer:
    import ray

    check_version(place.version)
    return started(place, ray.get(job))


def started(place: Place, job: bytes) -> PartScorer:
    """Prepare a worker: load the metrics and their models once.

    Args:
        place: The state of the main process.
        job: The job, pickled.

    Raises:
        TriviumError: If this node does not find what the job names.
    """
    import ray

    gc.set_threshold(*THRESHOLDS_WHILE_SCORING)
    share_cores(cores())  # Ray gives each worker one CPU
    try:
        os.chdir(place.folder)
        sys.path += [each for each in place.search if each not in sys.path]
        for module in place.modules:
            import_module(module)
        loaded: Job = pickle.loads(job)  # noqa: S301 - the run has just written it
        if loaded.recorded is not None and len(loaded.recorded):
            next(loaded.recorded.read(range(1)))  # whether this node finds the files
        return PartScorer(loaded)
    except (TriviumError, ImportError, OSError) as failed:
        hint = "every node needs the suite, the outputs and the modules of metrics, under the same paths"
        raise TriviumError(f"node {ray.util.get_node_ip_address()}: {failed} ({hint})") from failed
