import asyncio
import dataclasses
import subprocess
import sys
import textwrap
import threading
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import msgspec
import pytest

from tests.agents.asked import asked
from trivium.agents.adapters import function as adapter
from trivium.agents.adapters.function import DaemonThreads, FunctionAgent
from trivium.agents.attempt import AgentFailure, Attempt, Request, Usage
from trivium.agents.invoke import attempt_seed, invoke
from trivium.agents.loading import load_agent
from trivium.errors import AgentError
from trivium.suites.case import Case
from trivium.suites.settings import Limits
from trivium.traces.trace import Span, Trace


def plain(question):
    return f"plain {question}"


async def coroutine(question):
    return f"coroutine {question}"


class Callable:
    def __call__(self, question):
        return f"object {question}"


class AsyncCallable:
    async def __call__(self, question):
        return f"async object {question}"


def with_prefix(prefix, question):
    return f"{prefix} {question}"


async def async_with_prefix(prefix, question):
    return f"{prefix} {question}"


@pytest.mark.parametrize(
    ("function", "output"),
    [
        (plain, "plain q"),
        (coroutine, "coroutine q"),
        (Callable(), "object q"),
        (Callable, "object q"),
        (AsyncCallable(), "async object q"),
        (AsyncCallable, "async object q"),
        (partial(with_prefix, "partial"), "partial q"),
        (partial(async_with_prefix, "partial"), "partial q"),
        (lambda question: coroutine(question.strip()), "coroutine q"),
        (lambda *questions: list(questions), ["q"]),
        (len, 1),
    ],
)
def test_everything_that_can_be_called_is_an_agent(function, output):
    assert asked(function, input="q").output == output


def test_a_function_gets_what_its_signature_names():
    def agent(question, *, seed, repeat, case):
        return [question, seed, repeat, case.source]

    case = Case(id="c", input="q", source="paper")
    assert asked(agent, case=case, repeat=2, seed=5).output == ["q", attempt_seed(5, "c", 2), 2, "paper"]


def test_a_function_is_not_given_what_it_does_not_name():
    assert asked(lambda question, **more: sorted(more)).output == []


def test_a_function_of_the_case_gets_the_case():
    assert asked(lambda case: [case.id, case.input], input="q").output == ["c1", "q"]


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda: "x", "takes no input"),
        (lambda *, case: "x", "takes no input"),
        (lambda question, model, style: "x", "needs model, style, which Trivium does not provide"),
        (lambda question, *, model: "x", "needs model, which Trivium does not provide"),
    ],
)
def test_a_function_that_cannot_be_called_with_an_input_is_refused_beforehand(function, says):
    with pytest.raises(AgentError, match=says):
        load_agent(function)


def test_a_class_that_needs_arguments_is_refused_beforehand():
    class NeedsModel(Callable):
        def __init__(self, model):
            self.model = model

    with pytest.raises(AgentError, match="cannot be made without arguments"):
        load_agent(NeedsModel)


def test_an_attempt_is_taken_field_by_field():
    trace = Trace(spans=(Span(id="a", kind="tool", name="t"),))
    given = Attempt(
        case="other",
        repeat=9,
        output="text",
        seconds=3.5,
        trace=trace,
        usage=Usage(input_tokens=1),
        reward=0.5,
        flags=("mine",),
        metadata={"k": "v"},
    )
    attempt = asked(lambda question: given)
    assert attempt == msgspec.structs.replace(given, case="c1", repeat=0)


def test_a_mapping_with_an_output_is_taken_field_by_field():
    given = {
        "output": {"any": "value"},
        "trace": {"spans": [{"id": 1, "kind": "tool", "name": "t"}]},
        "usage": {"input_tokens": 3},
        "model": "m",
        "metadata": {"k": "v"},
        "error": "",
    }
    attempt = asked(lambda question: given)
    assert attempt.output == {"any": "value"}
    assert attempt.trace.spans[0].id == "1"
    assert attempt.usage == Usage(input_tokens=3)
    assert attempt.metadata == {"model": "m", "k": "v"}
    assert attempt.error is None


def test_a_mapping_without_an_output_is_the_output():
    assert asked(lambda question: {"answer": 1, "error": None}).output == {"answer": 1, "error": None}


def test_an_agent_may_say_that_it_failed():
    attempt = asked(lambda question: {"error": "no paper with key sk-abcdefgh12345678"})
    assert attempt.error == "no paper with key [masked]"


def test_a_field_of_the_wrong_type_is_a_failed_attempt():
    attempt = asked(lambda question: {"output": "x", "seconds": "long"})
    assert attempt.error.startswith("the answer has a field of the wrong type")


@pytest.mark.parametrize(
    "trace",
    [
        3,
        {"spans": 3},
        {"spans": [{"kind": "tool"}]},
        Trace(spans=(Span(id="a", kind="tool", name="t", input=object()),)),
    ],
    ids=["a number", "spans that are a number", "a span without a name", "an input that is no JSON"],
)
def test_a_trace_that_cannot_be_read_costs_the_trace_not_the_output(trace):
    attempt = asked(lambda question: {"output": "x", "trace": trace})
    assert (attempt.output, attempt.trace, attempt.error) == ("x", None, None)
    assert attempt.flags == ("trace_left_out",)
    assert attempt.metadata["trace_error"]


