"""Reads samples of the Language Model Evaluation Harness as cases, outputs and scores.

``lm_eval --log_samples`` writes a file ``samples_TASK_DATE.jsonl`` for each task. A line is one document
under one filter (a way to find the answer in a response); lines of one document are one output with several
scores.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trivium.agents.attempt import Attempt
from trivium.errors import Problem, TraceError
from trivium.formats.samples import NamedAttempts, Sample, attempts_of, scored, suite_of
from trivium.suites.sources import SourceCases
from trivium.suites.suite import Suite
from trivium.traces.readers.json_input import documents_of, text
from trivium.values import JsonObject, count, dict_, is_number, list_, text_or_json

PREFIX = "lm-eval."
"""Prefix that makes a metric's name from that of the harness."""

_FIELDS = frozenset(
    {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"}
    | {"doc_hash", "prompt_hash", "target_hash"}
)
_LOWER_IS_BETTER = frozenset({"brier_score", "ter", "bypass", "perplexity", "bits_per_byte"})
"""The harness's metrics of which a smaller value is better, or that say nothing: they are no scores here."""

_TASK = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d.-]+$")


def read_suite(path: Path) -> SourceCases:
    """The documents of a file as cases.

    Raises:
        SuiteError: If it holds no samples, or samples without an answer.
    """
    task = _TASK.fullmatch(path.stem)
    return suite_of(path, path.stem if task is None else task[1], samples)


def read_attempts(path: Path, suite: Suite) -> NamedAttempts:
    """The responses of a file as attempts.

    Raises:
        OutputsError: If a document is not a case of the suite.
        TraceError: If the file cannot be read.
    """
    return attempts_of(path, suite, samples)


def samples(path: Path) -> list[Sample]:
    """One sample for each document.

    Raises:
        TraceError: If the file holds no samples, or samples without an answer.
    """
    source = str(path)
    documents: dict[str, list[tuple[str, JsonObject]]] = {}
    for number, line in enumerate(documents_of(path), start=1):
        where = f"line {number}"
        if not isinstance(line, dict) or "resps" not in line or text(line, "doc_id") is None:
            what = "expected a sample of lm-evaluation-harness, an object with doc_id and resps"
            raise TraceError(source, Problem(where, what))
        documents.setdefault(str(text(line, "doc_id")), []).append((where, line))
    return [_sample(id_, lines, source) for id_, lines in documents.items()]


def _sample(id_: str, lines: list[tuple[str, JsonObject]], source: str) -> Sample:
    where, first = lines[0]
    prompts, responses = list(_prompts(first.get("arguments"))), list_(first.get("resps"))
    asked, target = (prompts[0][0] if prompts else ""), first.get("target")
    choices = [choice.strip() if isinstance(choice, str) else "" for _, choice in prompts]
    answer = _innermost(responses)
    likelihoods = [_likelihood(response) for response in responses]
    if isinstance(answer, str) and len(prompts) == 1 and likelihoods[0] is None:
        output = answer
    elif len(choices) > 1 and all(choices) and len(likelihoods) == len(choices) and None not in likelihoods:
        known = [likelihood for likelihood in likelihoods if likelihood is not None]
        output = choices[known.index(max(known))]
        right = count(int(target)) if isinstance(target, str) and target.isdecimal() else count(target)
        target = choices[right] if right is not None and right < len(choices) else target
    else:
        what = "holds no answer: expected a task that generates a text or chooses among several"
        raise TraceError(source, Problem(where, what))
    scores = {name: score for _, line in lines for name, score in _scores(line, several=len(lines) > 1)}
    attempt = Attempt(
        case=id_,
        output=output,
        reward=next((score["value"] for score in scores.values() if "value" in score), None),
        metadata={"scores": scores},
    )
    return Sample(
        where=where,
        input=asked if isinstance(asked, str) else text_or_json(asked),
        references=(text_or_json(target),) if target not in (None, "") else (),
        about=dict_(first.get("doc")),
        attempt=attempt,
    )


def _scores(line: JsonObject, *, several: bool) -> Iterator[tuple[str, JsonObject]]:
    """The scores of a line, with the filter in their names if a document has lines of several."""
    stated = list_(line.get("metrics")) or [name for name in line if name not in _FIELDS]
    filter_ = text(line, "filter")
    found = _innermost(line.get("filtered_resps"))
    for name in stated:
        if isinstance(name, str) and name in line and name not in _LOWER_IS_BETTER:
            value = float(line[name]) if isinstance(line[name], bool) else line[name]
            if is_number(value):
                suffix = f".{filter_}" if several and filter_ else ""
                yield (
                    f"{PREFIX}{name}{suffix}",
                    scored(value, answer=found if isinstance(found, str) else None),
                )


def _prompts(arguments: Any) -> Iterator[tuple[Any, Any]]:
    """Each request's first and second argument; older files have lists where newer ones have objects."""
    for each in arguments.values() if isinstance(arguments, dict) else list_(arguments):
        parts = list(each.values()) if isinstance(each, dict) else list_(each)
        yield (parts[0] if parts else ""), (parts[1] if len(parts) > 1 else None)


def _innermost(value: Any) -> Any:
    """The first value in lists of lists."""
    while isinstance(value, list) and value:
        value = value[0]
    return value


def _likelihood(response: Any) -> float | None:
    """The log-likelihood of a choice: the first of a pair, as text or as a number; None for a text."""
    while isinstance(response, list) and len(response) == 1:
        response = response[0]
    if not isinstance(response, list) or len(response) != 2 or str(response[1]) not in {"True", "False"}:
        return None
    try:
        return float(response[0])
    except (TypeError, ValueError):
        return None
