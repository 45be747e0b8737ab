"""What must be known of a run's judges to have them judge again, without secrets."""

from collections.abc import Sequence
from typing import Any

from trivium.metrics.metric import Metric
from trivium.suites.settings import ServerSettings, Settings


def judge_provenance(metrics: Sequence[Metric], settings: Settings) -> dict[str, Any]:
    """Who judges, where, how, and by what words; nothing where nobody judges.

    Args:
        metrics: Those that score the run.
        settings: The suite's.

    Returns:
        ``judges`` and ``prompts`` tell which judgements a calibrator may be used on; ``judge`` has all.
    """
    judge = settings.judge
    if judge is None or not any(metric.tier == "judge" for metric in metrics):
        return {}
    from trivium.metrics.judge.dimensions import JudgedDimension
    from trivium.metrics.judge.judging import SAMPLED_TEMPERATURE
    from trivium.metrics.judge.spending.prices import models_of

    judged = [each for each in metrics if isinstance(each, JudgedDimension)]
    if not judged:
        return {}
    # A version is the digest of a rubric and of the wording around it.
    prompts = {each.rubric.name: each.version for each in judged}
    usual = 0.0 if judge.samples == 1 else SAMPLED_TEMPERATURE
    models, servers = models_of(judge), judge.servers
    return {
        "judges": models,
        "prompts": prompts,
        "judge": {
            "models": models,
            "addresses": {name: _address(name, judge.servers.get(name)) for name in models},
            "temperature": usual if judge.temperature is None else judge.temperature,
            "seed": judge.seed,
            "reasoning_effort": judge.reasoning_effort,
            "parameters": judge.parameters,
            "servers": {name: {"headers": each.headers, "body": each.body} for name, each in servers.items()},
            "client": judge.client,
            "samples": judge.samples,
            "panel": judge.panel,
            "rubrics": {each.rubric.name: each.rubric.digest for each in judged},
            "prompts": prompts,
        },
    }


def _address(name: str, server: ServerSettings | None) -> str | None:
    """Where a model is asked, None where it is off."""
    from trivium.metrics.judge.models.opening import ModelOff, where

    try:
        return where(name, server)
    except ModelOff:
        return None
