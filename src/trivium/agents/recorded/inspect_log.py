"""The samples of an Inspect AI log as attempts: ``inspect:FILE``, beside the suite of the same file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from trivium.agents.attempt import Attempt, Usage
from trivium.agents.recorded.entering import attempt_of
from trivium.errors import OutputsError, Problem, suggest
from trivium.inspect_logs.log import Log, Sample
from trivium.inspect_logs.scores import scores_of
from trivium.suites.case import Case
from trivium.suites.suite import Suite
from trivium.traces.readers.inspect_logs.sample import completion_of, trace_of_sample, usage_of

_MOST_PROBLEMS = 20


def read(path: Path, suite: Suite) -> "InspectSamples":
    """Every sample of a log.

    Raises:
        OutputsError: If a sample is no case of the suite, or an epoch of a sample stands twice.
        TraceError: If the log cannot be read.
    """
    return InspectSamples(path, suite)


class InspectSamples:
    """The samples of a log as attempts, read one by one: repeat = epoch, from 0.

    The output is the model's last completion, the time the sample's own. Its scores stand in
    ``metadata.scores``, where metrics called ``inspect.SCORER`` find them. A sample that Inspect gave up
    with an error is a failed attempt; one that hit a limit is none, and ``metadata.limit`` says which.
    """

    def __init__(self, path: Path, suite: Suite) -> None:
        self._suite = suite
        self._log = Log(path)
        problems: list[Problem] = []
        seen: dict[tuple[str, int], str] = {}
        for sample in self._log.samples():
            first = seen.setdefault((sample.id, sample.epoch), sample.where)
            if suite.position(sample.id) is None:
                near = (
                    suggest(sample.id, [case.id for case in suite]) if len(problems) < _MOST_PROBLEMS else ""
                )
                problems.append(Problem(sample.where, f'the suite has no case "{sample.id}".{near}'))
            elif first != sample.where:
                what = f"epoch {sample.epoch} of sample {sample.id} stands already in {first}"
                problems.append(Problem(sample.where, what))
        self._count = len(seen)
        if problems:
            left_out = max(0, len(problems) - _MOST_PROBLEMS)
            raise OutputsError(str(path), problems[:_MOST_PROBLEMS], left_out=left_out)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[Case, Attempt]]:
        """Each sample with its case."""
        limit = self._suite.settings.limits.output_bytes
        for sample in self._log.samples():
            yield self._suite.case(sample.id), _attempt(sample, limit)


def _attempt(sample: Sample, limit: int) -> Attempt:
    raw = sample.raw
    return attempt_of(
        case=sample.id,
        repeat=sample.epoch - 1,
        output=completion_of(raw.get("output")),
        limit=limit,
        seconds=_seconds(raw.get("total_time")),
        trace=trace_of_sample(raw),
        usage=_usage(raw.get("model_usage")),
        error=_message(raw.get("error")),
        metadata=_metadata(raw),
    )


def _metadata(raw: dict[str, Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"scores": {}}
    for score in scores_of(raw):
        told = {key: value for key, value in score._asdict().items() if value not in (None, (), "")}
        metadata["scores"][told.pop("name")] = msgspec.to_builtins(told)
    halted = raw.get("limit")
    if isinstance(halted, dict):
        metadata["limit"] = halted.get("type")
    retried = raw.get("error_retries")
    if isinstance(retried, list) and retried:
        metadata["retries"] = len(retried)
    return metadata


def _message(error: Any) -> str | None:
    if not isinstance(error, dict):
        return None
    message = error.get("message")
    return message if isinstance(message, str) and message else "the sample ended in an error"


def _seconds(value: Any) -> float | None:
    ok = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12
    return float(value) if ok else None


def _usage(by_model: Any) -> Usage | None:
    """Tokens and cost of a sample, over its models."""
    found = [usage_of(usage) for usage in by_model.values()] if isinstance(by_model, dict) else []
    used = [usage for usage in found if usage is not None]
    if not used:
        return None
    return Usage(
        input_tokens=_sum([usage.input_tokens for usage in used]),
        output_tokens=_sum([usage.output_tokens for usage in used]),
        cost_usd=_sum([usage.cost_usd for usage in used]),
    )


def _sum(values: list[Any]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
