"""Scores parts of a run's attempts in several processes, and survives the loss of some of them."""

import gc
import logging
import multiprocessing
import os
import pickle
import shutil
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn, TypeVar

from trivium.errors import TriviumError
from trivium.metrics.text.encoders.encoder import share_cores
from trivium.processes import signals_put_off
from trivium.runs.engines.job import Job, NotPortable, Task, packed
from trivium.runs.engines.partition import PartScorer, ScoredPart
from trivium.runs.event_loop import THRESHOLDS_WHILE_SCORING

log = logging.getLogger(__name__)

T = TypeVar("T")

AHEAD = 2
"""Parts in flight for each worker: one that is scored, and one that waits."""


class NoWorkers(TriviumError):
    """No worker process can be started; nothing has been lost."""

    def __init__(self) -> None:
        super().__init__(
            "no worker process can be started (what stopped it is above). A script must call evaluate with "
            'workers under if __name__ == "__main__":. With one worker, no process is started.'
        )


class Workers:
    """Processes that score parts of a run's attempts.

    A process that ends unexpectedly takes the others with it (``ProcessPoolExecutor``). The parts in flight
    are then scored again in one process; the attempts of one that ends this process too, one at a time; and
    an attempt that does so alone gets errors in place of its scores.

    Args:
        job: What is to be scored, and how.
        count: Number of processes.
    """

    def __init__(self, job: Job, count: int) -> None:
        self._job = job
        self._count = count
        self._context = multiprocessing.get_context("spawn")  # a fork would not survive the run's threads
        self._while_open, self._open = self._context.Pipe(duplex=False)

    def stop(self) -> None:
        """End the workers; parts that are not scored yet are abandoned. From any thread."""
        self._open.close()

    def scored(self, tasks: Iterator[Task]) -> Iterator[tuple[Task, ScoredPart]]:
        """Score parts, and yield each with its result, in order. At most a few parts are in memory.

        Raises:
            NoWorkers: If no process can be started.
            TriviumError: If the outputs or the cases have changed.
        """
        # In a file: arguments travel through a pipe, and the run would wait for each process to start.
        with TemporaryDirectory(prefix="trivium-workers-") as folder:
            self._job_file = Path(folder) / "job"
            try:
                self._job_file.write_bytes(packed(self._job, folder=Path(folder)))
            except NotPortable as error:
                log.warning("%s", error)
                raise NoWorkers from error
            yield from self._scored(tasks)

    def _scored(self, tasks: Iterator[Task]) -> Iterator[tuple[Task, ScoredPart]]:
        flying: deque[tuple[Task, Future[ScoredPart] | None]] = deque()
        more = True
        while more:
            pool, started = self._started()
            try:
                while more:
                    while len(flying) < AHEAD * self._count and (task := next(tasks, None)) is not None:
                        flying.append((task, None))  # so that it is not lost if the pool breaks now
                        flying[-1] = (task, _submit(pool, _score, task))
                    more = bool(flying)
                    if flying and (future := flying[0][1]) is not None:
                        result = future.result()
                        yield flying.popleft()[0], result
            except BrokenProcessPool as broken:
                if self._open.closed:
                    return
                if not _succeeded(started):
                    raise NoWorkers from broken
                log.warning("a worker ended unexpectedly; up to %d parts are scored again", len(flying))
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
            for task, future in flying:
                if future is not None and _succeeded(future):
                    yield task, future.result()
                else:
                    yield from self._again(task)
            flying.clear()

    def _started(self) -> tuple[ProcessPoolExecutor, "Future[None]"]:
        """A pool, and the sign that its first process has started."""
        try:
            pool = self._pool(self._count)
            return pool, _submit(pool, _show_start)
        except (OSError, ImportError, NotImplementedError) as refused:  # some containers have no semaphores
            log.warning("no process can be started: %s", refused)
            raise NoWorkers from refused

    def _again(self, task: Task) -> Iterator[tuple[Task, ScoredPart]]:
        """Score a part by itself, or else its attempts, which shows the one that ends its process."""
        left = [task]
        while left:
            with self._pool(1) as pool:
                try:
                    while left:
                        scored = _submit(pool, _score, left[-1]).result()
                        yield left.pop(), scored
                except BrokenProcessPool:
                    if self._open.closed:
                        return
                    lost = left.pop()
                    if len(lost.indices) > 1:
                        left += [lost.alone(index) for index in reversed(lost.indices)]
                    else:
                        yield lost, PartScorer(self._job).unscored(lost)

    def _pool(self, count: int) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            count,
            mp_context=self._context,
            initializer=_begin,
            initargs=(self._job_file, self._count, self._while_open),
        )


def _succeeded(future: Future[Any] | None) -> bool:
    return future is not None and future.done() and not future.cancelled() and future.exception() is None


def _submit(pool: ProcessPoolExecutor, work: Callable[..., T], *arguments: Any) -> "Future[T]":
    """Submit work, which may start a process: one that Ctrl-C does not reach, for the run ends it."""
    with signals_put_off({signal.SIGINT}):
        return pool.submit(work, *arguments)


_scorer: PartScorer
"""That of this process, if it is a worker."""


def _begin(job: Path, workers: int, while_open: Any) -> None:
    """Prepare a worker: load the metrics and their models once.

    ``while_open`` is the end of a pipe, whose type Windows has under another name.
    """
    global _scorer  # noqa: PLW0603 - how a process of a pool keeps what it has loaded
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where signals cannot be blocked, see _submit
    _end_with_run(while_open, job.parent)
    gc.set_threshold(*THRESHOLDS_WHILE_SCORING)
    share_cores(workers)
    try:
        content = job.read_bytes()
    except FileNotFoundError:  # the run has been interrupted meanwhile, and has removed it
        _end()
    _scorer = PartScorer(pickle.loads(content))  # noqa: S301 - the run has just written it


def _show_start() -> None:
    """Run in a worker as its first call, to show that it has started."""


def _score(task: Task) -> ScoredPart:
    return _scorer.score(task)


def _end() -> NoReturn:
    os._exit(1)


def _end_with_run(while_open: Any, folder: Path) -> None:
    """End this process when the run stops its workers, or is killed: then the pipe is closed.

    A run that is killed cannot delete its temporary folder, so this process does.
    """

    def watch() -> None:
        wait([while_open])
        shutil.rmtree(folder, ignore_errors=True)
        _end()

    threading.Thread(target=watch, name="trivium-run-watch", daemon=True).start()
