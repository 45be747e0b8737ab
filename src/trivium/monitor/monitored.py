"""Makes a monitor of a suite: a name, the settings, and the metrics that need no expected output."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from trivium.errors import InputError, Problem, raise_problems
from trivium.metrics.registry import CASE_FIGURES, asked_metrics, metric_class, metrics_without_expectation
from trivium.records.documents import PARSERS, read_document
from trivium.records.validation import describe
from trivium.safe_text import sanitise
from trivium.suites.monitor_settings import MonitorSettings
from trivium.suites.settings import CompositeSettings, PassRule, Settings
from trivium.suites.settings_loader import parse_settings, with_changes
from trivium.suites.sources import SOURCES
from trivium.suites.suite import Suite

LONGEST_NAME = 200
"""Characters of a monitor's name."""

COMPLETED = "completed"
"""The metric that decides whether an interaction passed, if the suite does not say and has no judge."""


class Monitored(msgspec.Struct, frozen=True, kw_only=True):
    """A suite that scores production traffic; its cases are not used.

    Attributes:
        name: Name of the monitor: that of the suite.
        settings: Settings of the suite. If it names no metrics, pass rule or composite weights, they are
            added, with metrics that need nothing from a case.
    """

    name: str
    settings: Settings

    @property
    def monitor(self) -> MonitorSettings:
        """The settings of the monitor."""
        return self.settings.monitor or MonitorSettings()


def monitored(
    suite: Suite | str | Path | Mapping[str, Any], *, monitor: Mapping[str, Any] | None = None
) -> Monitored:
    """Make a monitor of a suite; it needs no cases.

    If the suite names no metrics, the monitor computes every metric that needs nothing from a case. If it has
    neither pass rule nor weights, both use the overall score of the judge's rubric if there is a judge, else
    ``completed``.

    Args:
        suite: The suite, its file, or the keys of one, such as ``{"name": "support", "judge": …}``.
        monitor: Keys of ``monitor`` that replace the suite's.

    Raises:
        InputError: If something in it is wrong, or a named metric needs something of a case, which no
            interaction has.
    """
    name, settings, source = _parts(suite)
    _check_name(name, source)
    if monitor:
        settings = with_changes(settings, {"monitor": monitor}, source=source)
    if settings.metrics is None:
        settings = msgspec.structs.replace(settings, metrics=metrics_without_expectation(settings))
    _check_metrics(settings, source)
    names = asked_metrics(settings)
    overall = next((name for name in names if name.endswith(".overall")), None)
    if overall is None and COMPLETED not in names:
        names = (*names, COMPLETED)
    decides = overall or COMPLETED
    if settings.passed is None:
        passed = None if overall is not None else PassRule(metric=COMPLETED)
        settings = msgspec.structs.replace(settings, passed=passed)
    if settings.composite == CompositeSettings():
        weights = CompositeSettings(weights={decides: 1.0})
        settings = msgspec.structs.replace(settings, composite=weights)
    return Monitored(name=name, settings=msgspec.structs.replace(settings, metrics=names, agent=None))


def _parts(suite: Suite | str | Path | Mapping[str, Any]) -> tuple[str, Settings, str]:
    """Name, settings and source of a suite."""
    if isinstance(suite, Suite):
        return suite.name, suite.settings, suite.source or f'suite "{suite.name}"'
    if isinstance(suite, Mapping):
        raw, source, folder = dict(suite), "monitor", Path()
    else:
        path = Path(suite)
        raw, source, folder = dict(_document(path)), str(path), path.parent
    if any(key in raw for key in ("cases", "config", *SOURCES)) or not raw:
        loaded = Suite.load(suite)
        return loaded.name, loaded.settings, source
    name = raw.pop("name", None)
    raw.pop("description", None)
    if not isinstance(name, str) or not name.strip():
        raise InputError(source, Problem("name", "is missing: a monitor needs a name, such as the service's"))
    settings, problems = parse_settings(raw, folder=folder)
    raise_problems(problems, source)
    return name.strip(), settings, source


def _check_name(name: str, source: str) -> None:
    """Refuse a name that the store cannot hold, or no address: browsers take dots out of a path."""
    if name in {".", ".."} or len(name) > LONGEST_NAME or sanitise(name)[0] != name:
        what = f"found {describe(name)}, which cannot be the name of a monitor: expected 1 to {LONGEST_NAME} "
        raise InputError(source, Problem("name", f"{what}characters other than only dots"))


def _document(path: Path) -> Mapping[str, Any]:
    """The keys of a file; empty for a file of cases, which ``Suite.load`` reads."""
    if path.suffix not in PARSERS:
        return {}
    raw = read_document(path)
    return raw if isinstance(raw, dict) else {}


def _check_metrics(settings: Settings, source: str) -> None:
    problems = []
    for name in asked_metrics(settings):
        if name in CASE_FIGURES:
            problems.append(
                Problem("metrics", f"{name} compares attempts of one case; production has one each")
            )
        elif fields := metric_class(name, settings).from_settings(settings).case_fields:
            what = f"{name} needs {' or '.join(fields)}, which nobody states in production"
            problems.append(Problem("metrics", what))
    if problems:
        raise InputError(source, problems)
