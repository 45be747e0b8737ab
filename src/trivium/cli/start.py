"""Where the command begins: the overview at once, everything else through Click."""

import errno
import gc
import io
import os
import sys
from contextlib import suppress

from trivium.cli.overview import columns, overview

_CANNOT_WRITE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF}
"""What is wrong when standard output, which has no name, cannot be written to."""

_WITH_A_VALUE = {"--log-level", "--log-file"}
"""Options before the command."""


def main() -> None:
    """Entry point of ``trivium``."""
    _open_what_is_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an ASCII terminal gets "?" in a table; JSON is UTF-8 bytes
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()
    except OSError as error:
        left = isinstance(error, BrokenPipeError)  # the reader (`| head`): nothing is wrong
        if not left and (error.filename is not None or error.errno not in _CANNOT_WRITE):
            raise
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # what is left would fail at exit again
        if not left:
            with suppress(OSError):  # it may be standard error that is on the full disk
                sys.stderr.write(f"Error: the output cannot be written: {error.strerror}\n")
                sys.stderr.flush()
        code = 0 if left else 2
    if code:
        sys.exit(code)


def _open_what_is_closed() -> None:
    """Give closed streams (``>&-``) a place, or the next file that is opened, a store's, would be theirs."""
    if None not in {sys.stdin, sys.stdout, sys.stderr}:
        return
    while (spare := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(spare)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


def _run(arguments: list[str]) -> int:
    completing = "_TRIVIUM_COMPLETE" in os.environ  # a shell asks so, without arguments
    if arguments in ([], ["-h"], ["--help"]) and not completing:
        sys.stdout.write(overview(columns()) + "\n")
        return 0
    from trivium.cli.main import run_command
    from trivium.runs.engines.cycles import SELDOM

    # For good: Python's own would have everything looked through once more before the process ends.
    gc.set_threshold(*SELDOM)
    if _command(arguments) == "score" and not {"-h", "--help"} & set(arguments):
        _seek_no_work()
    return run_command(arguments)


def _command(arguments: list[str]) -> str | None:
    """The command among the arguments: the first that is no option, nor the value of one."""
    words = iter(arguments)
    for word in words:
        if not word.startswith("-"):
            return word
        if word in _WITH_A_VALUE:
            next(words, None)
    return None


def _seek_no_work() -> None:
    """Have nothing look for work that is not there: no agent is asked, no large matrix multiplied."""
    from trivium.runs.engines.cycles import HARDLY

    gc.set_threshold(*HARDLY)
    # The threads that NumPy's OpenBLAS starts, one a core, turn for 2**26 cycles each before they sleep.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    import trivium.cli.evaluating  # noqa: F401

    gc.freeze()  # what was imported stays
