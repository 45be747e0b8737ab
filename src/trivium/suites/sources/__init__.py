"""Lists the prefixes of other formats (``peerread:FOLDER``); a new one needs one file and one line here."""

from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from trivium.errors import SuiteError, suggest
from trivium.suites.case import Cases

__all__ = ["NAMED", "SOURCES", "SourceCases", "read_source", "split_prefix"]

SOURCES = {
    "peerread": "trivium.formats.peerread:read_suite",
    "tau-bench": "trivium.formats.tau_bench:read_suite",
    "agents-eval": "trivium.formats.agents_eval:read_suite",
    "inspect": "trivium.formats.inspect_log.samples:read_suite",
    "lm-eval": "trivium.formats.lm_eval:read_suite",
    "promptfoo": "trivium.formats.promptfoo:read_suite",
    "hf": "trivium.suites.sources.datasets:read_hugging_face",
    "pydantic-evals": "trivium.suites.sources.datasets:read_pydantic_evals",
}
"""Functions that read a path and return a SourceCases, by prefix."""

NAMED = frozenset({"hf"})
"""Sources that may be a name instead of a path."""


class SourceCases(NamedTuple):
    """Cases of a source, with the settings that suit them.

    Attributes:
        name: Name for the suite.
        cases: The cases.
        settings: Settings that suit the cases, not validated yet.
        notes: Remarks for reports, such as what was left out.
    """

    name: str
    cases: Cases
    settings: dict[str, Any]
    notes: tuple[str, ...] = ()


def split_prefix(source: str) -> tuple[str | None, str]:
    """Split a source into its prefix, if it has one, and the rest.

    Raises:
        SuiteError: If the prefix is misspelled, or nothing follows it.
    """
    prefix, colon, rest = source.partition(":")
    if colon and prefix in SOURCES:
        if not rest.strip():
            raise SuiteError(prefix, "names no file or folder")
        return prefix, rest
    if colon and suggest(prefix, SOURCES) and not Path(source).exists():
        raise SuiteError(source, f'"{prefix}:" is not a known prefix.{suggest(prefix, SOURCES)}')
    return None, source


def read_source(prefix: str, path: Path, *, name: str = "") -> SourceCases:
    """Read a path in the format of a prefix; ``name`` is the path as the user wrote it."""
    if prefix in NAMED and not Path(str(path).partition("?")[0]).exists():
        path = Path(name)
    module, _, function = SOURCES[prefix].partition(":")
    cases: SourceCases = getattr(import_module(module), function)(path)
    return cases
