"""Writes a run as a JSON log of Inspect AI, version 2: attempts as samples, repeats as epochs.

Inspect's own fields hold what they have a place for. ``store.trivium`` of a sample holds the case and the
attempt themselves; ``trivium.formats.inspect_log.samples`` says when they count.
"""

import json
import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import msgspec

from trivium.agents.attempt import Attempt, ChatMessage
from trivium.formats.inspect_log.samples import PREFIX, kept
from trivium.metrics.evaluation import Evaluation
from trivium.metrics.metric import Score
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.traces.conversation import answer_in
from trivium.traces.opentelemetry.semconv import NANOSECONDS
from trivium.traces.outcome import counted_usage, total_usage
from trivium.traces.trace import Span, SpanUsage, Trace
from trivium.traces.writers.otlp import Clock, clock_of
from trivium.values import JsonObject, dict_, dicts, is_number, json_or_text, list_, sum_known, text_or_json

STATUSES = {"done": "success", "interrupted": "cancelled", "running": "started"}
PASSED = "passed"
"""Name of the score that holds the verdict of the suite's ``pass`` rule."""

_ROLES = frozenset({"system", "user", "assistant", "tool"})


def log_pieces(store: Store, run: RunRecord) -> Iterator[bytes]:
    """Yield a log in pieces, with one attempt in memory at a time; the totals of usage need a first pass."""
    agent = run.provenance.agent or run.kind
    used: dict[str, SpanUsage] = {}
    for stored in store.attempts(run):
        for model, usage in _used(stored.attempt, agent).items():
            used[model] = total_usage([*([used[model]] if model in used else []), usage])
    head: JsonObject = {"version": 2, "status": STATUSES[run.state], "eval": _spec(run, agent)}
    head["plan"] = {"steps": [{"solver": agent, "params": {}}]}
    if run.summary is not None:
        head["results"] = _results(run.summary)
    head["stats"] = {
        "started_at": _time(run.created),
        "completed_at": "" if run.finished is None else _time(run.finished),
        "model_usage": {model: _usage(usage) for model, usage in used.items()},
    }
    yield _json(head)[:-1] + b',"samples":['
    before = b""
    for case, attempt, evaluation in store.views(run):
        yield before + _json(sample_of(case, attempt, evaluation, begun=run.created, agent=agent))
        before = b",\n"
    yield b"]}\n"


