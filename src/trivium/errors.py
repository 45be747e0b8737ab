"""Every error that Trivium raises on purpose.

    TriviumError                 base of all below; its message is for users
    ├── InputError               what a user wrote or named is wrong (exit code 2)
    │   ├── SuiteError           a suite, a case or a setting
    │   ├── OutputsError         a file of recorded outputs
    │   ├── TraceError           a trace that cannot be read at all
    │   │   └── TooLarge         a request that is larger than the server accepts
    │   ├── AgentError           an agent that cannot be found or called at all
    │   ├── ItemsError           a file of items, labels or judgements
    │   ├── TrustError           signals, labels or a calibrator that a statistic cannot use
    │   └── ComparisonError      two runs that cannot be compared as they stand
    ├── MissingExtra             an optional part is not installed
    ├── EncoderUnavailable       the encoder of the semantic metric cannot be loaded
    ├── StoreError               the store cannot be opened, read or written
    │   └── StoreLost            its file disappeared while it was written
    ├── Overloaded               the server cannot take more for now
    └── RegressionError          a comparison failed or is inconclusive

A failed attempt is not an exception: it is an Attempt with ``error`` set, and the run continues.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec


class TriviumError(Exception):
    """Base of every error that Trivium raises on purpose; can be pickled, with all that it says."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    cls: type[TriviumError], arguments: tuple[Any, ...], attributes: dict[str, Any]
) -> TriviumError:
    """An error of another process; its class may be made from other arguments than it holds."""
    error = cls.__new__(cls, *arguments)
    error.__dict__.update(attributes)
    return error


class Problem(msgspec.Struct, frozen=True):
    """One mistake in a user's input: its place and a description."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class InputError(TriviumError):
    """A user's input is wrong; contains every mistake found, not only the first.

    Args:
        source: The file (or other origin) that holds the mistakes.
        problems: The mistakes; a bare string is a mistake of the whole source.
        left_out: Number of further mistakes.
    """

    def __init__(
        self, source: str, problems: Sequence[Problem] | Problem | str, *, left_out: int = 0
    ) -> None:
        if isinstance(problems, str):
            problems = [Problem("", problems)]
        elif isinstance(problems, Problem):
            problems = [problems]
        self.source = source
        self.problems = tuple(problems)
        self.left_out = left_out
        lines = [f"{source}: {line}" if source else line for line in _lines(self.problems)]
        if left_out:
            lines.append(f"… and {left_out:,} more")
        super().__init__("\n".join(lines))


def _lines(problems: Iterable[Problem]) -> Iterator[str]:
    """A line for each mistake; one for those that are the same in more than three numbered places."""
    alike: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        alike.setdefault((re.sub(r"\d+", "0", problem.where), problem.what), []).append(problem)
    for same in alike.values():
        if len(same) > ALIKE:
            yield f"{same[0]} (and in {len(same) - 1} other places, the last {same[-1].where})"
        else:
            yield from map(str, same)


class SuiteError(InputError):
    """A suite, a case or a setting is wrong."""


class OutputsError(InputError):
    """A file of recorded outputs is wrong."""


class TraceError(InputError):
    """A trace cannot be read at all (smaller inconsistencies are repaired and listed instead)."""


class TooLarge(TraceError):
    """A request is larger than the server accepts."""


class AgentError(InputError):
    """An agent cannot be found, imported or called at all."""


class ItemsError(InputError):
    """A file of items, labels or judgements is wrong."""


class TrustError(InputError, ValueError):
    """Signals, labels, probabilities or a calibrator that a statistic cannot use."""

    def __init__(self, problems: Sequence[Problem] | Problem | str, *, left_out: int = 0) -> None:
        super().__init__("", problems, left_out=left_out)


class ComparisonError(InputError):
    """Two runs cannot be compared as they stand; every reason is listed."""


class RegressionError(TriviumError):
    """A comparison failed (the head run is worse than the base run), or is inconclusive."""


class MissingExtra(TriviumError):
    """An optional part is not installed.

    Args:
        extra: Name of the extra, as in ``pip install "trivium[extra]"``.
        needed_for: The feature that needs it, as the subject of a sentence.
    """

    def __init__(self, extra: str, needed_for: str) -> None:
        self.extra = extra
        super().__init__(f'{needed_for} needs an extra: pip install "trivium[{extra}]"')


class EncoderUnavailable(TriviumError):
    """The encoder of the semantic metric cannot be loaded; the message says what to install or download."""


class StoreError(TriviumError):
    """The store cannot be opened, read or written."""


class StoreLost(StoreError):
    """The file of a store disappeared while it was written, and its data are lost."""


class Overloaded(TriviumError):
    """The server cannot take more for now; the same request may succeed later."""


ALIKE = 3
"""Most mistakes that differ only in the numbers of their places and have a line each."""

MOST_PROBLEMS = 20
"""Most mistakes that one message lists; further ones are counted."""


class Problems:
    """Collects the mistakes of a source: the first are listed, further ones counted.

    Args:
        source: The file (or other origin) that holds the mistakes; empty if each names its own.
        error: Class of the error that :meth:`check` raises.

    Attributes:
        source: The file.
        listed: The first mistakes.
        found: Number of all mistakes.
    """

    def __init__(self, source: str = "", error: type[InputError] = SuiteError) -> None:
        self.source = source
        self.listed: list[Problem] = []
        self.found = 0
        self._error = error

    @property
    def full(self) -> bool:
        """Whether a further mistake would only be counted."""
        return len(self.listed) == MOST_PROBLEMS

    def add(self, *problems: Problem, further: int = 0) -> None:
        """Add mistakes, and a number of further ones."""
        self.listed.extend(problems[: MOST_PROBLEMS - len(self.listed)])
        self.found += len(problems) + further

    def add_file(self, error: InputError) -> None:
        """Add what is wrong with one of several files."""
        self.add(*placed(error), further=error.left_out)

    def at_line(self, number: int, what: str) -> None:
        """Add a mistake in a line."""
        self.add(Problem(f"line {number}", what))

    def check(self) -> None:
        """Raise an error that lists the mistakes, if there are any.

        Raises:
            InputError: As ``error``.
        """
        if self.found:
            raise self._error(self.source, self.listed, left_out=self.found - len(self.listed))


def placed(error: InputError) -> list[Problem]:
    """Return the mistakes in a file, each with the name of the file, if there is one."""
    return [
        Problem(": ".join(part for part in (error.source, problem.where) if part), problem.what)
        for problem in error.problems
    ]


def raise_problems(problems: Sequence[Problem], source: str, error: type[InputError] = SuiteError) -> None:
    """Raise one error that lists the problems; do nothing if there are none."""
    found = Problems(source, error)
    found.add(*problems)
    found.check()


def suggest(found: str, known: Iterable[str]) -> str:
    """Return a suggestion of the nearest known word, or an empty text."""
    spelled = {word.lower(): word for word in known}
    near = get_close_matches(found.lower(), spelled, n=1, cutoff=0.6)
    return f' Did you mean "{spelled[near[0]]}"?' if near else ""
