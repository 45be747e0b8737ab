"""Checks suite, settings and metrics of a run before anything is stored."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from trivium.errors import (
    EncoderUnavailable,
    Problem,
    SuiteError,
    TriviumError,
)
from trivium.metrics.metric import Metric
from trivium.metrics.registry import build_metrics, check_names, default_metrics
from trivium.metrics.text.task import with_default_success
from trivium.runs.certificates import check_gates
from trivium.runs.pipeline import Prepared
from trivium.runs.until_decided.gates import check_until_decided
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
    loaded = suite if isinstance(suite, Suite) else Suite.load(suite)
    if changes := {name: value for name, value in given.items() if value is not None}:
        loaded = loaded.with_settings(**changes)
    settings, source = _checked_settings(loaded, metrics, saves=saves, against=against)
    named = default_metrics(settings)
    settings = with_default_success(settings, loaded)
    built = build_metrics(named, settings)
    _check_encoder(loaded, settings, built)
    _check_installed(source, settings, built)
    return Prepared(loaded, settings, named, built)


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
    check_gates(settings, source=f'suite "{suite.name}"')
    check_until_decided(settings, source=f'suite "{suite.name}"', against=against)
    return settings, source


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
        load(settings.encoder, tell=False)
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