def test_a_trace_with_texts_that_cannot_be_stored_is_mended():
    trace = Trace(spans=(Span(id="a", kind="tool", name="t", input="\ud800"),))
    attempt = asked(lambda question: {"output": "x", "trace": trace})
    assert attempt.trace.spans[0].input == "\ufffd"
    assert attempt.flags == ("lone_surrogates",)


def test_a_trace_of_an_agent_is_repaired():
    trace = Trace(spans=(Span(id="a", kind="tool", name="t", parent="gone"),))
    attempt = asked(lambda question: Attempt(case="", output="x", trace=trace))
    assert [problem.kind for problem in attempt.trace.problems] == ["orphan"]


def test_records_of_common_kinds_become_json():
    @dataclass
    class Review:
        text: str
        scores: tuple

    class Verdict(msgspec.Struct):
        accept: bool

    assert asked(lambda q: Review("fine", (1, 2.5))).output == {"text": "fine", "scores": [1, 2.5]}
    assert asked(lambda q: [Verdict(True)]).output == [{"accept": True}]


def test_pydantic_records_enums_and_numpy_numbers_become_json():
    from enum import Enum

    import numpy as np
    from pydantic import BaseModel

    class Review(BaseModel):
        text: str

    class Colour(Enum):
        RED = "red"

    output = asked(
        lambda q: {
            "r": Review(text="t"),
            "c": Colour.RED,
            "n": np.float64(0.5),
            "i": np.int64(3),
            4: np.eye(1),
        }
    ).output
    assert output == {"r": {"text": "t"}, "c": "red", "n": 0.5, "i": 3, "4": [[1.0]]}


def test_an_output_that_holds_itself_is_a_failed_attempt():
    loop = []
    loop.append(loop)
    assert asked(lambda q: loop).error == "the output is nested deeper than 200 levels"


def test_an_output_that_is_small_only_until_it_is_written_is_a_failed_attempt():
    shared = ["x" * 100]
    for _ in range(100):
        shared = [shared, shared]
    assert asked(lambda q: shared, output_bytes=100_000).error.startswith(
        "the output is larger than 100,000 bytes"
    )


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_nothing_raised_in_a_thread_ends_the_run(error):
    def agent(question):
        raise error

    assert asked(agent).error.startswith(f"the agent raised {type(error).__name__}")


def test_a_stop_iteration_fails_its_attempt_only():
    assert asked(lambda question: next(iter(()))).failed


def test_context_variables_reach_the_thread():
    from contextvars import ContextVar

    user = ContextVar("user", default="nobody")

    async def run():
        user.set("ann")
        return await invoke(load_agent(lambda q: user.get()), Case(id="1", input=""), 0, Limits(), seed=1)

    assert asyncio.run(run()).output == "ann"


def test_hanging_calls_are_left_behind_and_their_threads_replaced():
    release = threading.Event()

    def agent(question):
        if question == "hang":
            release.wait()
        return question

    async def run():
        adapter = load_agent(agent)
        hung = [Case(id=f"h{i}", input="hang") for i in range(20)]
        fine = Case(id="f", input="fine")
        limits = Limits(seconds=0.05)
        attempts = await asyncio.gather(*(invoke(adapter, case, 0, limits, seed=1) for case in hung))
        return attempts, await invoke(adapter, fine, 0, Limits(), seed=1)

    try:
        attempts, after = asyncio.run(run())
    finally:
        release.set()
    assert {attempt.error for attempt in attempts} == {"no answer within 0.05 s (limits.seconds)"}
    assert after.output == "fine"


def test_only_so_many_calls_may_hang_at_once(monkeypatch):
    monkeypatch.setattr(adapter, "MAX_HUNG_THREADS", 2)
    release, threads = threading.Event(), DaemonThreads("t")

    async def hang():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(threads.run(release.wait), timeout=0.02)

    async def run():
        await hang()
        await hang()
        with pytest.raises(AgentFailure, match="2 earlier calls of this agent still hang"):
            await threads.run(lambda: 1)
        release.set()
        while True:  # the hung calls end and make room
            try:
                return await threads.run(lambda: 1)
            except AgentFailure:
                await asyncio.sleep(0)

    assert asyncio.run(asyncio.wait_for(run(), timeout=30)) == 1


def test_threads_are_used_again_and_end_when_closed():
    async def run():
        threads = DaemonThreads("reused")
        used = {await threads.run(threading.get_ident) for _ in range(200)}
        mine = [thread for thread in threading.enumerate() if thread.name == "reused"]
        threads.close()
        for thread in mine:
            thread.join(timeout=30)
        return used, mine

    used, mine = asyncio.run(run())
    assert len(used) < 100  # not always one: a thread hands its answer over before it is free again
    assert not any(thread.is_alive() for thread in mine)


