"""Reads ``@pytest.mark.trivium``: the suite, its agent or recorded outputs; makes one test per attempt."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from trivium.errors import InputError
from trivium.integrations.pytest.options import ATTEMPT, MARK
from trivium.safe_text import one_line
from trivium.suites.sources import split_prefix
from trivium.suites.suite import Suite

AttemptKey = tuple[str, int]
"""Case id and repeat of an attempt."""

_LOAD_OPTIONS = ("name", "description", "config")
_loaded = pytest.StashKey[dict[tuple[str, str], Suite]]()


class MarkedSuite:
    """The suite of a mark, with the agent to call or the recorded outputs to score.

    Equal marks share one run.

    Args:
        mark: ``@pytest.mark.trivium(suite, agent=…, outputs=…, **settings)``; relative paths start at
            the file of the test.
        path: The file of the test.
        config: pytest's configuration, which caches the loaded suites.

    Raises:
        InputError: If the mark or the suite is wrong.
    """

    def __init__(self, mark: pytest.Mark, path: Path, config: pytest.Config) -> None:
        if len(mark.args) != 1:
            raise InputError(
                str(path), f"@pytest.mark.{MARK} takes one suite; found {len(mark.args)} arguments"
            )
        options: Mapping[str, Any] = mark.kwargs
        self.agent = options.get("agent")
        outputs = options.get("outputs")
        self.outputs = None if outputs is None else _located(outputs, path)
        if self.agent is not None and outputs is not None:
            raise InputError(str(path), f"@pytest.mark.{MARK} takes an agent or outputs, not both")
        settings = {name: value for name, value in options.items() if name not in {"agent", "outputs"}}
        self.suite = _suite(mark.args[0], settings, path, config)

    def same_as(self, other: "MarkedSuite") -> bool:
        """Whether both name the same suite, agent and outputs."""
        same = self.suite is other.suite or self.suite == other.suite
        return same and self.agent is other.agent and self.outputs == other.outputs

    def attempts(self) -> list[AttemptKey]:
        """Return the keys of all attempts, in the order of the suite."""
        return [(case.id, repeat) for case in self.suite for repeat in range(self.suite.settings.repeats)]


def marked_suite(item: pytest.Item) -> MarkedSuite | None:
    """Return the suite of a test's nearest mark; None without a mark."""
    mark = item.get_closest_marker(MARK)
    return None if mark is None else MarkedSuite(mark, item.path, item.config)


def parametrise(metafunc: pytest.Metafunc) -> None:
    """Make one test for every attempt; report mistakes in the suite without a traceback."""
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None:
        raise pytest.Collector.CollectError(
            f"{metafunc.definition.nodeid}: the fixture {ATTEMPT} needs @pytest.mark.{MARK}(suite)"
        )
    try:
        marked = MarkedSuite(mark, metafunc.definition.path, metafunc.config)
    except InputError as error:
        raise pytest.Collector.CollectError(str(error)) from error
    several = marked.suite.settings.repeats > 1
    attempts = marked.attempts()
    ids = [one_line(f"{case}#{repeat}" if several else case, at_most=120) for case, repeat in attempts]
    metafunc.parametrize(ATTEMPT, attempts, ids=ids, indirect=True)


def _suite(source: Any, settings: dict[str, Any], path: Path, config: pytest.Config) -> Suite:
    suites = config.stash.setdefault(_loaded, {})
    name = str(id(source)) if isinstance(source, Suite) else _located(source, path)
    key = (name, repr(sorted(settings.items())))
    if key not in suites:
        load_options = {}
        if not isinstance(source, Suite):
            load_options = {each: settings[each] for each in _LOAD_OPTIONS if each in settings}
            source = Suite.load(name, **load_options)
        changes = {each: value for each, value in settings.items() if each not in load_options}
        suites[key] = source.with_settings(**changes)
    return suites[key]


def _located(source: str | Path, path: Path) -> str:
    """Resolve a source's relative path against the folder of the test file."""
    prefix, rest = split_prefix(str(source))
    placed = str(path.parent / rest)
    return placed if prefix is None else f"{prefix}:{placed}"
