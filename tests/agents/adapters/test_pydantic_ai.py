import asyncio
import sys

import numpy as np
import pytest

import trivium as tv
from tests.agents.asked import asked
from trivium.agents.attempt import Usage
from trivium.agents.invoke import attempt_seed, invoke
from trivium.agents.loading import load_agent
from trivium.errors import AgentError, MissingExtra
from trivium.suites.case import Case
from trivium.suites.settings import Limits
from trivium.traces.recording import config as configuring

pytest.importorskip("opentelemetry.sdk")
pydantic_ai = pytest.importorskip("pydantic_ai")

from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402
from opentelemetry.trace import NoOpTracerProvider  # noqa: E402
from pydantic import BaseModel  # noqa: E402
from pydantic_ai import Agent, ModelRetry, RunContext  # noqa: E402
from pydantic_ai.capabilities import Instrumentation  # noqa: E402
from pydantic_ai.exceptions import ModelHTTPError  # noqa: E402
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart  # noqa: E402
from pydantic_ai.models.function import FunctionModel  # noqa: E402
from pydantic_ai.models.instrumented import InstrumentationSettings  # noqa: E402
from pydantic_ai.models.test import TestModel  # noqa: E402


def scripted(*responses):
    """A model that gives these responses one after the other: a text, or calls of tools."""

    def respond(messages, info):
        done = sum(isinstance(message, ModelResponse) for message in messages)
        response = responses[done]
        if isinstance(response, str):
            return ModelResponse(parts=[TextPart(response)])
        return ModelResponse(parts=[ToolCallPart(name, arguments) for name, arguments in response])

    return FunctionModel(respond, model_name="scripted")


def team():
    """A manager that delegates to a researcher, who searches twice at once, and fetches after a retry."""
    researcher = Agent(
        scripted(
            [("search", {"query": "a"}), ("search", {"query": "b"})],
            [("fetch", {"paper": "wrong"})],
            [("fetch", {"paper": "right"})],
            "Two papers found.",
        ),
        name="researcher",
    )
    manager = Agent(scripted([("delegate", {"topic": "lexicons"})], "The review."), name="manager")

    @researcher.tool_plain
    def search(query: str) -> list[str]:
        return [query, query]

    @researcher.tool_plain(retries=2)
    def fetch(paper: str) -> dict[str, str]:
        if paper == "wrong":
            raise ModelRetry("no such paper")
        return {"text": f"text of {paper}"}

    @manager.tool_plain
    async def delegate(topic: str) -> str:
        return (await researcher.run(topic)).output

    return manager


def test_the_trace_of_a_team_holds_those_it_delegates_to():
    attempt = asked(team())
    assert attempt.output == "The review."
    trace = attempt.trace
    calls = [(span.agent, span.name, span.ok, span.input) for span in trace.tool_calls]
    assert calls[0] == ("manager", "delegate", True, {"topic": "lexicons"})
    assert sorted(call[3]["query"] for call in calls[1:3]) == ["a", "b"]
    assert calls[3:] == [
        ("researcher", "fetch", False, {"paper": "wrong"}),
        ("researcher", "fetch", True, {"paper": "right"}),
    ]
    assert [(m.sender, m.receiver, m.type) for m in trace.messages] == [
        ("manager", "researcher", "task_request"),
        ("researcher", "manager", "result_delivery"),
    ]
    assert trace.agents == ("manager", "researcher")
    assert [span.kind for span in trace.spans].count("llm") == 6
    assert trace.problems == ()


def test_contents_and_times_are_in_the_trace():
    trace = asked(team()).trace
    spans = {span.name: span for span in trace.spans}
    assert spans["search"].output in (["a", "a"], ["b", "b"])
    assert spans["fetch"].output == {"text": "text of right"}
    assert spans["manager"].output == "The review."
    assert spans["scripted"].output[0]["role"] == "assistant"
    assert trace.spans[0].start > 1e9
    assert all(span.end >= span.start for span in trace.spans)


def test_usage_is_the_sum_over_all_model_requests():
    trace_usage = asked(team())
    requests = [span.usage for span in trace_usage.trace.spans if span.kind == "llm"]
    assert trace_usage.usage == Usage(
        input_tokens=sum(each.input_tokens for each in requests),
        output_tokens=sum(each.output_tokens for each in requests),
        cost_usd=None,
    )
    assert trace_usage.usage.output_tokens > 0


