"""What result files of other tools have in common: outputs that were scored there, each with its question."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from trivium.agents.attempt import Attempt
from trivium.agents.recorded.record import checked_attempt, duplicate_of, no_such_case
from trivium.errors import OutputsError, Problem, Problems, SuiteError, TraceError, raise_problems
from trivium.suites.case import Case
from trivium.suites.selection import cases_of
from trivium.suites.sources import SourceCases
from trivium.suites.suite import Suite
from trivium.values import JsonObject, is_number


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One output with its question; several of one case are its repeats, in the order of the file.

    Attributes:
        where: Its place in the file.
        input: What was asked.
        references: Answers that are right.
        about: Metadata of the case.
        attempt: The output. Its reward says whether, or how far, that was right, in [0, 1]; ``scores`` in its
            metadata are those of the tool by the names of their metrics, as :func:`scored` makes them.
    """

    where: str
    input: Any
    references: tuple[str, ...] = ()
    about: JsonObject = {}
    attempt: Attempt


class Found(NamedTuple):
    """The case and the repeat that something in a file is an attempt of, its place, and the thing itself."""

    case: str
    repeat: int
    where: str
    held: Any


class NamedAttempts:
    """The attempts of a file that names cases of a suite; what they hold is read one by one.

    Args:
        source: The file, for messages.
        suite: The suite.
        find: Finds all attempts in the file, in order; called for each iteration.
        make: Makes the attempt of something that was found, with at most so many bytes of output.

    Raises:
        OutputsError: If the suite has no such case, or an attempt occurs twice.
    """

    def __init__(
        self,
        source: str,
        suite: Suite,
        find: Callable[[], Iterable[Found]],
        make: Callable[[Found, int], Attempt],
    ) -> None:
        self._suite, self._find, self._make = suite, find, make
        problems = Problems(source, OutputsError)
        first: dict[tuple[str, int], str] = {}
        for case, repeat, where, _ in find():
            earlier = first.setdefault((case, repeat), where)
            if suite.position(case) is None:
                problems.add(Problem(where, no_such_case(suite, case, suggests=not problems.full)))
            elif earlier != where:
                problems.add(Problem(where, duplicate_of(earlier, case, repeat)))
        problems.check()
        self._count = len(first)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[Case, Attempt]]:
        """Each attempt with its case."""
        limit = self._suite.settings.limits.output_bytes
        for found in self._find():
            yield self._suite.case(found.case), self._make(found, limit)


def scored(value: Any, **further: str | None) -> JsonObject:
    """A recorded score; a value that is no number in [0, 1] is only ``raw``."""
    known = is_number(value) and 0 <= value <= 1
    score: JsonObject = {"value": float(value)} if known else {}
    if not isinstance(value, float) or isfinite(value):
        score["raw"] = value
    return score | {key: text for key, text in further.items() if text}


def suite_of(path: Path, name: str, read: Callable[[Path], Sequence[Sample]]) -> SourceCases:
    """The cases of a file, with its scores as metrics.

    Raises:
        SuiteError: If the file cannot be read, or a case is not valid.
    """
    try:
        samples = read(path)
    except TraceError as error:
        raise SuiteError(error.source, error.problems) from error
    first = {sample.attempt.case: sample for sample in reversed(samples)}
    placed = [
        (
            each.where,
            {"id": id_, "input": each.input, "references": list(each.references), "metadata": each.about},
        )
        for id_, each in reversed(first.items())
    ]
    cases, problems = cases_of(placed)
    raise_problems(problems, str(path))
    attempts = [sample.attempt for sample in samples]
    names = list(dict.fromkeys(name for each in attempts for name in each.metadata["scores"]))
    repeats = max(Counter(each.case for each in attempts).values())
    settings: JsonObject = {"metrics": names, "repeats": repeats}
    if any(each.reward is not None for each in attempts):
        settings |= {"metrics": [*names, "success"], "success": {"reward": 1.0}}
    return SourceCases(name, cases, settings)


def attempts_of(path: Path, suite: Suite, read: Callable[[Path], Sequence[Sample]]) -> "NamedAttempts":
    """The outputs of a file as attempts, with their scores in ``metadata.scores``.

    Raises:
        OutputsError: If an output is not of a case of the suite.
        TraceError: If the file cannot be read.
    """
    repeats: Counter[str] = Counter()
    found: list[Found] = []
    for sample in read(path):
        case = sample.attempt.case
        found.append(Found(case, repeats[case], sample.where, sample.attempt))
        repeats[case] += 1
    return NamedAttempts(str(path), suite, lambda: found, _attempt)


def _attempt(found: Found, limit: int) -> Attempt:
    return checked_attempt(msgspec.structs.replace(found.held, repeat=found.repeat), limit=limit)
