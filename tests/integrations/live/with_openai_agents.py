"""OpenAI Agents under OpenInference; real models of its own, whose provider is a script.

The writer is used as a tool, the editor is handed over to. What the SDK's own trace processors are given of
the work outside of the evaluation is written to the file ``native.jsonl``.
"""

import json
from pathlib import Path

import httpx2
from openai import AsyncOpenAI
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import trivium as tv
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    TracingProcessor,
    add_trace_processor,
    function_tool,
)
from tests.integrations.live import program
from tests.integrations.live.odd_values import OddValues, odd

MANAGER = (
    (("search", {"query": "cats"}), ("search", {"query": "dogs"})),
    (("flaky", {"number": 1}),),
    (("flaky", {"number": 2}),),
    (("ask_writer", {"input": "write"}),),
    (("transfer_to_editor", {}),),
)
WRITER = ((("look_up", {"word": "cat"}),), "a draft")
EDITOR = ("the answer",)
BOSS = ((("odd", {}),), "done")


def answer(request: httpx2.Request) -> httpx2.Response:
    """A provider's answer; the conversation tells which step it is."""
    asked = json.loads(request.content)
    made = chat(asked) if request.url.path.endswith("/chat/completions") else response(asked)
    return httpx2.Response(200, json=made)


def chat(asked):
    turns = sum(message["role"] == "assistant" for message in asked["messages"])
    scripts = {"manager-model": MANAGER, "boss-model": BOSS}
    step = scripts[asked["model"]][turns] if asked["model"] in scripts else EDITOR[0]
    message = {"role": "assistant", "content": step if isinstance(step, str) else None}
    if not isinstance(step, str):
        message["tool_calls"] = [
            {
                "id": f"call-{turns}-{index}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for index, (name, arguments) in enumerate(step)
        ]
    usage = {"prompt_tokens": program.INPUT_TOKENS, "completion_tokens": program.OUTPUT_TOKENS}
    return {
        "id": f"chat-{turns}",
        "object": "chat.completion",
        "created": 1,
        "model": asked["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage | {"total_tokens": sum(usage.values())},
    }


def response(asked):
    turns = sum(item.get("type") == "function_call" for item in asked["input"])
    step = WRITER[turns]
    if isinstance(step, str):
        text = {"type": "output_text", "text": step, "annotations": []}
        output = [
            {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
        ]
    else:
        output = [
            {"type": "function_call", "id": f"f{index}", "call_id": f"call-w{index}", "name": name}
            | {"arguments": json.dumps(arguments), "status": "completed"}
            for index, (name, arguments) in enumerate(step)
        ]
    usage = {"input_tokens": program.INPUT_TOKENS, "output_tokens": program.OUTPUT_TOKENS}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": f"response-{turns}",
        "object": "response",
        "created_at": 1,
        "model": asked["model"],
        "status": "completed",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage | details | {"total_tokens": sum(usage.values())},
    }


def provider() -> AsyncOpenAI:
    """A client of the script."""
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    return AsyncOpenAI(api_key="none", base_url="http://127.0.0.1:9/v1", http_client=http)


def team() -> Agent:
    """The manager, with the writer as a tool and the editor to hand over to."""
    client = provider()

    @function_tool
    def flaky(number: int) -> str:
        """Fails at first."""
        if number == 1:
            raise ValueError("try another number")
        return "well"

    editor = Agent(
        name="editor", model=OpenAIChatCompletionsModel("editor-model", client), handoff_description="edits"
    )
    writer = Agent(
        name="writer",
        model=OpenAIResponsesModel("writer-model", client),
        tools=[function_tool(program.look_up)],
    )
    return Agent(
        name="manager",
        model=OpenAIChatCompletionsModel("manager-model", client),
        model_settings=ModelSettings(parallel_tool_calls=True),
        tools=[
            function_tool(program.search),
            flaky,
            writer.as_tool(tool_name="ask_writer", tool_description="Have a draft written."),
        ],
        handoffs=[editor],
    )


async def agent(question: str) -> str:
    return (await Runner.run(team(), question)).final_output


async def ask() -> str:
    model = OpenAIChatCompletionsModel("boss-model", provider())
    return (await Runner.run(Agent(name="boss", model=model, tools=[function_tool(odd)]), "go")).final_output


class Items(TracingProcessor):
    """Keeps what the SDK exports."""

    def __init__(self) -> None:
        self.lines = []

    def on_trace_start(self, trace) -> None:
        self.lines = [trace.export()]

    def on_trace_end(self, trace) -> None:
        pass

    def on_span_start(self, span) -> None:
        pass

    def on_span_end(self, span) -> None:
        self.lines.append(span.export())

    def shutdown(self) -> None:
        pass

    def force_flush(self) -> None:
        pass


if __name__ == "__main__":
    trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
    # In place of the SDK's own exporter, which would send everything to OpenAI.
    OpenAIAgentsInstrumentor().instrument()
    values = OddValues(ask)
    tv.trace.listen()
    items = Items()
    add_trace_processor(items)
    report = program.done(agent)
    Path("native.jsonl").write_text("".join(json.dumps(line) + "\n" for line in items.lines))
    program.show(report | {"odd": values.listened()})
