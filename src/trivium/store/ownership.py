"""Which process writes a run: told apart even when a process number is used again."""

import os
import platform
from functools import cache
from pathlib import Path

LEASE_SECONDS = 60
"""How long a process of another machine that wrote nothing is still taken to be alive."""


@cache
def _process(pid: int) -> str:
    return f"{platform.node()}:{pid}:{_started(pid)}"


def this_process() -> str:
    """A name of this process: machine, number, and the kernel's tick at which it began."""
    return _process(os.getpid())


def is_surely_gone(owner: str) -> bool:
    """Whether the process that a name stands for has surely ended."""
    host, pid, started = owner.rsplit(":", 2)
    if host != platform.node() or os.name != "posix":  # elsewhere the signal 0 is one that ends a process
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return _started(int(pid)) != started


def _started(pid: int) -> str:
    """When a process began, in kernel ticks; empty where the system does not tell, or it has ended.

    One that has ended keeps its number until its parent has heard of it.
    """
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The second field is the program's name in brackets and may hold spaces itself.
    fields = status.rsplit(")", 1)[1].split()
    return "" if fields[0] in {"Z", "X"} else fields[19]