def _json(value: Any) -> bytes:
    """JSON with NaN, which is how Inspect writes that a sample was not scored."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _spec(run: RunRecord, agent: str) -> JsonObject:
    cases = dict_(run.summary).get("cases")
    return {
        "eval_id": run.id,
        "run_id": run.id,
        "created": _time(run.created),
        "task": run.suite_name,
        "task_id": run.suite,
        "dataset": {"name": run.suite_name} | ({"samples": cases} if isinstance(cases, int) else {}),
        "model": agent,
        "solver": agent,
        "config": {"epochs": run.settings.repeats},
        "packages": {"trivium": version("trivium")},
        "metadata": {"trivium.run.kind": run.kind, "trivium.suite.digest": run.suite},
    }


def _results(summary: JsonObject) -> JsonObject:
    """The means with their intervals; the pass rate comes first and is the headline."""
    rate = dict_(summary.get("pass_rate"))
    figures = {PASSED: rate | {"mean": rate.get("value")}} | dict_(summary.get("metrics"))
    figures["composite"] = dict_(summary.get("composite"))
    scores = [_result(name, figure) for name, figure in figures.items() if is_number(figure.get("mean"))]
    attempts = summary.get("attempts")
    results: JsonObject = {"scores": scores}
    if isinstance(attempts, int):
        results |= {"total_samples": attempts, "completed_samples": attempts}
    if scores:
        first = scores[0]["name"]
        results["headline"] = {"scorer": first, "score": first, "metric": "mean"}
    return results


def _result(metric: str, figure: JsonObject) -> JsonObject:
    name = metric.removeprefix(PREFIX)
    interval = list_(figure.get("ci95"))
    values = {"mean": figure["mean"]}
    if len(interval) == 2 and all(map(is_number, interval)):
        values |= {"ci95_lower": interval[0], "ci95_upper": interval[1]}
    about = {key: figure[key] for key in ("tier", "method", "groups", "coverage") if figure.get(key)}
    return {
        "name": name,
        "scorer": name,
        "scored_samples": figure.get("n"),
        "metrics": {key: {"name": key, "value": value} for key, value in values.items()},
        "metadata": about,
    }


def sample_of(
    case: Case, attempt: Attempt, evaluation: Evaluation, *, begun: float, agent: str
) -> JsonObject:
    """Make the sample of an attempt.

    Args:
        case: The case.
        attempt: The attempt.
        evaluation: Its scores.
        begun: Unix time at which its run began, for a trace that does not state when it was.
        agent: Name of the agent, which stands for the model where the trace names none.
    """
    trace = attempt.trace or Trace()
    model = next((span.name for span in reversed(trace.spans) if span.kind == "llm"), agent)
    output: JsonObject = {"model": model, "choices": []}
    if attempt.output is not None:
        said = text_or_json(attempt.output)
        output |= {"choices": [_choice({"role": "assistant", "content": said})], "completion": said}
    choices = case.metadata.get("choices")
    raw: JsonObject = {
        "id": case.id,
        "epoch": attempt.repeat + 1,
        "input": _input(case.input),
        "target": case.references[0] if len(case.references) == 1 else list(case.references),
        "messages": list(_messages(case, attempt, trace)),
        "output": output,
        "scores": dict(_scores(evaluation)),
        "metadata": case.metadata,
        "events": list(_events(trace, clock_of(trace, begun), begun)),
        "model_usage": {name: _usage(each) for name, each in _used(attempt, agent).items()},
        "total_time": attempt.seconds,
    }
    if isinstance(choices, list) and all(isinstance(each, str) for each in choices):
        raw["choices"] = choices
    if attempt.error is not None:
        raw["error"] = {"message": attempt.error, "traceback": "", "traceback_ansi": ""}
    return raw | {"store": {"trivium": kept(raw, case, attempt)}}


def _choice(message: JsonObject) -> JsonObject:
    return {"message": message | {"source": "generate"}, "stop_reason": "stop"}


def _input(value: Any) -> Any:
    """A text, or messages if they are ones that Inspect has."""
    turns = dicts(value)
    plain = all(turn.get("role") in _ROLES and isinstance(turn.get("content"), str) for turn in turns)
    if isinstance(value, list) and turns and len(turns) == len(value) and plain:
        return [{"role": turn["role"], "content": turn["content"]} for turn in turns]
    return text_or_json(value)


def _scores(evaluation: Evaluation) -> Iterator[tuple[str, JsonObject]]:
    """The verdict, the scores and the composite; a metric that does not apply has none."""
    if evaluation.passed is not None:
        yield PASSED, {"value": float(evaluation.passed), "explanation": evaluation.failed}
    for score in evaluation.scores.values():
        if score.status != "skipped" or score.missing:
            yield score.name.removeprefix(PREFIX), _score(score)
    if evaluation.composite.value is not None:
        made = evaluation.composite
        about = {"coverage": made.coverage, "recommendation": made.recommendation, "status": made.status}
        yield "composite", {"value": made.value, "explanation": made.reason, "metadata": about}


def _score(score: Score) -> JsonObject:
    """One score; one without a value is unscored, unless its raw figure is what it reports."""
    about = {"tier": score.tier, "status": score.status, "method": score.method, "raw": score.raw}
    answer, explanation = score.detail.get("answer"), score.reason or score.detail.get("explanation")
    fields: JsonObject = {
        "value": math.nan if score.value is None else score.value,
        "answer": answer if isinstance(answer, str) else None,
        "explanation": explanation if isinstance(explanation, str) else None,
        "metadata": {key: value for key, value in about.items() if value is not None},
    }
    if score.value is None and score.status == "ok":
        fields["value"] = f"{text_or_json(score.raw)} (raw)"
    elif score.value is None:
        fields["reason"] = score.reason or score.status
    return fields


def _messages(case: Case, attempt: Attempt, trace: Trace) -> Iterator[JsonObject]:
    """The conversation if it is recorded, else the question, what the trace has, and the answer."""
    if attempt.messages:
        yield from map(_message, attempt.messages)
        return
    asked = _input(case.input)
    yield from asked if isinstance(asked, list) else [{"role": "user", "content": asked}]
    said = None
    for span in trace.spans:
        if span.kind == "llm":
            said = text_or_json(answer_in(span.output))
            yield {"role": "assistant", "content": said, "model": span.name, "source": "generate"}
        elif span.kind == "tool":
            call = {"id": span.id, "function": span.name, "arguments": _arguments(span), "type": "function"}
            yield {"role": "assistant", "content": "", "tool_calls": [call], "source": "input"}
            yield _result_of(span)
            said = None
    if attempt.output is not None and said != (answer := text_or_json(attempt.output)):
        yield {"role": "assistant", "content": answer, "source": "input"}


def _message(message: ChatMessage) -> JsonObject:
    role = message.role if message.role in _ROLES else "user"
    fields: JsonObject = {"role": role, "content": text_or_json(message.content)}
    if role == "tool":
        fields["tool_call_id"] = text_or_json(message.tool_call_id)
    if role == "assistant" and (calls := dicts(message.tool_calls)):
        fields["tool_calls"] = [_requested(call) for call in calls]
    return fields


def _requested(call: JsonObject) -> JsonObject:
    """A call in the form of OpenAI's API, as Inspect has it."""
    function = dict_(call.get("function"))
    stated = function.get("arguments")
    arguments = json_or_text(stated) if isinstance(stated, str) else stated
    return {
        "id": text_or_json(call.get("id")),
        "function": text_or_json(function.get("name")),
        "arguments": arguments if isinstance(arguments, dict) else {"input": arguments},
        "type": "function",
    }


