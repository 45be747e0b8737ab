"""Every error that Trivium raises on purpose.

    TriviumError                 anything below; its text is meant for a person
    ├── InputError               what a user wrote or named is wrong (exit code 2)
    │   ├── SuiteError           a suite, a case or a setting
    │   ├── OutputsError         a file of recorded outputs
    │   ├── TraceError           a trace that cannot be read at all
    │   ├── AgentError           an agent that cannot be found or called at all
    │   ├── ItemsError           a file of items, labels or judgements
    │   ├── TrustError           signals, labels or a calibrator that a statistic cannot use
    │   └── ComparisonError      two runs that cannot be compared as they stand
    ├── MissingExtra             an optional part is not installed
    ├── EncoderUnavailable       the encoder of the semantic metric cannot be had
    ├── StoreError               the store cannot be opened, read or written
    │   └── StoreLost            its file went away while it was written
    └── RegressionError          a run is worse than the one it is compared with, or not surely no worse

An attempt that fails is no exception: it is an Attempt with ``error`` set, and the run goes on.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

import msgspec


class TriviumError(Exception):
    """Base of every error that Trivium raises on purpose."""


class Problem(msgspec.Struct, frozen=True):
    """One mistake in what a user wrote: where it stands and what is wrong with it."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class InputError(TriviumError):
    """What a user wrote or named is wrong; holds every mistake found, not the first alone.

    Args:
        source: The file (or other origin) that holds the mistakes.
        problems: The mistakes; a bare string is a mistake of the whole source.
        left_out: Mistakes beyond those listed.
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
        lines = [f"{source}: {problem}" if source else str(problem) for problem in self.problems]
        if left_out:
            lines.append(f"… and {left_out:,} more")
        super().__init__("\n".join(lines))


class SuiteError(InputError):
    """A suite, a case or a setting is wrong."""


class OutputsError(InputError):
    """A file of recorded outputs is wrong."""


class TraceError(InputError):
    """A trace cannot be read at all (what can be repaired is repaired and listed instead)."""


class AgentError(InputError):
    """An agent cannot be found, imported or called at all."""


class ItemsError(InputError):
    """A file of items, labels or judgements is wrong."""


class TrustError(InputError, ValueError):
    """Signals, labels, probabilities or a calibrator are such that a statistic cannot use them."""

    def __init__(self, problems: Sequence[Problem] | Problem | str, *, left_out: int = 0) -> None:
        super().__init__("", problems, left_out=left_out)


class ComparisonError(InputError):
    """Two runs cannot be compared as they stand; every reason is listed."""


class RegressionError(TriviumError):
    """A run is worse than the one it is compared with, or not surely no worse."""


class MissingExtra(TriviumError):
    """An optional part is not installed.

    Args:
        extra: The extra that brings it, as in ``pip install "trivium[extra]"``.
        needed_for: What it is needed for, as the subject of a sentence.
    """

    def __init__(self, extra: str, needed_for: str) -> None:
        self.extra = extra
        super().__init__(f'{needed_for} needs an extra: pip install "trivium[{extra}]"')


class EncoderUnavailable(TriviumError):
    """The encoder of the semantic metric cannot be had; the text says what to install or fetch."""


class StoreError(TriviumError):
    """The store cannot be opened, read or written."""


class StoreLost(StoreError):
    """The file of a store went away while it was written, with what was stored in it."""


MOST_PROBLEMS = 20
"""Mistakes that one message lists; further ones are counted."""


def raise_problems(problems: Sequence[Problem], source: str) -> None:
    """Raise one SuiteError that lists the problems; do nothing if there are none."""
    if problems:
        shown = problems[:MOST_PROBLEMS]
        raise SuiteError(source, shown, left_out=len(problems) - len(shown))


def suggest(found: str, known: Iterable[str]) -> str:
    """A half sentence that names the nearest known word, or nothing."""
    spelled = {word.lower(): word for word in known}
    near = get_close_matches(found.lower(), spelled, n=1, cutoff=0.6)
    return f' Did you mean "{spelled[near[0]]}"?' if near else ""