def test_attempts_at_once_do_not_mix_their_traces():
    async def run():
        agent = load_agent(team())
        cases = [Case(id=str(i), input="q") for i in range(6)]
        return await asyncio.gather(*(invoke(agent, case, 0, Limits(), seed=1) for case in cases))

    attempts = asyncio.run(run())
    assert {len(attempt.trace.spans) for attempt in attempts} == {13}
    assert len({attempt.trace.trace_id for attempt in attempts}) == 6


def test_a_failed_run_keeps_its_trace_up_to_the_failure():
    agent = Agent(scripted([("broken", {})]), name="fails")

    @agent.tool_plain
    def broken() -> str:
        raise ZeroDivisionError("by zero")

    attempt = asked(agent)
    assert attempt.error == "ZeroDivisionError: by zero"
    (call,) = attempt.trace.tool_calls
    assert (call.name, call.ok) == ("broken", False)


def test_a_busy_provider_is_asked_again():
    answers = iter([ModelHTTPError(503, "m", "busy"), "fine"])

    def respond(messages, info):
        response = next(answers)
        if isinstance(response, Exception):
            raise response
        return ModelResponse(parts=[TextPart(response)])

    attempt = asked(Agent(FunctionModel(respond), name="a"))
    assert (attempt.output, attempt.metadata) == ("fine", {"tries": 2})


def test_a_wrong_key_is_not_asked_again():
    def respond(messages, info):
        raise ModelHTTPError(401, "m", {"error": "bad key sk-abcdefghijkl"})

    attempt = asked(Agent(FunctionModel(respond), name="a"))
    assert attempt.error.startswith("ModelHTTPError: status_code: 401")
    assert "sk-abc" not in attempt.error
    assert "tries" not in attempt.metadata


def test_the_case_reaches_tools_and_the_seed_the_model():
    seen = {}

    def respond(messages, info):
        seen["seed"] = info.model_settings["seed"]
        returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if not returned:
            return ModelResponse(parts=[ToolCallPart("read_paper", {})])
        return ModelResponse(parts=[TextPart(f"I read: {returned[0].content}")])

    agent = Agent(FunctionModel(respond), name="reader", deps_type=Case)

    @agent.tool
    def read_paper(ctx: RunContext[Case]) -> str:
        return ctx.deps.source

    attempt = asked(agent, case=Case(id="c", input="q", source="the paper"), repeat=1, seed=8)
    assert attempt.output == "I read: the paper"
    assert seen["seed"] == attempt_seed(8, "c", 1)


def test_a_record_as_output_becomes_json():
    class Review(BaseModel):
        verdict: str
        score: float

    agent = Agent(
        TestModel(custom_output_args={"verdict": "accept", "score": 0.5}), output_type=Review, name="a"
    )
    assert asked(agent).output == {"verdict": "accept", "score": 0.5}


def test_an_input_that_is_no_text_is_given_as_json():
    def respond(messages, info):
        return ModelResponse(parts=[TextPart(messages[0].parts[0].content)])

    assert asked(Agent(FunctionModel(respond), name="a"), input={"a": [1]}).output == '{"a":[1]}'


