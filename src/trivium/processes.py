"""Identifies processes, ends them, and asks whose a file is; also on Windows, which lacks POSIX's functions.

Other modules use what only POSIX has through this one (``tests/test_without_posix.py``).
"""

import os
import platform
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

HAS_GROUPS = hasattr(os, "killpg")
"""Whether a process can be ended together with those that it started: on POSIX."""


@cache
def _process(pid: int) -> str:
    return f"{platform.node()}:{pid}:{_started(pid)}"


def this_process() -> str:
    """Identify this process by host name, process id and start time in kernel ticks."""
    return _process(os.getpid())


def has_certainly_ended(owner: str) -> bool:
    """Whether the process with this identity (:func:`this_process`) has certainly ended.

    On Windows no process is asked: signal 0, which is harmless elsewhere, is Ctrl-C there.
    """
    host, pid, started = owner.rsplit(":", 2)
    if host != platform.node() or not HAS_GROUPS:
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return _started(int(pid)) != started


def _started(pid: int) -> str:
    """Return the start time of a process in kernel ticks; empty if unknown, or if the process has ended.

    An ended process keeps its id as a zombie until its parent waits for it.
    """
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The second field is the program's name in brackets and may hold spaces itself.
    fields = status.rsplit(")", 1)[1].split()
    return "" if fields[0] in {"Z", "X"} else fields[19]


def kill_with_children(pid: int) -> None:
    """Kill a process that leads its own group (``start_new_session``) with all that it started and left.

    On Windows only that process: it knows no groups.
    """
    with suppress(ProcessLookupError, PermissionError):  # all of them have ended
        if hasattr(os, "killpg") and hasattr(signal, "SIGKILL"):
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGTERM)


def interrupting_signal() -> signal.Signals:
    """The signal that ends a command like Ctrl-C; on Windows the one that ends it at once."""
    return signal.SIGINT if HAS_GROUPS else signal.SIGTERM


def after_fork(forget: Callable[[], object]) -> None:
    """Call a function in each forked process, if processes fork here."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forget)


def is_own(path: Path) -> bool:
    """Whether a file belongs to this process's user; True where files have no such owner.

    Raises:
        OSError: If it cannot be looked at.
    """
    return not hasattr(os, "getuid") or path.stat().st_uid == os.getuid()


@contextmanager
def signals_put_off(signals: set[signal.Signals]) -> Iterator[None]:
    """Let signals wait in this thread, and in processes that it starts; on Windows they do not wait."""
    if sys.platform == "win32" or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
