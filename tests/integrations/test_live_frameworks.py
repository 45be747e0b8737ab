"""Agents of other frameworks, on scripted models, are captured through their real instrumentation and scored.

Every framework runs once, in a process of its own (OpenTelemetry's global provider can be set once), and does
what tests/integrations/live says: the counts here are those of the script.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

import trivium as tv
from tests.integrations.live.program import INPUT_TOKENS, METRICS, OUTPUT_TOKENS, TOOLS
from tests.odd_values import ODD, PLAIN
from trivium.cli.main import run_command
from trivium.traces.readers.collection import read_path

ROOT = Path(__file__).parents[2]
FRAMEWORKS = ("pydantic_ai", "openai_agents", "langgraph")
LEFT_OUT = {"OPENAI_AGENTS_DISABLE_TRACING", "TRIVIUM_TRACES", "OTEL_SDK_DISABLED"}
NATIVE = {"openai_agents": "openai-agents", "langgraph": "langsmith"}

ASKED = [("manager", "writer", "task_request"), ("writer", "manager", "result_delivery")]
OVER = {  # an output function of PydanticAI is called and answers; the others hand over for good
    "pydantic_ai": [("editor", "manager", "result_delivery"), ("manager", "editor", "task_request")],
    "openai_agents": [("manager", "editor", "handoff")],
    "langgraph": [("manager", "editor", "handoff")],
}
CALLS = [
    ("manager", "ask_writer", True),
    ("manager", "flaky", False),
    ("manager", "flaky", True),
    ("manager", "search", True),
    ("manager", "search", True),
    ("writer", "look_up", True),
]
ARGUMENTS = [
    ("flaky", {"number": 1}),
    ("flaky", {"number": 2}),
    ("look_up", {"word": "cat"}),
    ("search", {"query": "cats"}),
    ("search", {"query": "dogs"}),
]
REQUESTS = {"manager": 5, "writer": 2, "editor": 1}


class Attempts(msgspec.Struct):
    traces: list[tv.Trace]
    outputs: list[str]
    means: dict[str, float]
    odd: dict[str, tuple[str, str, str, int]]


class Live(NamedTuple):
    framework: str
    evaluated: Attempts
    folder: Path


@pytest.fixture(scope="module", params=FRAMEWORKS)
def live(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    settings = {key: value for key, value in os.environ.items() if key not in LEFT_OUT}
    settings |= {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", "LANGSMITH_TRACING": "false"}
    command = [sys.executable, "-m", f"tests.integrations.live.with_{request.param}"]
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return Live(request.param, msgspec.json.decode(done.stdout, type=Attempts), folder)


@pytest.fixture
def written(live):
    _, (trace,) = read_path(live.folder / "logs" / "traces")
    return trace


def calls(trace):
    return sorted((call.agent, call.name, call.ok) for call in trace.tool_calls)


def arguments(trace):
    wanted = {name for name, _ in ARGUMENTS}
    return sorted(((call.name, call.input) for call in trace.tool_calls if call.name in wanted), key=str)


def messages(trace):
    return sorted((message.sender, message.receiver, message.type) for message in trace.messages)


def assert_is_what_was_done(trace, framework):
    assert Counter(span.name for span in trace.spans if span.kind == "agent") == dict.fromkeys(REQUESTS, 1)
    assert calls(trace) == CALLS
    assert arguments(trace) == ARGUMENTS
    requests = [span for span in trace.spans if span.kind == "llm"]
    assert Counter(span.agent for span in requests) == REQUESTS
    assert sum(span.usage.input_tokens for span in requests) == INPUT_TOKENS * 8
    assert sum(span.usage.output_tokens for span in requests) == OUTPUT_TOKENS * 8
    assert messages(trace) == sorted(ASKED + OVER[framework])
    assert trace.problems == ()
    assert all(span.end is not None for span in trace.spans)


def test_each_attempt_has_the_trace_of_its_own_case(live):
    assert live.evaluated.outputs == ["the answer"] * 3
    assert len({trace.trace_id for trace in live.evaluated.traces}) == 3
    for trace in live.evaluated.traces:
        assert_is_what_was_done(trace, live.framework)


def test_the_results_of_tools_are_what_the_tools_gave(live):
    for trace in live.evaluated.traces:
        found = {(call.name, str(call.output)) for call in trace.tool_calls if call.ok}
        assert found == {
            ("ask_writer", "a draft"),
            ("flaky", "well"),
            ("look_up", "cat: a word"),
            ("search", "a page about cats"),
            ("search", "a page about dogs"),
        }
        (failed,) = (call for call in trace.tool_calls if not call.ok)
        # OpenAI Agents keeps what a tool raised out of its traces.
        why = "Tool execution failed" if live.framework == "openai_agents" else "try another number"
        assert why in failed.attributes["error"]


def test_the_parallel_calls_are_of_one_request_and_the_retry_comes_after_the_failure(live):
    for trace in live.evaluated.traces:
        mine = [
            span
            for span in sorted(trace.spans, key=lambda span: span.start)
            if span.agent == "manager" and span.kind in {"llm", "tool"} and not span.attributes.get("handoff")
        ]
        names = ["llm" if span.kind == "llm" else span.name for span in mine]
        assert names == [
            "llm",
            "search",
            "search",
            "llm",
            "flaky",
            "llm",
            "flaky",
            "llm",
            "ask_writer",
            "llm",
        ]
        assert [span.ok for span in mine if span.name == "flaky"] == [False, True]


def test_the_metrics_of_traces_score_it(live):
    steered = sum(kind == "handoff" for _, _, kind in OVER[live.framework])
    overhead = 1 - steered / len(ASKED + OVER[live.framework])
    # Three agents in a row: two pairs at distance 1, one at distance 2.
    efficiency = (1 + 1 + 1 / 2) / 3
    assert live.evaluated.means == {
        "tool_recall": 1.0,
        "tool_selection": pytest.approx(len(TOOLS) / 6),
        "tool_success": pytest.approx(5 / 6),
        "communication_overhead": pytest.approx(overhead),
        "coordination_quality": pytest.approx(overhead * efficiency),
    }
    assert set(live.evaluated.means) == set(METRICS)


def test_outside_of_an_evaluation_the_same_is_written_to_files(live, written):
    assert_is_what_was_done(written, live.framework)


def test_the_files_are_shown(live, capsys):
    assert run_command(["traces", "show", str(live.folder / "logs" / "traces")]) == 0
    out = capsys.readouterr().out
    for line in ("1 trace of format otlp", "3 agent, 8 llm", "tokens: 80 in, 16 out"):
        assert line in out
    assert "tool calls that failed: 1" in out


def test_what_the_framework_itself_records_says_the_same(live, written):
    if live.framework not in NATIVE:
        assert not (live.folder / "native.jsonl").exists()
        return
    name, (trace,) = read_path(live.folder / "native.jsonl")
    assert name == NATIVE[live.framework]
    assert_is_what_was_done(trace, live.framework)
    # Of calls that are made at once, each of the two may see another one start first.
    assert sorted(str(call.output) for call in trace.tool_calls if call.ok) == sorted(
        str(call.output) for call in written.tool_calls if call.ok
    )


PAGE = (ROOT / "docs" / "frameworks.md").read_text(encoding="utf-8")
DOES = {
    "pydantic_ai": "Agent.instrument_all",
    "openai_agents": "OpenAIAgentsInstrumentor",
    "langgraph": "LangChainInstrumentor",
}
CALLED = {"pydantic_ai": "PydanticAI", "openai_agents": "OpenAI Agents", "langgraph": "LangGraph"}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_lines_that_the_page_shows_are_those_that_were_run(framework):
    program = (ROOT / "tests" / "integrations" / "live" / f"with_{framework}.py").read_text(encoding="utf-8")
    run = {line.strip() for line in program.splitlines()}
    blocks = [block.split("```")[0] for block in PAGE.split("```py\n")[1:]]
    (shown,) = (block for block in blocks if DOES[framework] in block)
    wanted = {line for line in shown.splitlines() if line and not line.startswith(("from ", "import "))}
    assert len(wanted) == 3
    assert wanted <= run


def test_the_page_says_what_came_out(live, written):
    requests = [span for span in written.spans if span.kind == "llm"]
    usage = [sum(getattr(span.usage, way) for span in requests) for way in ("input_tokens", "output_tokens")]
    cells = [
        CALLED[live.framework],
        len(written.spans),
        sum(span.kind == "agent" for span in written.spans),
        len(requests),
        len(written.tool_calls),
        sum(not call.ok for call in written.tool_calls),
        f"{usage[0]} + {usage[1]}",
        ", ".join(message.type for message in written.messages),
    ]
    assert f"| {' | '.join(map(str, cells))} |\n" in PAGE


def test_agents_end_as_they_do_without_trivium_whatever_their_tools_return(live):
    """How an agent ended: before anything listened, recorded to a file, recorded within a block."""
    assert set(live.evaluated.odd) == ODD.keys() - {"leaves"}
    for name, (without, to_a_file, in_a_block, calls_recorded) in live.evaluated.odd.items():
        assert without == to_a_file == in_a_block, name
        if name in PLAIN:
            assert calls_recorded == 1, name
