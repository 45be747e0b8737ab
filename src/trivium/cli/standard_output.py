"""Standard output is for answers: what agents and what they start print goes to standard error."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import IO


@contextmanager
def kept_for_answers() -> Iterator[None]:
    """Meanwhile what is printed goes to standard error, by Python or not, here or in a child process."""
    out, err = _descriptor(sys.stdout), _descriptor(sys.stderr)
    with redirect_stdout(sys.stderr):
        if out is None or err is None:  # closed, or a test listens in their place
            yield
            return
        kept = os.dup(out)
        try:
            os.dup2(err, out)
            yield
        finally:
            os.dup2(kept, out)
            os.close(kept)


def _descriptor(stream: IO[str] | None) -> int | None:
    try:
        return None if stream is None else stream.fileno()
    except (OSError, ValueError):
        return None
