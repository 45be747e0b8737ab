"""Opens recorded attempts. A new kind of source needs one module and one line in ``SOURCES``."""

import glob
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Protocol, runtime_checkable

from trivium.agents.attempt import Attempt
from trivium.errors import OutputsError
from trivium.storage import is_remote, path_of
from trivium.suites.case import Case
from trivium.suites.sources import split_prefix
from trivium.suites.suite import Suite

__all__ = ["LEAVE_ONE_OUT", "SOURCES", "Carried", "Partitioned", "Recorded", "open_recorded"]

SOURCES = {
    "tau-bench": "trivium.formats.tau_bench:read_attempts",
    "agents-eval": "trivium.formats.agents_eval:read_attempts",
    "inspect": "trivium.formats.inspect_log.samples:read_attempts",
    "lm-eval": "trivium.formats.lm_eval:read_attempts",
    "promptfoo": "trivium.formats.promptfoo:read_attempts",
    "peerread": "trivium.formats.peerread:read_attempts",
}
"""Functions that read a path for a suite and return validated attempts, by prefix."""

LEAVE_ONE_OUT = frozenset({"peerread"})
"""Sources of human outputs, each of which is compared with the other outputs of its case."""


TRACES = "traces:"
"""Prefix of a file or folder of traces, which :mod:`trivium.agents.recorded.traces` joins with cases."""

CONVERSATIONS = "conversations:"
"""Prefix of a file or folder of traces of which those of one conversation are one attempt."""


class Recorded(Protocol):
    """Attempts with their cases; can be iterated several times."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[tuple[Case, Attempt]]: ...


@runtime_checkable
class Partitioned(Recorded, Protocol):
    """Attempts of which any part can be read by itself; can be pickled, to be read in another process."""

    def parts(self) -> Iterator[range]:
        """Yield ranges of indices that cover all attempts in order, each bounded in number and in size."""

    def read(self, part: range) -> Iterator[tuple[Case, Attempt]]:
        """Yield the attempts of a range of indices, each with its case."""


@runtime_checkable
class Carried(Partitioned, Protocol):
    """Attempts that come with their cases, checked, and that only this process can read.

    Their rows are sent to others that score them.

    Attributes:
        name: What they are called in the run.
    """

    name: str

    def rows(self, part: range) -> Iterator[tuple[int, str, str]]:
        """Yield the attempts of a range of indices: position, JSON of the case, JSON of the attempt."""


def open_recorded(
    source: str, suite: Suite, *, leave_one_out: bool = False, skip_invalid: bool = False
) -> Recorded:
    """Open the attempts of a source, each with the case that it is scored against.

    The whole source is validated before this returns.

    Args:
        source: A .jsonl, .csv, .parquet or .json file, a folder of them or a pattern such as
            ``logs/*.jsonl``, a file or folder of traces (``conversations:PATH`` joins those of one
            conversation), or a prefixed source such as ``tau-bench:FILE``.
        suite: The suite with the cases.
        leave_one_out: Score human outputs, each with the other outputs of its case as references.
        skip_invalid: Leave out outputs with mistakes, and files that cannot be read, as long as there are
            others.

    Raises:
        InputError: With the mistakes of the source.
    """
    traces = source.startswith((TRACES, CONVERSATIONS))
    prefix, path = (None, source) if traces else split_prefix(source)
    traces = traces or (prefix is None and holds_traces(source))
    if skip_invalid and (traces or prefix is not None):
        raise OutputsError(source, "is no file of outputs: only there can invalid ones be left out")
    if traces:
        return _traces(source, suite, leave_one_out=leave_one_out)
    people = prefix in LEAVE_ONE_OUT
    if leave_one_out and not people:
        what = f"has no people's outputs to leave one out of; {' and '.join(sorted(LEAVE_ONE_OUT))} has"
        raise OutputsError(source, what)
    if people and not leave_one_out:
        raise OutputsError(source, "holds people's outputs, which are scored with --leave-one-out")
    if prefix is not None and prefix not in SOURCES:
        raise OutputsError(source, f'holds no outputs: "{prefix}:" is a suite only')
    if prefix is None:
        from trivium.agents.recorded.outputs import RecordedOutputs, files_of_outputs

        return RecordedOutputs(files_of_outputs(path) or [path_of(path)], suite, skip_invalid=skip_invalid)
    module, _, function = SOURCES[prefix].partition(":")
    recorded: Recorded = getattr(import_module(module), function)(Path(path), suite)
    return recorded


def _traces(source: str, suite: Suite, *, leave_one_out: bool) -> Recorded:
    from trivium.agents.recorded.traces import TracesOfSuite

    if leave_one_out:
        raise OutputsError(source, "holds traces, and no people's outputs to leave one out of")
    path = source.removeprefix(TRACES).removeprefix(CONVERSATIONS)
    return TracesOfSuite(path, suite, conversations=source.startswith(CONVERSATIONS))


def holds_traces(path: str | Path) -> bool:
    """Whether a path is a folder or a file whose beginning is that of a trace rather than of an output."""
    from trivium.agents.recorded.outputs import files_of_outputs
    from trivium.records.source import TABLES
    from trivium.traces.readers.collection import trace_format

    if is_remote(str(path)) and glob.has_magic(str(path)):
        return False
    path = path_of(str(path))
    if path.is_dir():
        return files_of_outputs(str(path)) is None
    no_table = path.suffix.lower() not in TABLES
    return no_table and path.is_file() and trace_format(path, unless_key="case") is not None
