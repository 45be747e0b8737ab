"""Reads trajectories of ATIF, Harbor's Agent Trajectory Interchange Format, version 1.

A trajectory is a list of steps of one agent, each with one moment: no duration of a request or call is
stated, so spans have no times, and the trace has its start and its seconds from the first step to the last
one. A trajectory that ``trivium.traces.writers.atif`` wrote holds the trace itself, which counts as long as
its steps are those that were written.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec

from trivium.errors import Problem, TraceError
from trivium.traces.native import native_trace
from trivium.traces.normalize import normalise
from trivium.traces.readers.chat import SpansOfMessages
from trivium.traces.readers.json_input import at, dollars, first_item, flat, moment, read_usage, text
from trivium.traces.trace import INCOMPLETE, Span, SpanUsage, Trace, canonical
from trivium.values import JsonObject, count, dict_, dicts

STEP, OBSERVATION = "step", "observation"
"""Names of the spans of a step that asked no model, and of a result that answers no call."""

_VERSION = re.compile(r"ATIF-v1(\.\d+)?")
_FAILED = ("is_error", "tool_result_is_error")
"""Keys with which Harbor's agents mark a failed call, in ``extra`` of its result."""
_KEPT = ("reasoning_content", "reasoning_effort", "llm_call_count", "timestamp", "extra")
"""Fields of a step that its span keeps as attributes."""


def sniff(document: Any) -> bool:
    """Whether a JSON value is a trajectory, or a list of them."""
    return str(at(first_item(document), "schema_version")).startswith("ATIF-")


def read_traces(documents: Sequence[Any], source: str) -> list[Trace]:
    """The traces of a file, one for each trajectory; those of its subagents are part of it.

    Raises:
        TraceError: If one is no trajectory of version 1.
    """
    return [_trace(each, source, f"[{index}]") for index, each in enumerate(flat(documents))]


def digest_of(trajectory: JsonObject) -> str:
    """A digest of the steps of a trajectory and of its subagents."""
    steps = [trajectory.get("steps"), trajectory.get("subagent_trajectories")]
    return sha256(canonical(steps)).hexdigest()


def _trace(document: Any, source: str, where: str) -> Trace:
    version = at(document, "schema_version")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        shown = f'"{version[:40]}"' if isinstance(version, str) else "no text"
        what = f'expected a trajectory of version 1, such as "ATIF-v1.7"; its schema_version is {shown}'
        raise TraceError(source, Problem(where, what))
    if not dicts(document.get("steps")):
        raise TraceError(
            source, Problem(where, 'expected a trajectory with a list "steps" that is not empty')
        )
    extra = dict_(document.get("extra"))
    case = {key: extra[key] for key in ("case", "repeat") if isinstance(extra.get(key), str | int)}
    ours = dict_(extra.get("trivium"))
    if "trace" in ours and ours.get("steps") == digest_of(document):
        trace = native_trace(ours["trace"], source=source, where=f"{where}: extra.trivium.trace")
        return msgspec.structs.replace(trace, metadata=trace.metadata | case)
    reader = _Reader()
    reader.read(document)
    return normalise(
        reader.spans,
        trace_id=text(document, "trajectory_id", "session_id") or "",
        problems=reader.problems,
        metadata=_metadata(document, reader.moments) | case,
    )


def _metadata(document: JsonObject, moments: list[tuple[float, str]]) -> JsonObject:
    final, agent = dict_(document.get("final_metrics")), dict_(document.get("agent"))
    usage = SpanUsage(
        input_tokens=count(final.get("total_prompt_tokens")),
        output_tokens=count(final.get("total_completion_tokens")),
        cost_usd=dollars(final.get("total_cost_usd")),
    )
    stated: JsonObject = {
        "conversation_id": text(document, "session_id"),
        "started": min(moments)[1] if moments else None,
        "seconds": max(moments)[0] - min(moments)[0] if len(moments) > 1 else None,
        "usage": msgspec.to_builtins(usage) or None,
        "agent_version": text(agent, "version"),
        "notes": text(document, "notes"),
        "extra": {key: value for key, value in dict_(document.get("extra")).items() if key != "trivium"}
        or None,
    }
    return {key: value for key, value in stated.items() if value is not None}


