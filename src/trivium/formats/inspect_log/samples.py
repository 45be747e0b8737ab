"""Turns the samples of an Inspect log into cases, attempts, scores and items.

A log that Trivium wrote keeps each case and attempt in ``store.trivium`` of the sample, for what Inspect has
no place for (expectations, flags, the world, messages between agents). They count as long as the sample reads
as it did when it was written, which digests of what is read tell. If it was changed since, the sample counts.
"""

from collections.abc import Iterator
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from trivium.agents.attempt import Attempt, Usage
from trivium.agents.recorded.record import attempt_from, checked_attempt, read_row
from trivium.errors import (
    ItemsError,
    Problem,
    SuiteError,
    TraceError,
    raise_problems,
    suggest,
)
from trivium.formats.inspect_log.archive import Log, Sample
from trivium.formats.inspect_log.traces import completion_of, trace_of_sample, usage_of
from trivium.formats.samples import Found, NamedAttempts
from trivium.runs.items.records import Item
from trivium.runs.items.table import ItemTable, Origin, TableBuilder
from trivium.suites.case import Case
from trivium.suites.selection import cases_of
from trivium.suites.sources import SourceCases
from trivium.suites.suite import Suite
from trivium.traces.outcome import total_usage
from trivium.traces.readers.json_input import at
from trivium.values import JsonObject, amount, dict_, dicts, list_, nonempty_text

PREFIX = "inspect."
"""Prefix that makes a metric's name from a scorer's."""

