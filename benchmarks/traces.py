"""From OTLP to a scored trace: CPU seconds relative to decoding the same JSON, and traces per second.

    python -m benchmarks.traces

One trace of 50,000 spans is read, built into graphs and scored by every trace metric; so are 1,000 traces of
50 spans, whose tool graphs all differ. Each figure is the median of a few rounds in CPU seconds, which other
load hardly affects.
``--chain`` replaces the wide trace by 16,667 nested agents, 50,000 levels deep.
"""

import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from benchmarks.sizes import sized
from trivium.agents.attempt import Attempt
from trivium.metrics.registry import build_metrics
from trivium.metrics.scoring import score_attempts
from trivium.runs.trace_scores.score import score_traces
from trivium.suites.case import Case, Expect, ExpectedTool
from trivium.suites.settings import Settings
from trivium.traces.readers.collection import read_trace_file

SPANS = sized(50_000, 100)
TRACES, SMALL = sized(1_000, 3), 50
ROUNDS = sized(5, 1)
RATIO_TARGET, TRACES_TARGET = 3, 2_000
METRICS = (
    "path_convergence",
    "tool_selection",
    "tool_recall",
    "tool_success",
    "tool_efficiency",
    "action_match",
    "complexity",
    "communication_overhead",
    "centrality",
    "coordination_quality",
    "task_balance",
)
AGENTS = ("researcher", "analyst", "writer", "critic")
TOOLS = ("search", "fetch", "rank", "summarise", "store")
ORIGIN, STEP = 1_790_000_000_000_000_000, 2_000_000
CASE = Case(id="1", input="", expect=Expect(tools=tuple(ExpectedTool(name=name) for name in TOOLS)))

Json = dict[str, Any]


class Recorder:
    """Writes spans as an exporter does, in the order in which they end."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.trace = f"{self.random.getrandbits(128):032x}"

    def id(self) -> str:
        return f"{self.random.getrandbits(64):016x}"

    def span(self, id: str, parent: str | None, name: str, at: int, steps: float, attributes: Json) -> Json:  # noqa: A002
        start = ORIGIN + at * STEP
        failed = name.startswith("execute_tool") and self.random.random() < 0.1
        return {
            "traceId": self.trace,
            "spanId": id,
            **({} if parent is None else {"parentSpanId": parent}),
            "flags": 256,
            "name": name,
            "kind": 1,
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(start + round(steps * STEP)),
            "attributes": [
                {"key": key, "value": {"intValue" if isinstance(value, int) else "stringValue": str(value)}}
                for key, value in attributes.items()
            ],
            "status": {"code": 2, "message": "failed"} if failed else {},
        }

    def agent(self, id: str, parent: str | None, name: str, at: int, steps: float) -> Json:  # noqa: A002
        stated = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
        return self.span(id, parent, f"invoke_agent {name}", at, steps, stated)

    def tool(self, id: str, parent: str, at: int, steps: float) -> Json:  # noqa: A002
        name = self.random.choice(TOOLS)
        stated = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": f"call_{at}",
            "gen_ai.tool.call.arguments": json.dumps({"query": f"q {at}"}),
        }
        return self.span(id, parent, f"execute_tool {name}", at, steps, stated)

    def chat(self, parent: str, at: int) -> Json:
        stated = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o-mini",
            "gen_ai.usage.input_tokens": self.random.randint(10, 900),
            "gen_ai.usage.output_tokens": self.random.randint(1, 90),
        }
        return self.span(self.id(), parent, "chat gpt-4o-mini", at, 0.5, stated)


def wide(spans: int, seed: int) -> list[Json]:
    """A manager that calls one agent after the other, each with model requests and tool calls."""
    recorder = Recorder(seed)
    root, found = recorder.id(), []
    while len(found) < spans - 1:
        at, run = len(found) + 1, recorder.id()
        steps = min(recorder.random.randint(4, 12), spans - 2 - len(found))
        for step in range(1, steps + 1):
            if step % 2:
                found.append(recorder.chat(run, at + step))
            else:
                found.append(recorder.tool(recorder.id(), run, at + step, 0.5))
        found.append(recorder.agent(run, root, recorder.random.choice(AGENTS), at, steps + 1))
    return [*found, recorder.agent(root, None, "manager", 0, spans + 1)]


def chain(spans: int, seed: int) -> list[Json]:
    """Each agent calls the next through a tool, so that the depth equals the number of spans."""
    recorder = Recorder(seed)
    parent, found = None, []
    for at in range(0, spans, 3):
        run, call = recorder.id(), recorder.id()
        steps = 2 * (spans - at) + 2
        found.append(recorder.agent(run, parent, AGENTS[at % len(AGENTS)], at, steps))
        found.append(recorder.chat(run, at + 1))
        found.append(recorder.tool(call, run, at + 2, steps - 3))
        parent = call
    return found[::-1][-spans:]


def request(spans: list[Json]) -> bytes:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "benchmark"}}]}
    scopes = [{"scope": {"name": "benchmark"}, "spans": spans}]
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}).encode()


def cpu(work: Callable[[], Any]) -> float:
    """Median CPU seconds of a function; garbage is collected before each round."""
    taken = []
    for _ in range(ROUNDS):
        gc.collect()
        started = time.process_time()
        result = work()
        taken.append(time.process_time() - started)
        del result
    return statistics.median(taken)


def large(folder: Path, spans: list[Json]) -> None:
    """One large trace: read, then scored, against decoding its JSON."""
    path = folder / "large.json"
    path.write_bytes(request(spans))
    content = path.read_bytes()
    scorers = build_metrics(METRICS, Settings())

    def score() -> Any:
        trace = read_trace_file(path)[0]
        return score_attempts(scorers, [(CASE, Attempt(case="1", trace=trace))])

    assert [len(trace.spans) for trace in read_trace_file(path)] == [len(spans)]
    decoding, reading, scored = (
        cpu(work) for work in (lambda: msgspec.json.decode(content), lambda: read_trace_file(path), score)
    )
    print(f"one trace of {len(spans):,} spans, {len(content) / 1e6:.1f} MB of OTLP/JSON, CPU seconds")
    print(f"  decoding the JSON with msgspec  {decoding:8.3f}")
    print(f"  reading the trace               {reading:8.3f}  {reading / decoding:5.2f}×")
    print(
        f"  reading and scoring it          {scored:8.3f}  {scored / decoding:5.2f}×"
        f"  (target: {RATIO_TARGET}×)"
    )


def many(folder: Path) -> None:
    """Small traces, one file each: read and scored."""
    paths = []
    for number in range(TRACES):
        paths.append(folder / f"{number}.json")
        paths[-1].write_bytes(request(wide(SMALL, number)))
    scorers = build_metrics(METRICS, Settings())

    def score() -> Any:
        attempts = [(CASE, Attempt(case="1", trace=read_trace_file(path)[0])) for path in paths]
        return score_attempts(scorers, attempts)

    taken = cpu(score)
    print(
        f"{TRACES:,} traces of {SMALL} spans, one file each: {TRACES / taken:,.0f} per CPU second, read and"
        f" scored (target: {TRACES_TARGET:,})"
    )
    store = f"sqlite:///{folder / 'store.db'}"
    reported = cpu(lambda: score_traces(paths, store=store))
    print(f"  the same with score_traces, reported and stored: {TRACES / reported:,.0f} per CPU second")


def main() -> None:
    """Print the figures."""
    shape = chain if "--chain" in sys.argv else wide
    with tempfile.TemporaryDirectory() as folder:
        large(Path(folder), shape(SPANS, 0))
        many(Path(folder))


if __name__ == "__main__":
    main()
