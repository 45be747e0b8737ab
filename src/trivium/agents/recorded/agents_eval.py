"""Agents-eval runs as attempts: ``agents-eval:FOLDER``, beside the suite of the same folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trivium.agents.attempt import Attempt
from trivium.agents.recorded.entering import attempt_of
from trivium.errors import OutputsError, Problem, TraceError
from trivium.suites.case import Case
from trivium.suites.files.reading import Malformed, read_mapping
from trivium.suites.sources.agents_eval import STREAM_FILE, TRACE_FILE, run_folders
from trivium.suites.suite import Suite
from trivium.traces.readers import read_trace_file
from trivium.traces.readers.agents_eval import read_run
from trivium.traces.trace import Trace

REVIEW_FILE = "review.json"


def read(path: Path, suite: Suite) -> "AgentsEvalRuns":
    """Every run of a folder.

    Raises:
        OutputsError: If a run is no case of the suite.
        SuiteError: If the folder holds no run.
    """
    return AgentsEvalRuns(path, suite)


class AgentsEvalRuns:
    """The runs of a folder as attempts, read one by one.

    The output is the review that the run wrote, where it kept one. The time is that of the trace, from the
    start of its first call to the end of its last: what the files state as start is the first *end*.
    """

    def __init__(self, path: Path, suite: Suite) -> None:
        self._suite = suite
        self._folders = run_folders(path)
        problems = [
            Problem(str(folder), f'the suite has no case "{id_}"')
            for id_, folder in self._folders.items()
            if suite.position(id_) is None
        ]
        if problems:
            raise OutputsError(str(path), problems[:20], left_out=max(0, len(problems) - 20))

    def __len__(self) -> int:
        return len(self._folders)

    def __iter__(self) -> Iterator[tuple[Case, Attempt]]:
        """Each run with its case."""
        limit = self._suite.settings.limits.output_bytes
        for id_, folder in self._folders.items():
            yield self._suite.case(id_), _attempt(id_, folder, limit)


def _attempt(case: str, folder: Path, limit: int) -> Attempt:
    trace = output = unreadable = failure = None
    try:
        trace = read_run(folder) if (folder / TRACE_FILE).exists() else _of_claude_code(folder / STREAM_FILE)
    except TraceError as error:
        unreadable = str(error)
    try:
        output = _review(folder / REVIEW_FILE)
    except Malformed as malformed:
        failure = f"the review cannot be read: {malformed.problem}"
    return attempt_of(
        case=case,
        repeat=0,
        output=output,
        limit=limit,
        seconds=None if trace is None else trace.seconds,
        trace=trace,
        trace_error=unreadable,
        error=failure,
    )


def _of_claude_code(path: Path) -> Trace:
    """The trace of a run's one session.

    Raises:
        TraceError: If there is none, or several.
    """
    traces = read_trace_file(path, "claude-code")
    if len(traces) != 1:
        raise TraceError(str(path), f"expected one session, found {len(traces):,}")
    return traces[0]


def _review(path: Path) -> Any:
    """The text of a review, or all of it where it has no text of its own; None where there is none."""
    if not path.exists():
        return None
    raw = read_mapping(path)
    review = raw.get("review", raw)
    comments = review.get("comments") if isinstance(review, dict) else None
    return comments if isinstance(comments, str) else review
