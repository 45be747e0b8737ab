"""Scores parts of a run's attempts on a Ray cluster, and survives the loss of its nodes.

The main process decides which worker scores which part, stores the results in the order of the parts,
and has the parts of lost workers scored again. Ray starts the workers and carries parts and results.
"""

import gc
import logging
import os
import pickle
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trivium._version import __version__
from trivium.errors import TriviumError
from trivium.metrics.text.encoders.encoder import cores, share_cores
from trivium.runs.engines.job import Job, Task, packed
from trivium.runs.engines.partition import PartScorer, ScoredPart
from trivium.runs.engines.ray_cluster import check_version, cluster, described, first_line
from trivium.runs.event_loop import THRESHOLDS_WHILE_SCORING

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.actor import ActorHandle

log = logging.getLogger(__name__)

AHEAD = 2
"""Parts at a worker: one that is scored, and one that waits."""

IN_MEMORY = 4
"""Parts for each worker that are on their way or wait for an earlier one to be stored."""

MOST_LOST = 2
"""Number of workers that a part may cost before its attempts are scored one at a time, and that one attempt
may then cost before its scores become errors."""

LOST_STARTS = 5
"""Workers lost in a row before they had started, after which the run ends."""

SECONDS_BETWEEN_REMINDERS = 30.0
"""How often a run says that it waits for a worker."""


class Part:
    """A part that workers score, with its state.

    Attributes:
        task: Its attempts.
        lost: Number of workers lost while they scored it.
        alone: Whether its worker gets no other part meanwhile. A lost worker may take its last result along;
            with two parts it would be unclear which one ended it.
        scored: Its rows, once it is scored.
    """

    def __init__(self, task: Task, *, alone: bool = False) -> None:
        self.task = task
        self.lost = 0
        self.alone = alone
        self.scored: ScoredPart | None = None


class PartQueue:
    """Keeps parts in order: those to score, those being scored, and scored ones that wait for others.

    Args:
        tasks: The attempts of each part.
        size: Maximum number of parts in the queue.
    """

    def __init__(self, tasks: Iterator[Task], size: int) -> None:
        self._tasks = tasks
        self._size = size
        self._read = False
        self._order: deque[Part] = deque()
        self._to_do: deque[Part] = deque()

    def next(self, *, idle: bool) -> Part | None:
        """Return the next part to be scored; None while the queue is full, or after the last.

        Args:
            idle: Whether the worker that gets it has no other.
        """
        if self._to_do:
            return self._to_do.popleft() if idle or not self._to_do[0].alone else None
        if len(self._order) >= self._size:
            return None
        task = next(self._tasks, None)
        if task is None:
            self._read = True
            return None
        self._order.append(Part(task))
        return self._order[-1]

    def finished(self) -> Iterator[tuple[Task, ScoredPart]]:
        """Yield and remove the scored parts that wait for no earlier one."""
        while self._order and (scored := self._order[0].scored) is not None:
            yield self._order.popleft().task, scored

    def again(self, part: Part) -> None:
        """Score a part again, before all others."""
        part.alone = part.lost > 0
        self._to_do.appendleft(part)

    def one_by_one(self, part: Part) -> None:
        """Score the attempts of a part one at a time, before all others."""
        single = [Part(part.task.alone(index), alone=True) for index in part.task.indices]
        place = self._order.index(part)
        after = [self._order.pop() for _ in range(len(self._order) - place)][-2::-1]
        self._order.extend(single + after)
        self._to_do.extendleft(reversed(single))

    @property
    def done(self) -> bool:
        """Whether every part has been scored and taken."""
        return self._read and not self._order


class _Worker(NamedTuple):
    """A process of the cluster, on one CPU.

    Attributes:
        actor: The process.
        awaited: What it will give: that it has started (None), then results, each of a part.
    """

    actor: "ActorHandle[Any]"
    awaited: "deque[tuple[ObjectRef[Any], Part | None]]"

    @property
    def starting(self) -> bool:
        """Whether it has not started yet."""
        return bool(self.awaited) and self.awaited[0][1] is None