def test_an_agent_without_a_name_takes_the_one_it_was_found_by(tmp_path, monkeypatch):
    (tmp_path / "unnamed_agents.py").write_text(
        "from pydantic_ai import Agent\n"
        "from pydantic_ai.models.test import TestModel\n"
        "auditor = Agent(TestModel())\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    attempt = asked("unnamed_agents:auditor")
    del sys.modules["unnamed_agents"]
    assert attempt.trace.agents == ("auditor",)


def test_an_agent_that_wants_other_dependencies_is_refused_beforehand():
    with pytest.raises(AgentError, match="dependencies of type dict, which Trivium does not provide"):
        load_agent(Agent(TestModel(), deps_type=dict, name="a"))


def test_without_the_sdk_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(MissingExtra, match=r'pip install "trivium\[judge\]"'):
        load_agent(Agent(TestModel(), name="a"))


@pytest.fixture
def own_telemetry():
    """A user's own place for spans."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield exporter, InstrumentationSettings(tracer_provider=provider)
    Agent.instrument_all(False)


def test_the_user_s_own_telemetry_goes_on_and_is_listened_to(own_telemetry):
    exporter, settings = own_telemetry
    Agent.instrument_all(settings)
    attempt = asked(team())
    assert len(attempt.trace.spans) == 13
    assert len(exporter.get_finished_spans()) == 13
    assert Agent._instrument_default is settings


def test_agents_are_instrumented_for_the_length_of_an_attempt_only():
    asked(team())
    assert not Agent._instrument_default


def test_agents_outside_of_an_attempt_are_not_recorded():
    async def run():
        outside = Agent(scripted([("wait", {})], "outside"), name="outside")
        inside = Agent(scripted([("wait", {})], "inside"), name="inside")
        begun, release = asyncio.Event(), asyncio.Event()

        @inside.tool_plain
        async def wait() -> str:
            begun.set()
            await release.wait()
            return "waited"

        @outside.tool_plain(name="wait")
        def wait_not() -> str:
            return "did not wait"

        attempt = asyncio.create_task(
            invoke(load_agent(inside), Case(id="1", input="q"), 0, Limits(), seed=1)
        )
        await begun.wait()
        await outside.run("q")
        release.set()
        return await attempt

    assert asyncio.run(run()).trace.agents == ("inside",)


def test_an_agent_s_own_place_for_spans_is_listened_to(own_telemetry):
    """As of team.py of docs/frameworks.md: each agent has its own capability."""
    exporter, settings = own_telemetry
    agent = Agent(TestModel(), name="a", capabilities=[Instrumentation(settings)])
    agent.tool_plain(look_up)
    attempt = asked(agent)
    assert [(call.agent, call.name) for call in attempt.trace.tool_calls] == [("a", "look_up")]
    assert attempt.trace.problems == ()
    assert len(exporter.get_finished_spans()) == len(attempt.trace.spans)


def look_up(word: str) -> str:
    return f"{word}: a word"


@pytest.mark.parametrize("fails", [False, True])
def test_an_agent_that_cannot_be_listened_to_has_the_trace_of_its_messages(fails):
    settings = InstrumentationSettings(tracer_provider=NoOpTracerProvider())
    steps = [[("look_up", {"word": "cat"})], [("broken", {})], "done"]
    agent = Agent(scripted(*steps), name="a", capabilities=[Instrumentation(settings)])
    agent.tool_plain(look_up)

    @agent.tool_plain
    def broken() -> str:
        if fails:
            raise ZeroDivisionError("by zero")
        return "well"

    attempt = asked(agent)
    assert attempt.failed is fails
    calls = [(call.agent, call.name, call.input) for call in attempt.trace.tool_calls]
    assert calls == [("a", "look_up", {"word": "cat"}), ("a", "broken", {})]
    assert "incomplete" in {problem.kind for problem in attempt.trace.problems}
    assert attempt.trace.agents == ("a",)


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("result", "stored"),
    [(Text("a page"), "a page"), (np.float64(0.5), "0.5"), ([Text("a")], ["a"])],  # PydanticAI tells texts
)
def test_a_tool_s_result_of_any_class_is_stored(tmp_path, result, stored):
    agent = Agent(scripted([("look", {})], "done"), name="a")

    @agent.tool_plain
    def look() -> object:
        return result

    suite = tv.Suite(cases=[tv.Case(id=name, input="q") for name in "abcd"], name="s")
    run = tv.evaluate(suite, agent=agent, metrics=["tool_success"], store=f"sqlite:///{tmp_path}/s.db")
    (call,) = next(iter(run.attempts())).trace.tool_calls
    assert call.output == stored
    assert run.summary().metrics["tool_success"].n == 4


def test_what_runs_below_decorated_agents_and_above_decorated_tools_is_one_trace():
    @tv.trace.tool
    def lookup(word):
        return f"{word}: a word"

    inner = Agent(scripted([("find", {"word": "cat"})], "found"), name="inner")

    @inner.tool_plain
    def find(word: str) -> str:
        return lookup(word)

    provider = TracerProvider(shutdown_on_exit=False)
    tv.trace.listen(provider)
    inner.instrument = InstrumentationSettings(tracer_provider=provider)

    @tv.trace.agent
    async def outer(question):
        return (await inner.run(question)).output

    trace = asked(outer).trace
    assert [(call.agent, call.name) for call in trace.tool_calls] == [("inner", "find"), ("inner", "lookup")]
    names = {span.id: span.name for span in trace.spans}
    parents = [(names.get(span.parent), span.name) for span in trace.spans if span.kind != "llm"]
    assert (None, "outer") in parents
    assert ("outer", "inner") in parents
    assert ("find", "lookup") in parents
    assert [(m.sender, m.receiver, m.type) for m in trace.messages] == [
        ("outer", "inner", "task_request"),
        ("inner", "outer", "result_delivery"),
    ]
    assert trace.problems == ()


def test_what_is_decorated_in_a_tool_is_written_to_no_file(tmp_path, monkeypatch):
    settings = configuring.Recording(folder=tmp_path / "traces")
    monkeypatch.setattr(configuring._Current, "recording", settings)
    agent = Agent(TestModel(), name="a")

    @agent.tool_plain
    @tv.trace.tool
    def look() -> str:
        return "seen"

    attempt = asked(agent)
    assert [call.name for call in attempt.trace.tool_calls] == ["look"]
    assert not (tmp_path / "traces").exists()


def test_a_chat_is_the_history_and_its_last_message_is_asked():
    def respond(messages, info):
        said = [f"{part.part_kind}: {part.content}" for message in messages for part in message.parts]
        return ModelResponse(parts=[TextPart("; ".join(said))])

    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where is it?"},
        {"role": "assistant", "content": "Which?"},
        {"role": "user", "content": "42"},
    ]
    for messages, output in (
        (chat, "system-prompt: Be brief.; user-prompt: Where is it?; text: Which?; user-prompt: 42"),
        (chat[1:2], "user-prompt: Where is it?"),
        (chat[1:3], "user-prompt: user: Where is it?\n\nassistant: Which?"),
    ):
        assert asked(Agent(FunctionModel(respond), name="a"), input=messages).output == output


PICTURE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}}
PARTS = [
    "Look:",
    {"type": "text", "text": "what is it?"},
    PICTURE,
    {"type": "input_image", "image_url": "data:image/png;base64,AAEC"},
    {"type": "input_audio", "input_audio": {"data": "AwQ=", "format": "mp3"}},
    {"type": "file", "file": {"file_data": "data:application/pdf;base64,BQ==", "filename": "a.pdf"}},
]


def given_to(messages):
    """What a model gets of a chat, and the attempt."""
    got = []

    def respond(messages, info):
        got.extend(part for message in messages for part in message.parts)
        return ModelResponse(parts=[TextPart("ok")])

    return got, asked(Agent(FunctionModel(respond)), case=Case(id="a", input=messages))


def test_images_sounds_and_files_reach_the_model_as_such():
    (got,), attempt = given_to([{"role": "user", "content": PARTS}])
    assert attempt.output == "ok"
    assert got.content[:2] == ["Look:", "what is it?"]
    link, *data = got.content[2:]
    assert (link.url, link.vendor_metadata) == ("https://example.org/a.png", {"detail": "low"})
    assert [(each.media_type, each.data) for each in data] == [
        ("image/png", b"\0\1\2"),
        ("audio/mpeg", b"\3\4"),
        ("application/pdf", b"\5"),
    ]


def test_calls_of_tools_in_a_chat_reach_the_model_as_such():
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"n": 4}'}}
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [PICTURE]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "shoes"},
        {"role": "assistant", "content": [{"type": "text", "text": "Shoes."}]},
        {"role": "user", "content": [{"type": "text", "text": "And"}, {"type": "text", "text": "this?"}]},
    ]
    got, _ = given_to(chat)
    kinds = ["system-prompt", "user-prompt", "tool-call", "tool-return", "text", "user-prompt"]
    assert [part.part_kind for part in got] == kinds
    assert (got[2].tool_name, got[2].args, got[3].tool_name, got[3].content) == (
        "find", '{"n": 4}', "find", "shoes",
    )  # fmt: skip
    assert got[-1].content == "And\nthis?"


UNGIVEN = [
    ([{"type": "video", "video": {}}], 'messages[0] of the input: a part of type "video" cannot be given'),
    ([{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}], "image_url names no address"),
    ([{"type": "image_url", "image_url": {"url": "data:image/png,AAEC"}}], "data:TYPE;base64"),
    ([{"type": "input_audio", "input_audio": {"data": "no base64!"}}], "messages[0] of the input: "),
    ([{"type": "file", "file": {"file_id": "f1"}}], 'a part of type "file" cannot be given'),
]


@pytest.mark.parametrize(("parts", "why"), UNGIVEN, ids=[why[-24:] for _, why in UNGIVEN])
def test_a_part_that_cannot_be_given_fails_the_attempt_with_a_sentence(parts, why):
    got, attempt = given_to([{"role": "user", "content": parts}])
    assert (got, why in attempt.error) == ([], True)


@pytest.mark.parametrize("role", ["system", "assistant"])
def test_only_the_user_says_more_than_text(role):
    got, attempt = given_to([{"role": role, "content": [PICTURE]}, {"role": "user", "content": "what?"}])
    assert got == []
    assert (
        f"from the user only, in a chat that ends with the user; this one is of the {role}" in attempt.error
    )