_WORDS = {"c": 1.0, "p": 0.5, "i": 0.0, "n": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Values of Inspect's grades (correct, partial, incorrect, no answer) and of the words that it accepts."""


def scores_of(raw: JsonObject) -> list[tuple[str, JsonObject]]:
    """The scores of a sample with their names: ``inspect.SCORER``, and ``.KEY`` where a scorer gave several.

    Of each score what is known: ``value`` in [0, 1], unless it was not scored or is on another scale;
    ``raw``, the value in the log; the ``answer`` that the scorer extracted, its ``explanation``, and why it
    gave no value, ``unscored``; ``edits``, the authors of later changes, and the ``original`` value before
    these. Logs before 2025 hold one score, without a name.
    """
    scores = raw.get("scores")
    if not isinstance(scores, dict):
        scores = {"score": raw["score"]} if isinstance(raw.get("score"), dict) else {}
    return [
        part for scorer, score in scores.items() if isinstance(score, dict) for part in _parts(scorer, score)
    ]


def _parts(scorer: str, score: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    value = score.get("value")
    history = dicts(score.get("history"))
    stated = (nonempty_text(at(edit, "provenance", "author")) for edit in history)
    authors = [author for author in stated if author]
    first = history[0].get("value") if history and authors else None
    keyed = value.items() if isinstance(value, dict) else [("", value)]
    for key, part in keyed:
        before = first.get(key) if isinstance(first, dict) else first
        number = as_number(part)
        found = {
            "value": number if number is not None and 0 <= number <= 1 else None,
            "raw": part if not isinstance(part, float) or isfinite(part) else None,
            "answer": nonempty_text(score.get("answer")),
            "explanation": nonempty_text(score.get("explanation")),
            "unscored": _unscored(score, part),
            "edits": authors or None,
            "original": as_number(before) if authors else None,
        }
        known = {name: each for name, each in found.items() if each not in (None, "")}
        yield f"{PREFIX}{scorer}.{key}" if key else f"{PREFIX}{scorer}", known


def _unscored(score: JsonObject, part: Any) -> str | None:
    if part is not None and not (isinstance(part, float) and not isfinite(part)):
        return None
    return nonempty_text(score.get("reason")) or "the scorer gave no value"


def as_number(value: Any) -> float | None:
    """Convert a value as Inspect's ``value_to_float`` does; None where that falls back to 0."""
    if isinstance(value, bool | int | float):
        return float(value) if isinstance(value, bool) or abs(value) < 1e300 else None  # drops NaN too
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _WORDS:
            return _WORDS[word]
        try:
            number = float(word)
        except ValueError:
            return None
        return number if isfinite(number) else None
    return None


TRACE_METRICS = ("tool_success", "task_balance", "time")
"""Metrics that fit any attempt with tool calls."""


def read_suite(path: Path) -> SourceCases:
    """The samples of a log, one case per id, and metrics for the scores that it holds.

    Raises:
        SuiteError: If it is not a log, holds no sample, or a sample is not a valid case.
    """
    try:
        log = Log(path)
        raw: dict[str, JsonObject] = {}
        names: dict[str, None] = {}
        valued: dict[str, None] = {}
        repeats, acted = 1, False
        for sample in log.samples():
            raw.setdefault(sample.id, _case(sample.id, sample.raw))
            repeats = max(repeats, sample.epoch)
            acted = acted or bool(sample.raw.get("events")) or bool(sample.raw.get("messages"))
            for name, score in scores_of(sample.raw):
                names[name] = None
                if "value" in score:
                    valued[name] = None
    except TraceError as error:
        raise SuiteError(error.source, error.problems) from error
    if not raw:
        raise SuiteError(str(path), "holds no sample: expected a log that includes its samples")
    cases, problems = cases_of((f"sample {id_}", case) for id_, case in raw.items())
    raise_problems(problems, str(path))
    settings: JsonObject = {"metrics": [*names, *(TRACE_METRICS if acted else ())], "repeats": repeats}
    headline = _headline(log, list(valued))
    if headline is not None:
        settings["success"] = {"metric": headline, "at_least": 1.0}
        settings["metrics"].insert(len(names), "success")
    if not settings["metrics"]:
        del settings["metrics"]
    return SourceCases(log.task, cases, settings)


def _headline(log: Log, valued: list[str]) -> str | None:
    """The score that decides on success: the log's headline, else the first that has values."""
    named = f"{PREFIX}{log.headline}" if log.headline is not None else None
    return named if named in valued else next(iter(valued), None)


def _case(id_: str, raw: JsonObject) -> JsonObject:
    read = _plain_case(id_, raw)
    kept = _kept(raw)
    ours = dict_(kept.get("case"))
    return ours if ours.get("id") == id_ and kept.get("read_case") == _digest(read) else read


def _plain_case(id_: str, raw: JsonObject) -> JsonObject:
    target = raw.get("target")
    references = [target] if isinstance(target, str) else target if isinstance(target, list) else []
    metadata = raw.get("metadata")
    case_metadata = dict(metadata) if isinstance(metadata, dict) else {}
    if isinstance(raw.get("choices"), list):
        case_metadata["choices"] = raw["choices"]
    return {
        "id": id_,
        "input": raw.get("input", ""),
        "references": [text for text in references if isinstance(text, str) and text],
        "metadata": case_metadata,
    }


def read_attempts(path: Path, suite: Suite) -> NamedAttempts:
    """Every sample of a log as an attempt: repeat = epoch, from 0.

    The output is the model's last completion, the time that of the sample. The metrics ``inspect.SCORER``
    read its scores from ``metadata.scores``. A sample that ended with an error is a failed attempt; one that
    hit a limit is not, and ``metadata.limit`` names the limit.

    Raises:
        OutputsError: If a sample is not a case of the suite, or an epoch of a sample occurs twice.
        TraceError: If the log cannot be read.
    """
    log = Log(path)

    def find() -> Iterator[Found]:
        for sample in log.samples():
            yield Found(sample.id, sample.epoch - 1, sample.where, sample)

    return NamedAttempts(
        str(path), suite, find, lambda found, limit: _attempt(found.held, log.path.parent, limit)
    )


def kept(raw: JsonObject, case: Case, attempt: Attempt) -> JsonObject:
    """What ``store.trivium`` of a sample holds: case and attempt, with digests of what the sample says."""
    sample = Sample(case.id, attempt.repeat + 1, raw, "")
    return {
        "case": msgspec.to_builtins(case),
        "attempt": msgspec.to_builtins(attempt),
        "read_case": _digest(_plain_case(case.id, raw)),
        "read_attempt": _digest(_plain_attempt(sample)),
    }


def _kept(raw: JsonObject) -> JsonObject:
    return dict_(at(raw, "store", "trivium"))


def _digest(value: object) -> str:
    return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


def _attempt(sample: Sample, folder: Path, limit: int) -> Attempt:
    read, more = _plain_attempt(sample), _metadata(sample.raw)
    ours = dict_(_kept(sample.raw).get("attempt"))
    if (
        ours
        and "file" not in dict_(ours.get("trace"))
        and _kept(sample.raw).get("read_attempt") == _digest(read)
    ):
        output, _, flags = read_row(ours, sample.where)
        if output is not None and (output.case, output.repeat) == (read.case, read.repeat):
            attempt = attempt_from(output, flags, folder=folder, limit=limit)
            scores = dict_(attempt.metadata.get("scores")) | more["scores"]
            return msgspec.structs.replace(attempt, metadata=attempt.metadata | more | {"scores": scores})
    return checked_attempt(msgspec.structs.replace(read, metadata=more), limit=limit)


def _plain_attempt(sample: Sample) -> Attempt:
    raw = sample.raw
    return Attempt(
        case=sample.id,
        repeat=sample.epoch - 1,
        output=completion_of(raw.get("output")),
        seconds=amount(raw.get("total_time")),
        trace=trace_of_sample(raw),
        usage=_usage(raw.get("model_usage")),
        error=_message(raw.get("error")),
    )


def _metadata(raw: JsonObject) -> JsonObject:
    metadata: JsonObject = {"scores": dict(scores_of(raw))}
    if isinstance(raw.get("limit"), dict):
        metadata["limit"] = raw["limit"].get("type")
    if retried := list_(raw.get("error_retries")):
        metadata["retries"] = len(retried)
    return metadata


def _message(error: Any) -> str | None:
    if not isinstance(error, dict):
        return None
    return nonempty_text(error.get("message")) or "the sample ended in an error"


def _usage(by_model: Any) -> Usage | None:
    """Tokens and cost of a sample, over its models."""
    used = [usage for each in dict_(by_model).values() if (usage := usage_of(each)) is not None]
    if not used:
        return None
    total = total_usage(used)
    return Usage(input_tokens=total.input_tokens, output_tokens=total.output_tokens, cost_usd=total.cost_usd)


SCALE = (0.0, 1.0)


def read_inspect_items(path: Path, *, mode: str | None = None) -> ItemTable:
    """One item per sample and epoch; the sample is the group.

    Without a mode the items are the scores that a person edited: the original value is the prediction, the
    current one the truth. A mode ``PRED:TRUTH`` names two scorers, of which the second is the truth.

    Args:
        path: The log.
        mode: Two scorers, such as ``model_graded_qa:expert``.

    Raises:
        ItemsError: If the log cannot be read, has no such scorer, or no edited score.
    """
    pair = _pair(str(path), mode)
    builder = TableBuilder(Origin(path=str(path), mode=mode), scale=SCALE)
    known: dict[str, None] = {}
    count = 0
    try:
        for sample in Log(path).samples():
            scores = {name.removeprefix(PREFIX): score for name, score in scores_of(sample.raw)}
            known.update(dict.fromkeys(scores))
            for name, pred, truth in _item_values(scores, pair):
                count += 1
                item = Item(group=sample.id, item=f"{name}, epoch {sample.epoch}", pred=pred, gt=truth)
                builder.add(item, count)
    except TraceError as error:
        raise ItemsError(error.source, error.problems) from error
    for name in pair or ():
        if name not in known:
            what = f'no scorer is called "{name}".{suggest(name, known)} It has: {", ".join(known) or "none"}'
            raise ItemsError(str(path), Problem("mode", what))
    if not count:
        what = (
            "no sample has both scores" if pair else "no score was edited by a person: use --mode PRED:TRUTH"
        )
        raise ItemsError(str(path), what)
    return builder.table() if pair is None else builder.table(sides=pair)


def _pair(source: str, mode: str | None) -> tuple[str, str] | None:
    if mode is None:
        return None
    pred, colon, truth = mode.partition(":")
    if not (pred and colon and truth):
        raise ItemsError(source, Problem("mode", f'found "{mode}", expected two scorers: PRED:TRUTH'))
    return pred.removeprefix(PREFIX), truth.removeprefix(PREFIX)


def _item_values(
    scores: dict[str, JsonObject], pair: tuple[str, str] | None
) -> list[tuple[str, float | None, float]]:
    """Name, prediction (None where the scorer abstained) and truth of each item of a sample."""
    if pair is None:
        return [
            (name, score.get("original"), score["value"])
            for name, score in scores.items()
            if "edits" in score and "value" in score
        ]
    pred, truth = scores.get(pair[0]), scores.get(pair[1])
    if pred is None or truth is None or "value" not in truth:
        return []
    return [(pair[0], pred.get("value"), truth["value"])]