def test_an_agent_can_be_asked_again_after_it_was_closed():
    agent = FunctionAgent(plain, name="plain")

    async def twice():
        case = Case(id="1", input="q")
        first = await invoke(agent, case, 0, Limits(), seed=1)
        await agent.close()
        return first, await invoke(agent, case, 0, Limits(), seed=1)

    assert [attempt.output for attempt in asyncio.run(twice())] == ["plain q", "plain q"]


def test_a_hung_thread_does_not_keep_the_process_alive():
    script = """
        import asyncio, threading
        from trivium.agents.invoke import invoke
        from trivium.agents.loading import load_agent
        from trivium.suites.case import Case
        from trivium.suites.settings import Limits

        def hang(question):
            threading.Event().wait()

        limits = Limits(seconds=0.05)
        attempt = asyncio.run(invoke(load_agent(hang), Case(id="1", input=""), 0, limits, seed=1))
        print(attempt.error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "no answer within 0.05 s (limits.seconds)\n"


class Raises:
    output = "fine"

    @property
    def raw(self):
        raise RuntimeError("no")


class Prediction:
    """What is documented of ``dspy.Prediction``: fields as attributes, completions, ``toDict``."""

    completions = None

    def __init__(self, **fields):
        self._store = fields

    def __getattr__(self, name):
        if name not in self.__dict__.get("_store", ()):
            raise AttributeError(name)
        return self._store[name]

    def toDict(self):  # noqa: N802
        return dict(self._store)


def _results():
    """Results of frameworks: the real ones where they are installed, else of the documented shape."""
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from pydantic_ai.run import AgentRunResult

    from agents import Agent, RunResult

    asked, called = HumanMessage("q"), AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": "1"}])
    talk = [asked, called, ToolMessage("r", tool_call_id="1"), AIMessage([{"type": "text", "text": "fine"}])]
    run = {field.name: None for field in dataclasses.fields(RunResult) if field.init} | {
        "_last_agent": Agent(name="a")
    }
    crew = SimpleNamespace(raw="fine", pydantic=None, json_dict=None, tasks_output=[], token_usage={})
    message = SimpleNamespace(role=SimpleNamespace(value="assistant"), content="fine")
    return {
        "langgraph": ({"messages": talk, "steps": {1, 2}}, "fine"),
        "langgraph state": (SimpleNamespace(messages=talk), "fine"),
        "dicts": (
            {"messages": [{"role": "user", "content": "q"}, {"role": "ai", "content": "fine"}]},
            "fine",
        ),
        "langchain": (AIMessage("fine"), "fine"),
        "crewai": (crew, "fine"),
        "pydantic_ai": (AgentRunResult("fine"), "fine"),
        "pydantic_ai record": (AgentRunResult({"a": 1}), {"a": 1}),
        "openai agents": (RunResult(**run | {"final_output": "fine", "new_items": []}), "fine"),
        "llama_index": (SimpleNamespace(response="fine", source_nodes=[], metadata=None), "fine"),
        "llama_index agent": (SimpleNamespace(response=message, tool_calls=[], raw={"id": 1}), "fine"),
        "dspy": (Prediction(answer="fine"), "fine"),
        "dspy chain of thought": (Prediction(reasoning="Well.", response="fine"), "fine"),
        "dspy react": (Prediction(trajectory={"thought_0": "?"}, reasoning="Well.", answer="fine"), "fine"),
        "dspy typed": (Prediction(reasoning="Well.", total=42), 42),
        "dspy fields": (Prediction(reasoning="Well.", output="a", topic="b"), {"output": "a", "topic": "b"}),
        "dspy thoughts only": (Prediction(reasoning="fine"), "fine"),
        "raises": (Raises(), "fine"),
    }


def test_of_a_frameworks_result_the_text_is_the_output_which_is_said_once(caplog):
    for name, (result, output) in _results().items():
        caplog.clear()
        crew = SimpleNamespace(kickoff=lambda inputs, result=result: result)
        agent = load_agent(crew)
        for _ in range(2):
            request = Request(case=Case(id="1", input=""), repeat=0, seed=1, output_bytes=99)
            assert asyncio.run(agent.call(request)).output == output, name
        assert len([line for line in caplog.messages if "answers with an object" in line]) == 1, name


def test_a_mapping_that_may_hold_the_answer_is_the_output_and_said_once(caplog):
    returned = {"answer": "Paris", "cost": 1}
    agent = load_agent(lambda question: returned)
    for _ in range(2):
        request = Request(case=Case(id="1", input=""), repeat=0, seed=1, output_bytes=99)
        assert asyncio.run(agent.call(request)).output == returned
    (said,) = caplog.messages
    assert 'If its "answer" is the answer, return that alone or call it "output".' in said


@pytest.mark.parametrize(
    "result",
    [
        SimpleNamespace(raw="a", output="b"),
        SimpleNamespace(messages=[{"role": "user", "content": "q"}]),
        SimpleNamespace(result="a"),
    ],
)
def test_a_result_that_leaves_the_text_open_is_refused(result):
    assert "is no JSON value" in asked(lambda question: result).error


def test_a_mapping_with_messages_without_an_answer_is_the_output():
    for value in ({"messages": ["a"]}, {"messages": [], "content": "x"}, {"raw": "x"}):
        assert asked(lambda question, value=value: value).output == value
