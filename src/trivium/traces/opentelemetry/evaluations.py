"""Evaluations in OpenTelemetry: the events ``gen_ai.evaluation.result`` of spans, written and read.

The name, the score and the explanation are those of the GenAI conventions (semantic-conventions-genai, in
development in October 2026). They do not name an evaluator yet: its id, version and type are as their pull
request 359 proposes; pydantic-evals writes the version, too. The models of a judge have no name there.
"""

from collections.abc import Sequence
from typing import Any, Final

from trivium.traces.opentelemetry.semconv import RecordedSpan
from trivium.traces.trace import Trace
from trivium.values import JsonObject, dicts, is_number, json_or_text, list_, nonempty_text

EVENT: Final = "gen_ai.evaluation.result"
NAME: Final = "gen_ai.evaluation.name"
VALUE: Final = "gen_ai.evaluation.score.value"
LABEL: Final = "gen_ai.evaluation.score.label"
EXPLANATION: Final = "gen_ai.evaluation.explanation"
ERROR: Final = "error.type"
EVALUATOR: Final = "gen_ai.evaluation.evaluator.id"
EVALUATOR_VERSION: Final = "gen_ai.evaluation.evaluator.version"
EVALUATOR_TYPE: Final = "gen_ai.evaluation.evaluator.type"
EVALUATOR_MODELS: Final = "trivium.evaluator.models"

EVALUATIONS: Final = "evaluations"
"""Key of a trace's metadata."""

PREFIX: Final = "otel."
"""Prefix that makes a metric's name from an evaluation's."""

MOST: Final = 1_000
"""Most evaluations of a trace that are read."""

_TEXTS: Final = {
    "label": LABEL,
    "explanation": EXPLANATION,
    "error": ERROR,
    "evaluator": EVALUATOR,
    "version": EVALUATOR_VERSION,
    "type": EVALUATOR_TYPE,
}


def evaluations_of(spans: Sequence[RecordedSpan]) -> JsonObject:
    """The evaluations in the events of spans, as the part of a trace's metadata that they are; else empty."""
    found = [
        read
        for span in spans
        for name, attributes in span.events or ()
        if name == EVENT and (read := _read(attributes)) is not None
    ]
    return {EVALUATIONS: found[:MOST]} if found else {}


def _read(attributes: JsonObject) -> JsonObject | None:
    """One evaluation, with what it states; None for one without a name."""
    name = nonempty_text(attributes.get(NAME))
    if name is None:
        return None
    value = attributes.get(VALUE)
    read: JsonObject = {"name": name} | ({"value": value} if is_number(value) else {})
    texts = {key: nonempty_text(attributes.get(attribute)) for key, attribute in _TEXTS.items()}
    models = _texts(attributes.get(EVALUATOR_MODELS))
    return read | {key: text for key, text in texts.items() if text} | ({"models": models} if models else {})


def _texts(value: Any) -> list[str]:
    """A list of texts, or the JSON of one."""
    value = json_or_text(value) if isinstance(value, str) else value
    return [each for each in list_(value) if isinstance(each, str)]


def recorded_scores(trace: Trace) -> JsonObject:
    """The evaluations of a trace as recorded scores of its attempt: its metadata, else empty.

    A number outside 0 to 1 is reported as it is. Of several evaluations with one name the last counts.
    """
    scores = {}
    for each in dicts(trace.metadata.get(EVALUATIONS)):
        value = each.get("value")
        score: JsonObject = {"raw": each.get("label") if value is None else value}
        if is_number(value) and 0 <= value <= 1:
            score["value"] = value
        if value is None and (each.get("error") or not each.get("label")):
            score["unscored"] = each.get("explanation") or each.get("error") or "the evaluator gave no value"
        kept = ("explanation", "evaluator", "version", "type", "models")
        scores[f"{PREFIX}{each.get('name')}"] = score | {key: each[key] for key in kept if key in each}
    return {"scores": scores} if scores else {}
