"""Makes attempts from recorded traces, and joins them with the cases of a suite."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from trivium.agents.attempt import NO_ANSWER, NO_QUESTION, OUTPUT_LEFT_OUT, Attempt, Usage, numbered
from trivium.agents.recorded.record import checked_attempt
from trivium.errors import OutputsError, Problem, suggest
from trivium.storage import path_of
from trivium.suites.case import Case
from trivium.suites.suite import Suite
from trivium.traces.conversations import by_conversation
from trivium.traces.opentelemetry.evaluations import recorded_scores
from trivium.traces.outcome import (
    CASE_KEYS,
    counted_usage,
    input_of,
    output_of,
    said_in,
    stated_cases,
    stated_usage,
    total_usage,
)
from trivium.traces.readers.collection import LocatedTrace, TraceFiles
from trivium.traces.trace import Trace

log = logging.getLogger(__name__)

MOST_LISTED = 5
"""Traces that a message names; the others are counted."""


def attempt_of_trace(trace: Trace, *, case: str, limit: int, repeat: int = 0) -> Attempt:
    """Make an attempt from a trace: its output, wall time, tokens and cost are those of the trace.

    A conversation of several turns has its messages, too. A trace that ended with an error is no failed
    attempt: what can be said of its steps is said (and the metric ``completed`` is 0).

    Args:
        trace: The trace.
        case: Id of the case.
        limit: Largest output in bytes; a larger one is left out, with a flag. A trace without a question or
            an answer gets a flag, too.
        repeat: Which attempt of the case this is, from 0.
    """
    usage = stated_usage(trace) or total_usage(usage for _, usage in counted_usage(trace))
    reported = Usage(
        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cost_usd=usage.cost_usd
    )

    said = said_in(trace)
    several = sum(each["role"] == "user" for each in said) > 1
    messages = tuple(numbered(said)) if several else ()

    def attempt(output: object, flags: tuple[str, ...]) -> Attempt:
        recorded = Attempt(
            case=case,
            repeat=repeat,
            output=output,
            trace=trace,
            usage=None if reported == Usage() else reported,
            flags=flags,
            messages=messages,
            metadata=recorded_scores(trace),
        )
        return checked_attempt(recorded, limit=limit)

    output = output_of(trace)
    unasked = (NO_QUESTION,) if input_of(trace) is None else ()
    made = attempt(output, unasked if output is not None else (*unasked, NO_ANSWER))
    return attempt(None, (*unasked, OUTPUT_LEFT_OUT)) if made.failed else made


class TracesOfSuite:
    """The traces of a file or folder, joined with cases by what :func:`stated_cases` finds in each.

    Traces of one case count as its repeats, in their order. Traces of no case are left out with a warning.
    The files are read twice: to check the join before anything is stored, and for the attempts.

    Args:
        path: The file or folder; an address may be a pattern.
        suite: The suite; its ``limits.output_bytes`` bounds each output.
        conversations: Whether the traces of one conversation are one attempt.

    Raises:
        InputError: If an address cannot be reached, or a pattern matches no file.
        OutputsError: If a file cannot be read, or no trace is an attempt of a case.
        TraceError: If there is no such file.
    """

    def __init__(self, path: str | Path, suite: Suite, *, conversations: bool = False) -> None:
        self._path = path
        self._suite = suite
        self._conversations = conversations
        files = TraceFiles([path])
        joined = 0
        others: list[str] = []
        number = 0
        for found in self._joined(files):
            number += 1
            if self._case(found.trace) is not None:
                joined += 1
            else:
                others.append(found.trace.trace_id or f"(without an id, in {found.file})")
        problems = list(files.problems)
        if not number and not problems:
            folder = "is a folder: expected a file of outputs, or traces, and it holds no trace"
            problems.append(Problem(str(path), folder if path_of(path).is_dir() else "holds no trace"))
        if problems:
            raise OutputsError("", problems[:MOST_LISTED], left_out=max(0, len(problems) - MOST_LISTED))
        if not joined:
            raise OutputsError(str(path), self._why_none(others))
        if others:
            log.warning("%s: left out, because they fit no case: %s", path, _listed(others))
        self._attempts = joined

    def __len__(self) -> int:
        return self._attempts

    def __iter__(self) -> Iterator[tuple[Case, Attempt]]:
        """Each joined trace with its case, in the order of the files."""
        repeats: Counter[str] = Counter()
        limit = self._suite.settings.limits.output_bytes
        for found in self._joined(TraceFiles([self._path])):
            case = self._case(found.trace)
            if case is None:
                continue
            repeat = repeats[case]
            repeats[case] += 1
            yield (
                self._suite.case(case),
                attempt_of_trace(found.trace, case=case, repeat=repeat, limit=limit),
            )

    def _joined(self, files: TraceFiles) -> Iterable[LocatedTrace]:
        return by_conversation(files) if self._conversations else files

    def _case(self, trace: Trace) -> str | None:
        return next((each for each in stated_cases(trace) if self._suite.position(each) is not None), None)

    def _why_none(self, others: list[str]) -> str:
        cases = [case.id for case, _ in zip(self._suite, range(10_000), strict=False)]
        near = suggest(others[0], cases)
        keys = ", ".join(f'"{key}"' for key in CASE_KEYS)
        return (
            f"none of its {len(others):,} traces is an attempt of a case of the suite.{near} "
            f"A trace names its case by its trace_id, by {keys} in its metadata or in the attributes of its "
            f"outermost span, or by a tag. Traces: {_listed(others)}; cases: {_listed(cases)}. "
            f"Without a suite: trivium traces score {self._path}"
        )


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_LISTED
    return ", ".join(names[:MOST_LISTED]) + (f" and {more:,} more" if more > 0 else "")
