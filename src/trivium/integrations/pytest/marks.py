"""What a mark asks for: a suite, and whose attempts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from trivium.errors import InputError
from trivium.integrations.pytest.plugin import ATTEMPT, MARK
from trivium.reports.escape import one_line
from trivium.suites.sources import split_prefix
from trivium.suites.suite import Suite

Place = tuple[str, int]
"""(case, repeat)"""

_loaded = pytest.StashKey[dict[tuple[str, str], Suite]]()


class Wanted:
    """A suite and who is asked, as a mark says. Two marks that say the same are one.

    Args:
        mark: ``@pytest.mark.trivium(suite, agent=…, outputs=…, **settings)``; relative paths start at
            the file of the test.
        path: The file of the test.
        config: Keeps the suites that are loaded.
    """

    def __init__(self, mark: pytest.Mark, path: Path, config: pytest.Config) -> None:
        if len(mark.args) != 1:
            raise InputError(
                str(path), f"@pytest.mark.{MARK} takes one suite; found {len(mark.args)} arguments"
            )
        options: Mapping[str, Any] = mark.kwargs
        self.agent = options.get("agent")
        outputs = options.get("outputs")
        self.outputs = None if outputs is None else _found(outputs, path)
        if self.agent is not None and outputs is not None:
            raise InputError(str(path), f"@pytest.mark.{MARK} takes an agent or outputs, not both")
        settings = {name: value for name, value in options.items() if name not in {"agent", "outputs"}}
        self.suite = _suite(mark.args[0], settings, path, config)

    def same_as(self, other: "Wanted") -> bool:
        """Whether both ask the same of the same."""
        same = self.suite is other.suite or self.suite == other.suite
        return same and self.agent is other.agent and self.outputs == other.outputs

    def places(self) -> list[Place]:
        """Every attempt, in the order of the suite."""
        return [(case.id, repeat) for case in self.suite for repeat in range(self.suite.settings.repeats)]


def wanted_by(item: pytest.Item) -> Wanted | None:
    """What the nearest mark of a test asks for."""
    mark = item.get_closest_marker(MARK)
    return None if mark is None else Wanted(mark, item.path, item.config)


def parametrise(metafunc: pytest.Metafunc) -> None:
    """One test for every attempt; what is wrong with the suite is told without a traceback."""
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None:
        raise pytest.Collector.CollectError(
            f"{metafunc.definition.nodeid}: takes {ATTEMPT}, and needs @pytest.mark.{MARK}(suite) for it"
        )
    try:
        wanted = Wanted(mark, metafunc.definition.path, metafunc.config)
    except InputError as error:
        raise pytest.Collector.CollectError(str(error)) from error
    several = wanted.suite.settings.repeats > 1
    places = wanted.places()
    ids = [one_line(f"{case}#{repeat}" if several else case, at_most=120) for case, repeat in places]
    metafunc.parametrize(ATTEMPT, places, ids=ids, indirect=True)


def _suite(source: Any, settings: dict[str, Any], path: Path, config: pytest.Config) -> Suite:
    suites = config.stash.setdefault(_loaded, {})
    made = isinstance(source, Suite)
    key = (str(id(source)) if made else _found(source, path), repr(sorted(settings.items())))
    if key not in suites:
        suites[key] = _with_settings(source if made else key[0], settings)
    return suites[key]


def _with_settings(source: Suite | str, settings: dict[str, Any]) -> Suite:
    """The suite with the settings of a mark."""
    if isinstance(source, Suite):
        return source.with_settings(**settings)
    of_load = {key: settings[key] for key in ("name", "description", "config") if key in settings}
    changes = {key: value for key, value in settings.items() if key not in of_load}
    return Suite.load(source, **of_load).with_settings(**changes)


def _found(source: str | Path, path: Path) -> str:
    """A source whose path, if it is relative, starts at the file of the test."""
    prefix, rest = split_prefix(str(source))
    placed = str(path.parent / rest)
    return placed if prefix is None else f"{prefix}:{placed}"