class RayWorkers:
    """Workers on a Ray cluster that score parts of a run's attempts.

    The cluster is that of ``RAY_ADDRESS``, or else one that runs on this machine, or else one that Ray starts
    on this machine for the run. Other workers take over the parts of a lost one, and a new worker starts as
    soon as the cluster has a free CPU.

    Args:
        job: What is to be scored, and how. Every node must find its files under the same paths.
        count: Number of workers; None for as many as the cluster has CPUs when the run begins.
    """

    def __init__(self, job: Job, count: int | None) -> None:
        self._job = job
        self._count = count
        self._stopped = threading.Event()
        self._workers: list[_Worker] = []
        self._lost_starts = 0
        self._heard = time.monotonic()

    def stop(self) -> None:
        """End the workers; parts that are not scored yet are abandoned. From any thread."""
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

            job = ray.put(content)
            place = Place(__version__, str(Path.cwd()), tuple(sys.path))
            scorer = ray.remote(num_cpus=1, max_restarts=0)(RemoteScorer)

            def start() -> None:
                actor = scorer.remote()
                self._workers.append(_Worker(actor, deque([(actor.start.remote(job, place), None)])))

            count = self._count or cpus
            self._heard = time.monotonic()
            queue = PartQueue(tasks, IN_MEMORY * count)
            try:
                for _ in range(count):
                    start()
                while not self._stopped.is_set():
                    yield from queue.finished()
                    self._hand_out(queue)
                    if queue.done:
                        return
                    self._wait(queue, start)
            finally:
                for worker in self._workers:
                    ray.kill(worker.actor)

    def _hand_out(self, queue: PartQueue) -> None:
        """Give parts to the workers that have started, first to those that have none."""
        for most in range(1, AHEAD + 1):
            for worker in self._workers:
                if len(worker.awaited) >= most or any(
                    part is None or part.alone for _, part in worker.awaited
                ):
                    continue
                part = queue.next(idle=not worker.awaited)
                if part is None:
                    return
                worker.awaited.append((worker.actor.score.remote(part.task), part))

    def _wait(self, queue: PartQueue, start: Callable[[], None]) -> None:
        """Wait a second for a worker to give a result or to be lost."""
        import ray

        waiting = {worker.awaited[0][0]: worker for worker in self._workers if worker.awaited}
        ready, _ = ray.wait(list(waiting), num_returns=1, timeout=1.0)
        now = time.monotonic()
        if ready or not all(worker.starting for worker in self._workers):
            self._heard = now
        elif now - self._heard >= SECONDS_BETWEEN_REMINDERS:
            self._heard = now
            log.warning(
                "the run waits for a worker of the Ray cluster: no CPU is free, or starting takes long"
            )
        for each in ready:
            if self._stopped.is_set():
                return  # then workers end by themselves
            worker = waiting[each]
            if not self._received(worker):
                self._workers.remove(worker)
                ray.kill(worker.actor)
                self._score_again([part for _, part in worker.awaited if part is not None], queue)
                start()

    def _score_again(self, parts: Sequence[Part], queue: PartQueue) -> None:
        """Reschedule the parts of a lost worker, which was scoring the first while the others waited."""
        for part in reversed(parts):
            part.lost += part is parts[0]
            if part.lost < MOST_LOST:
                queue.again(part)
            elif len(part.task.indices) > 1:
                log.warning("%d workers were lost with one part: it is scored attempt by attempt", part.lost)
                queue.one_by_one(part)
            else:
                part.scored = PartScorer(self._job).unscored(part.task)

    def _received(self, worker: _Worker) -> bool:
        """Take the result of a worker; False if the worker is lost."""
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            result = ray.get(worker.awaited[0][0])
        except RayTaskError as failed:
            raise described(failed.cause) from failed
        except RayError as lost:
            log.warning("a worker of the Ray cluster was lost: %s", first_line(lost))
            self._lost_starts += worker.starting
            if self._lost_starts == LOST_STARTS:
                what = f"no worker of the Ray cluster starts: {first_line(lost)}"
                raise TriviumError(what) from lost
            return False
        _, part = worker.awaited.popleft()
        if part is None:
            self._lost_starts = 0
        else:
            part.scored = result
        return True


class Place(NamedTuple):
    """The state that a worker takes over from the main process, like a child process would.

    Attributes:
        version: Version of Trivium.
        folder: The working folder, where relative paths begin.
        search: Where modules are searched.
    """

    version: str
    folder: str
    search: tuple[str, ...]


class RemoteScorer:
    """The scorer that runs in a worker process of the cluster."""

    def start(self, job: bytes, place: Place) -> None:
        """Load the metrics and their models once.

        Raises:
            TriviumError: If this node has another version of Trivium, or does not find what the job names.
        """
        import ray

        node = ray.util.get_node_ip_address()
        check_version(place.version)
        gc.set_threshold(*THRESHOLDS_WHILE_SCORING)
        share_cores(cores())  # Ray gives each worker one CPU
        try:
            os.chdir(place.folder)
            sys.path += [each for each in place.search if each not in sys.path]
            loaded: Job = pickle.loads(job)  # noqa: S301 - the run has just written it
            self._scorer = PartScorer(loaded)
            if loaded.recorded is not None and len(loaded.recorded):
                next(loaded.recorded.read(range(1)))  # whether this node finds the files
        except (TriviumError, ImportError, OSError) as failed:
            hint = "every node needs the suite, the outputs and the modules of metrics, under the same paths"
            raise TriviumError(f"node {node}: {failed} ({hint})") from failed

    def score(self, task: Task) -> ScoredPart:
        """See :meth:`PartScorer.score`."""
        return self._scorer.score(task)