def _arguments(span: Span) -> JsonObject:
    if isinstance(span.input, dict):
        return span.input
    return {} if span.input is None else {"input": span.input}


def _result_of(span: Span) -> JsonObject:
    failed = {"error": _failure(span)} if span.ok is False else {}
    content = text_or_json(span.output)
    return {
        "role": "tool",
        "content": content,
        "tool_call_id": span.id,
        "function": span.name,
        **failed,
    }


def _failure(span: Span) -> JsonObject:
    stated = span.attributes.get("error")
    return {"type": "unknown", "message": stated if isinstance(stated, str) else text_or_json(span.output)}


def _events(trace: Trace, clock: Clock, begun: float) -> Iterator[JsonObject]:
    """The spans as events: an agent's run encloses what is below it, and so does a call with spans below."""
    below: dict[str | None, list[Span]] = {}
    for each in trace.spans:
        below.setdefault(each.parent, []).append(each)
    waiting: list[Span | JsonObject] = list(reversed(below.get(None, [])))

    def at(seconds: float | None) -> str:
        moment = clock.at(seconds)
        return _time(begun if moment is None else moment / NANOSECONDS)

    while waiting:
        event = waiting.pop()
        if isinstance(event, dict):
            yield event
            continue
        span = event
        inner = below.get(span.id, [])
        common = {"span_id": span.parent, "timestamp": at(span.start), "working_start": span.start or 0.0}
        ended = {} if span.end is None else {"completed": at(span.end)}
        if span.kind == "llm":
            yield _model_event(span) | common | ended
        elif span.kind == "tool":
            yield _tool_event(span) | common | ended
        if span.kind != "llm" and (inner or span.kind != "tool"):
            kind = span.kind if span.kind in {"agent", "tool"} else None
            begin = {"event": "span_begin", "id": span.id, "parent_id": span.parent, "name": span.name}
            yield begin | common | {"span_id": span.id, "type": kind}
            if span.end is not None:
                end = {"event": "span_end", "id": span.id, "span_id": span.id, "timestamp": at(span.end)}
                waiting.append(end | {"working_start": span.end})
        waiting += reversed(inner)


def _model_event(span: Span) -> JsonObject:
    message = {"role": "assistant", "content": text_or_json(answer_in(span.output))}
    output: JsonObject = {"model": span.name, "choices": [_choice(message)]}
    if span.usage is not None:
        output["usage"] = _usage(span.usage)
    event = {"event": "model", "uuid": span.id, "model": span.name, "output": output} | _state(span)
    if span.ok is False:
        event["error"] = _failure(span)["message"] or "failed"
    return event | {"input": [], "tools": [], "tool_choice": "auto", "config": {}}


def _tool_event(span: Span) -> JsonObject:
    result = span.output if isinstance(span.output, bool | int | float) else text_or_json(span.output)
    event: JsonObject = {
        "event": "tool",
        "uuid": span.id,
        "id": span.id,
        "function": span.name,
        "result": result,
    }
    event |= {"arguments": _arguments(span)} | _state(span)
    if span.ok is False:
        event |= {"error": _failure(span), "failed": True}
    return event


def _state(span: Span) -> JsonObject:
    return {"pending": True} if span.ok is None else {}


def _used(attempt: Attempt, agent: str) -> dict[str, SpanUsage]:
    """What each model used by the trace, if that is what the attempt states; else the agent's total."""
    by_model: dict[str, list[SpanUsage]] = {}
    for span, usage in counted_usage(attempt.trace or Trace()):
        by_model.setdefault(span.name, []).append(usage)
    found = {model: total_usage(usages) for model, usages in by_model.items()}
    if (stated := attempt.usage) is None:
        return found
    total = total_usage(found.values())
    fields = ("input_tokens", "output_tokens", "cost_usd")
    if found and all(getattr(stated, each) in (None, getattr(total, each)) for each in fields):
        return found
    return {agent: SpanUsage(**msgspec.structs.asdict(stated))}


def _usage(usage: SpanUsage) -> JsonObject:
    """Tokens as Inspect counts them, cached ones apart from the input; it has 0 for what is unknown."""
    parts: Iterable[int | None] = (usage.cache_read_tokens, usage.cache_write_tokens)
    cached = sum_known(parts) or 0
    inputs, outputs = usage.input_tokens or 0, usage.output_tokens or 0
    further = {
        "input_tokens_cache_read": usage.cache_read_tokens,
        "input_tokens_cache_write": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "total_cost": usage.cost_usd,
    }
    known = {key: value for key, value in further.items() if value is not None}
    fresh = max(0, inputs - cached)
    return {"input_tokens": fresh, "output_tokens": outputs, "total_tokens": inputs + outputs, **known}
