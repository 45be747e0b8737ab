"""Reads results of promptfoo as cases, outputs and scores: ``promptfoo eval -o results.json``, or ``.jsonl``.

A file holds a result for each test and each column: a prompt with a provider. A column is one agent, so one
of them is read: ``results.json?column=1``. With ``--repeat`` promptfoo gives each repeat a test of its own;
equal tests are one case here.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from trivium.agents.attempt import Attempt, Usage
from trivium.errors import Problem, TraceError
from trivium.formats.samples import NamedAttempts, Sample, attempts_of, scored, suite_of
from trivium.suites.sources import SourceCases
from trivium.suites.suite import Suite
from trivium.traces.readers.json_input import at, documents_of, dollars, text
from trivium.traces.trace import canonical
from trivium.values import JsonObject, amount, count, dict_, dicts, nonempty_text

PREFIX = "promptfoo."
"""Prefix that makes a metric's name from that of a named score, and from ``score``, that of the test."""

OLDEST = 3
"""First version of the results that is read."""

_REFERENCES = frozenset(
    {"equals", "contains", "icontains", "similar", "factuality", "model-graded-factuality"}
)
"""Types of assertions whose value is an answer that is right."""

_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_FAILED, _PASSED = 0.0, 1.0
_ERROR = 2
"""The ``failureReason`` of a test that failed for another reason than an assertion."""

MOST_COLUMNS_NAMED = 8
"""Columns that a message lists."""


def read_suite(path: Path) -> SourceCases:
    """The tests of a file as cases.

    Raises:
        SuiteError: If it holds no results, or results of several columns and none is named.
    """
    file, column = _named(path)
    return suite_of(file, file.stem, partial(samples, column=column))


def read_attempts(path: Path, suite: Suite) -> NamedAttempts:
    """The outputs of a file as attempts.

    Raises:
        OutputsError: If a test is not a case of the suite.
        TraceError: If the file cannot be read.
    """
    file, column = _named(path)
    return attempts_of(file, suite, partial(samples, column=column))


def _named(path: Path) -> tuple[Path, str | None]:
    """The file, and the column that is named after it."""
    name, _, column = path.name.partition("?column=")
    return (path, None) if path.exists() or not column else (path.with_name(name), column)


def samples(path: Path, *, column: str | None = None) -> list[Sample]:
    """One sample for each result of a column.

    Args:
        path: The file.
        column: Number of the column, from 0; needed if there are several.

    Raises:
        TraceError: If the file holds no results, or not those of the column.
    """
    source = str(path)
    results = list(_results(documents_of(path), source))
    columns = {_column(result): result for _, result in reversed(results)}
    if column is None and len(columns) > 1:
        listed = "; ".join(
            f"?column={number}: {_prompt(result)} with {_provider(result)}"
            for number, result in sorted(columns.items())[:MOST_COLUMNS_NAMED]
        )
        what = f"holds results of {len(columns)} prompts and providers; name one behind the file: {listed}"
        raise TraceError(source, what)
    if column is not None and column not in columns:
        raise TraceError(source, f'has no column "{column[:20]}": there are {", ".join(sorted(columns))}')
    ids: dict[bytes, str] = {}
    found = []
    for where, result in results:
        if column is None or _column(result) == column:
            test = dict_(result.get("testCase"))
            same = canonical([result.get("vars"), test.get("description"), test.get("assert")])
            id_ = ids.setdefault(same, text(result, "testIdx") or str(len(ids)))
            found.append(_sample(where, id_, result, test))
    return found


def _results(documents: list[Any], source: str) -> Iterator[tuple[str, JsonObject]]:
    """Each result with its place."""
    whole = len(documents) == 1 and isinstance(at(documents[0], "results"), dict | list)
    if whole:
        summary = documents[0]["results"] if isinstance(documents[0]["results"], dict) else documents[0]
        version = count(summary.get("version"))
        if version is None or version < OLDEST:
            what = f"expected results of promptfoo of version {OLDEST} or later; its version is {version}"
            raise TraceError(source, what)
        documents = summary["results"] if isinstance(summary.get("results"), list) else []
    for number, result in enumerate(documents, start=0 if whole else 1):
        where = f"results[{number}]" if whole else f"line {number}"
        if not isinstance(result, dict) or not isinstance(result.get("success"), bool):
            what = 'expected a result of promptfoo, an object with "success"'
            raise TraceError(source, Problem(where, what))
        yield where, result
    if not documents:
        raise TraceError(source, "holds no result of promptfoo")


def _column(result: JsonObject) -> str:
    return text(result, "promptIdx") or "0"


def _prompt(result: JsonObject) -> str:
    prompt = dict_(result.get("prompt"))
    return f'"{" ".join((text(prompt, "label", "raw") or "").split())[:40]}"'


def _provider(result: JsonObject) -> str:
    return (text(dict_(result.get("provider")), "label", "id") or "no provider")[:60]


def _sample(where: str, id_: str, result: JsonObject, test: JsonObject) -> Sample:
    variables, response = dict_(result.get("vars")), dict_(result.get("response"))
    reason = nonempty_text(at(result, "gradingResult", "reason"))
    named = {f"{PREFIX}{key}": scored(value) for key, value in dict_(result.get("namedScores")).items()}
    failed = result.get("failureReason") == _ERROR
    latency = amount(result.get("latencyMs"))
    asked = next(iter(variables.values())) if len(variables) == 1 else variables
    why = text(result, "error") or text(response, "error") or "it failed without a reason"
    attempt = Attempt(
        case=id_,
        output=response.get("output"),
        reward=None if failed else _PASSED if result["success"] else _FAILED,
        seconds=None if latency is None or response.get("cached") is True else latency / 1000,
        usage=_usage(result),
        error=why if failed else None,
        metadata={
            "scores": {f"{PREFIX}score": scored(result.get("score"), explanation=reason), **named},
            "provider": _provider(result),
            "prompt": at(result, "prompt", "raw"),
        },
    )
    return Sample(
        where=where,
        input=asked if variables else at(result, "prompt", "raw") or "",
        references=tuple(dict.fromkeys(_references(test, variables))),
        about={"description": test["description"]} if text(test, "description") else {},
        attempt=attempt,
    )


def _references(test: JsonObject, variables: JsonObject) -> Iterator[str]:
    """The right answers that assertions state; one with other templates than a single variable is none."""
    for each in dicts(test.get("assert")):
        value = each.get("value")
        if each.get("type") in _REFERENCES and isinstance(value, str):
            variable = _VARIABLE.fullmatch(value.strip())
            value = variables.get(variable[1]) if variable else value
            if isinstance(value, str) and value and "{{" not in value:
                yield value


def _usage(result: JsonObject) -> Usage | None:
    """Tokens and cost; promptfoo writes 0 where a provider states none."""
    tokens = dict_(result.get("tokenUsage"))
    inputs, outputs = count(tokens.get("prompt")) or None, count(tokens.get("completion")) or None
    cost = dollars(result.get("cost"))
    if inputs is None and outputs is None and cost is None:
        return None
    return Usage(input_tokens=inputs, output_tokens=outputs, cost_usd=cost)
