"""Checks suite, settings and metrics of a run before anything is stored."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from trivium.errors import (
    EncoderUnavailable,
    Problem,
    SuiteError,
    TriviumError,
)
from trivium.metrics.metric import Metric
from trivium.metrics.registry import ACCEPTED, build_metrics, check_names, default_metrics
from trivium.metrics.text.task import with_default_success
from trivium.runs.pipeline import Prepared
from trivium.suites.certificate import loaded
from trivium.suites.settings import Settings
from trivium.suites.settings_loader import renamed
from trivium.suites.suite import Suite, SuiteSource


def prepared(
    suite: Suite | SuiteSource,
    given: Mapping[str, Any],
    metrics: Sequence[str] | None,
    *,
    saves: str,
    against: bool,
) -> Prepared:
    """Load a suite, and build the metrics of a run.

    Args:
        suite: The suite, or where it is.
        given: Settings that replace the suite's, where not None.
        metrics: Metrics that replace the suite's.
        saves: See :attr:`trivium.runs.origin.Origin.saves`.
        against: Whether the run stops when a comparison is decided.

    Raises:
        SuiteError: If a setting is wrong, or something that it needs is not installed.
    """
    read = suite if isinstance(suite, Suite) else Suite.load(suite)
    if changes := {name: value for name, value in given.items() if value is not None}:
        read = read.with_settings(**changes)
    settings, source = _checked_settings(read, metrics, saves=saves, against=against)
    named = default_metrics(settings)
    settings = with_default_success(settings, read)
    built = build_metrics(named, settings)
    _check_encoder(read, settings, built)
    _check_installed(source, settings, built)
    return Prepared(read, settings, named, built)


def _checked_settings(
    suite: Suite, metrics: Sequence[str] | None, *, saves: str, against: bool
) -> tuple[Settings, str]:
    """The settings of a run, and where they come from; names and gates are known to be possible.

    Args:
        suite: The suite.
        metrics: Metrics that replace the suite's.
        saves: What a run saves that stops early: calls of the agent, judgements, or nothing.
        against: Whether it stops when a comparison is decided.
    """
    settings = suite.settings
    if metrics is not None:
        settings = msgspec.structs.replace(settings, metrics=tuple(metrics))
    if not saves or (saves == "judgements" and settings.judge is None):
        settings = msgspec.structs.replace(settings, until_decided=False)
    source = suite.source if metrics is None and suite.source else f'suite "{suite.name}"'
    check_names(settings, source=source, also=suite.settings.metrics or ())
    if problems := list(_undecidable(settings, against=against)):
        raise SuiteError(f'suite "{suite.name}"', problems)
    return settings, source


def _undecidable(settings: Settings, *, against: bool) -> Iterator[Problem]:
    """The gates that nothing could decide; of a run that stops early, a lack of anything to decide."""
    certified = settings.judge is not None and loaded(settings.judge.certificate)
    for name in settings.gates:
        share = name == ACCEPTED or name.endswith(f".{ACCEPTED}")
        if share and not certified:
            why = "no certificate says what is accepted: judge.certificate or --certificate FILE"
            yield Problem(f"gates.{name}", why)
        elif settings.until_decided and (share or name.startswith(("pass@", "pass^"))):
            yield Problem(f"gates.{name}", "until_decided decides means over cases, and this is none")
    if settings.until_decided and not (settings.gates or against):
        what = "until_decided needs a gate to decide; found none. Give gates, or a stored run to compare with"
        yield Problem("gates", f"{what} (--against RUN)")


def _check_encoder(suite: Suite, settings: Settings, metrics: list[Metric]) -> None:
    """Refuse a local encoder that is needed and cannot be loaded.

    Encoders named on the model hub are not checked, because that would need the network.
    """
    judged = settings.judge is not None and settings.judge.evidence_similarity == "encoder"
    needed = any(each.name == "semantic" or (judged and each.tier == "judge") for each in metrics)
    if not needed or settings.encoder is None:
        return
    from trivium.metrics.text.encoders.loading import load
    from trivium.metrics.text.encoders.model_files import is_path

    if not is_path(settings.encoder):
        return
    try:
        load(settings.encoder)
    except EncoderUnavailable as error:
        raise SuiteError(f'suite "{suite.name}"', Problem("encoder", str(error))) from None


def _check_installed(source: str, settings: Settings, built: Sequence[Metric]) -> None:
    """Refuse metrics that the suite names but that cannot be computed here; others are skipped."""
    rules = (settings.passed and settings.passed.metric, settings.success and settings.success.metric)
    named = {renamed(name) for name in (*(settings.metrics or ()), *settings.gates, *rules) if name}
    problems = []
    for metric in built:
        if metric.name in named or metric.tier == "judge":
            try:
                metric.check()
            except TriviumError as error:
                problems.append(Problem("metrics", f"{metric.name} cannot be measured: {error}"))
    if problems:
        raise SuiteError(source, problems)