class _Reader(SpansOfMessages):
    """The spans of a trajectory and of those of its subagents."""

    def __init__(self) -> None:
        super().__init__()
        self.moments: list[tuple[float, str]] = []
        self._callers: dict[str, str] = {}  # id of a subagent's trajectory: the span that refers to it

    def read(self, document: JsonObject) -> None:
        waiting, number = [(document, "", "")], 0  # trajectory, start of its ids, span of the agent above it
        while waiting:
            trajectory, prefix, above = waiting.pop()
            run = f"{prefix}run"
            self._agent(trajectory, prefix, self._callers.get(text(trajectory, "trajectory_id") or "", above))
            for each in reversed(dicts(trajectory.get("subagent_trajectories"))):
                number += 1
                waiting.append((each, f"{number}-", run))
        self.finish("it has no result")

    def _agent(self, trajectory: JsonObject, prefix: str, above: str) -> None:
        agent = dict_(trajectory.get("agent"))
        name, model = text(agent, "name") or "agent", text(agent, "model_name") or "assistant"
        place, run = len(self.spans), f"{prefix}run"
        asked: list[JsonObject] = []
        answer: str | None = None
        for number, step in enumerate(dicts(trajectory.get("steps")), start=1):
            if step.get("is_copied_context") is True:
                continue  # it belongs to the trajectory that it was copied from
            time, said = moment(step.get("timestamp")), self._text(step.get("message"))
            if time is not None:
                self.moments.append((time, str(step["timestamp"])))
            if step.get("source") == "agent":
                answer = said or None
                self._step(step, f"{prefix}{number}", run, model, said)
            elif said:
                asked.append({"role": "user" if step.get("source") == "user" else "system", "content": said})
            self._results(step, f"{prefix}{number}", run)
        span = Span(id=run, kind="agent", name=name, parent=above or None, input=asked or None, output=answer)
        self.spans.insert(place, span)
        if continued := text(trajectory, "continued_trajectory_ref"):
            self.problem(INCOMPLETE, f"it continues in {continued[:200]}, which is not read", run)

    def _step(self, step: JsonObject, id_: str, run: str, model: str, said: str | None) -> None:
        metrics = dict_(step.get("metrics"))
        fields = {**metrics, "cache_read_tokens": metrics.get("cached_tokens")}
        asked = step.get("llm_call_count") != 0
        self.spans.append(
            Span(
                id=f"{'llm' if asked else STEP}-{id_}",
                kind="llm" if asked else "other",
                name=(text(step, "model_name") or model) if asked else STEP,
                parent=run,
                output=said,
                usage=read_usage(fields, cost=dollars(metrics.get("cost_usd"))),
                attributes={key: step[key] for key in _KEPT if step.get(key) is not None},
            )
        )

    def _results(self, step: JsonObject, id_: str, run: str) -> None:
        """Add the calls of a step with their results; a result of no call is a span of its own."""
        calls, results = dicts(step.get("tool_calls")), dicts(at(step, "observation", "results"))
        answered: dict[str, list[JsonObject]] = {}
        for result in results:
            answered.setdefault(text(result, "source_call_id") or "", []).append(result)
        for number, call in enumerate(calls):
            span = f"tool-{id_}-{number}"
            self._call(call, span, run, answered.pop(text(call, "tool_call_id") or "", []))
        left = [result for of_call in answered.values() for result in of_call]
        for number, result in enumerate(left):
            span, content = f"{OBSERVATION}-{id_}-{number}", self._text(result.get("content"))
            self.spans.append(Span(id=span, kind="other", name=OBSERVATION, parent=run, output=content))
            self._refer(result, span)

    def _call(self, call: JsonObject, span: str, run: str, results: list[JsonObject]) -> None:
        """Add a call with its results, of which there may be several."""
        contents = [self._text(result.get("content")) for result in results]
        texts = [content for content in contents if content is not None]
        failed = any(dict_(each.get("extra")).get(key) is True for each in results for key in _FAILED)
        output = "\n".join(texts) if texts else None
        if not results:
            self.problem("unfinished", "it has no result", span)
        self.spans.append(
            Span(
                id=span,
                kind="tool",
                name=text(call, "function_name") or "",
                parent=run,
                ok=not (failed or (output or "").startswith("Error")) if results else None,
                input=call.get("arguments"),
                output=output,
                attributes={"extra": call["extra"]} if call.get("extra") else {},
            )
        )
        for result in results:
            self._refer(result, span)

    def _refer(self, result: JsonObject, span: str) -> None:
        for reference in dicts(result.get("subagent_trajectory_ref")):
            id_ = text(reference, "trajectory_id")
            if id_ is not None:
                self._callers.setdefault(id_, span)
            elif path := text(reference, "trajectory_path"):
                what = f"the trajectory of a subagent is in {path[:200]}, which is not read"
                self.problem(INCOMPLETE, what, span)

    def _text(self, content: Any) -> str | None:
        joined = self.text(content)
        return joined if isinstance(joined, str) else None
