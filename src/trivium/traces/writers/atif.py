"""Writes traces as trajectories of ATIF, Harbor's Agent Trajectory Interchange Format, version 1.7.

Each agent's run is a trajectory: its model requests are steps, its tool calls with their results belong to
the request before them, and runs below it are its subagents'. ``extra.trivium`` holds the trace itself, for
what steps have no place for, with a digest that tells a reader whether the steps have been changed since.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from trivium.traces.conversation import answer_in, question_in
from trivium.traces.opentelemetry.semconv import NANOSECONDS
from trivium.traces.outcome import counted_usage, stated_usage, total_usage
from trivium.traces.readers.atif import digest_of
from trivium.traces.trace import Span, SpanUsage, Trace, parents_first
from trivium.traces.writers.otlp import Clock, TraceToExport, clock_of
from trivium.values import JsonObject, dict_, text_or_json

VERSION = "ATIF-v1.7"

UNKNOWN = "unknown"
"""The version of an agent, which the format demands and traces seldom state."""


def trajectory(export: TraceToExport) -> JsonObject:
    """The trajectory of a trace, with its scores in ``final_metrics.extra``."""
    trace, clock = export.trace, clock_of(export.trace, export.started_at)
    owners = _owners(trace.spans)
    runs = {span.id: _Run(span.name, span.id, clock) for span in trace.spans if span.kind == "agent"}
    outermost = [id_ for id_, owner in owners.items() if owner is None]
    one = len(outermost) == 1 and outermost[0] in runs
    main = runs[outermost[0]] if one else _Run(export.name, None, clock)
    if not trace.spans:
        main.begin(Span(id="", kind="agent", name="", input=export.input))
        main.end(Span(id="", kind="agent", name="", output=export.output))
    for index in parents_first(trace.spans):
        span = trace.spans[index]
        owner = owners[span.id]
        above = main if owner is None else runs[owner]
        if span.kind == "agent":
            runs[span.id].begin(span)
            if runs[span.id] is not main:
                above.delegate(span)
        elif span.kind in {"llm", "tool"}:
            above.add(span)
    for span in trace.spans:
        if span.kind == "agent":
            runs[span.id].end(span)
    version = trace.metadata.get("agent_version")
    version = version if isinstance(version, str) else UNKNOWN
    document = main.document(version) | {"session_id": trace.trace_id or export.key}
    if trace.trace_id:
        document["trajectory_id"] = trace.trace_id
    if below := [run.document(UNKNOWN) for run in runs.values() if run is not main]:
        document["subagent_trajectories"] = below
    document["final_metrics"] = _final(export, steps=len(main.steps))
    return document | {"extra": _extra(export, document)}


def lines(exports: Iterable[TraceToExport]) -> Iterable[bytes]:
    """One trajectory on each line: the file of one trace is one that Harbor reads."""
    return (msgspec.json.encode(trajectory(each)) + b"\n" for each in exports)


def _owners(spans: tuple[Span, ...]) -> dict[str, str | None]:
    """The nearest agent span above each span."""
    kinds = {span.id: span.kind for span in spans}
    owners: dict[str, str | None] = {}
    for index in parents_first(spans):
        span = spans[index]
        agent = span.parent is not None and kinds[span.parent] == "agent"
        owners[span.id] = span.parent if agent or span.parent is None else owners[span.parent]
    return owners


def _final(export: TraceToExport, *, steps: int) -> JsonObject:
    counted = total_usage(usage for _, usage in counted_usage(export.trace))
    usage = stated_usage(export.trace) or counted
    scores = {
        fields["gen_ai.evaluation.name"]: fields["gen_ai.evaluation.score.value"]
        for _, fields in export.events
        if "gen_ai.evaluation.score.value" in fields
    }
    stated = {
        "total_prompt_tokens": usage.input_tokens,
        "total_completion_tokens": usage.output_tokens,
        "total_cached_tokens": counted.cache_read_tokens,
        "total_cost_usd": usage.cost_usd,
        "extra": {"scores": scores} if scores else None,
    }
    return {"total_steps": steps, **_known(stated)}


def _extra(export: TraceToExport, document: JsonObject) -> JsonObject:
    case = {
        "case": export.attributes.get("trivium.case.id"),
        "repeat": export.attributes.get("trivium.repeat"),
    }
    extra = _known({**case, "error": export.error})
    if export.trace != Trace():
        extra["trivium"] = {"steps": digest_of(document), "trace": msgspec.to_builtins(export.trace)}
    return extra


def _known(fields: JsonObject) -> JsonObject:
    return {key: value for key, value in fields.items() if value is not None}


class _Run:
    """The steps of one agent's run."""

    def __init__(self, name: str, id_: str | None, clock: Clock) -> None:
        self.steps: list[JsonObject] = []
        self._name, self._id, self._clock = name, id_, clock
        self._model: str | None = None
        self._results: dict[str, JsonObject] = {}

    def document(self, version: str) -> JsonObject:
        """The trajectory; one without any step gets an empty one, since the format demands one."""
        if not self.steps:
            self._step("system", None, "")
        agent = _known({"name": self._name, "version": version, "model_name": self._model})
        return {
            "schema_version": VERSION,
            **({} if self._id is None else {"trajectory_id": self._id}),
            "agent": agent,
            "steps": [{"step_id": number, **step} for number, step in enumerate(self.steps, start=1)],
        }

    def begin(self, span: Span) -> None:
        """Begin with what was asked."""
        question = question_in(span.input)
        if question is not None:
            self._step("user", span.start, text_or_json(question))

    def end(self, span: Span) -> None:
        """End with the answer, unless the last request has given it."""
        answer = answer_in(span.output)
        said = [step["message"] for step in self.steps if step["source"] == "agent" and step["message"]]
        if answer is not None and said[-1:] != [text_or_json(answer)]:
            self._step("agent", span.end, text_or_json(answer), llm_call_count=0)

    def add(self, span: Span) -> None:
        """Add a request or a call."""
        if span.kind == "llm":
            self._model = self._model or span.name
            fields = {"model_name": span.name, "llm_call_count": 1, "metrics": _metrics(span.usage)}
            self._step("agent", span.start, text_or_json(answer_in(span.output)), **_known(fields))
            return
        if not self.steps or self.steps[-1]["source"] != "agent":
            self._step("agent", span.start, "", llm_call_count=0)
        arguments = span.input if isinstance(span.input, dict) else {}
        if span.input is not None and not isinstance(span.input, dict):
            arguments = {"input": span.input}
        call = {"tool_call_id": span.id, "function_name": span.name, "arguments": arguments}
        self.steps[-1].setdefault("tool_calls", []).append(call)
        if span.ok is not None or span.output is not None:
            output = span.attributes.get("error") if span.output is None else span.output
            failed = {"extra": {"is_error": True}} if span.ok is False else {}
            result = {"source_call_id": span.id, "content": text_or_json(output), **failed}
            self._results[span.id] = self._observed(result)

    def delegate(self, span: Span) -> None:
        """Refer to the trajectory of a subagent, from the call that started it if there is one."""
        result = None if span.parent is None else self._results.get(span.parent)
        if result is None:
            if not self.steps:
                self._step("agent", span.start, "", llm_call_count=0)
            result = self._observed({})
        result.setdefault("subagent_trajectory_ref", []).append({"trajectory_id": span.id})

    def _observed(self, result: JsonObject) -> JsonObject:
        self.steps[-1].setdefault("observation", {"results": []})["results"].append(result)
        return result

    def _step(self, source: str, time: float | None, message: str, **fields: Any) -> None:
        at = self._clock.at(time) if self._clock.since != "1970" else None
        stamp = None if at is None else datetime.fromtimestamp(at / NANOSECONDS, UTC).isoformat()
        self.steps.append(_known({"timestamp": stamp, "source": source, "message": message, **fields}))


def _metrics(usage: SpanUsage | None) -> JsonObject | None:
    if usage is None:
        return None
    known = dict_(msgspec.to_builtins(usage))
    names = {
        "input_tokens": "prompt_tokens",
        "output_tokens": "completion_tokens",
        "cache_read_tokens": "cached_tokens",
        "cost_usd": "cost_usd",
    }
    metrics: JsonObject = {name: known.pop(key) for key, name in names.items() if key in known}
    return metrics | ({"extra": known} if known else {})
