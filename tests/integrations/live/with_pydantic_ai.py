"""PydanticAI's own instrumentation; the writer is run by a tool, the editor by an output function."""

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from pydantic_ai import Agent, ModelResponse, ModelRetry, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage

import trivium as tv
from tests.integrations.live import program
from tests.integrations.live.odd_values import OddValues, odd


def scripted(*steps):
    """A model that says one step after the other; which, the conversation tells."""

    def answer(messages, info):
        turns = sum(isinstance(message, ModelResponse) for message in messages)
        usage = RequestUsage(input_tokens=program.INPUT_TOKENS, output_tokens=program.OUTPUT_TOKENS)
        return ModelResponse(parts=steps[turns](info), usage=usage)

    return FunctionModel(answer, model_name="scripted")


def call(*calls):
    return lambda info: [ToolCallPart(name, arguments) for name, arguments in calls]


def says(text):
    return lambda info: [TextPart(text)]


def over_to_the_editor(info):
    return [ToolCallPart(info.output_tools[0].name, {"draft": "a draft"})]


editor = Agent(scripted(says("the answer")), name="editor")
writer = Agent(
    scripted(call(("look_up", {"word": "cat"})), says("a draft")), name="writer", tools=[program.look_up]
)


async def hand_over(draft: str) -> str:
    """Hand over to the editor."""
    return (await editor.run(draft)).output


manager = Agent(
    scripted(
        call(("search", {"query": "cats"}), ("search", {"query": "dogs"})),
        call(("flaky", {"number": 1})),
        call(("flaky", {"number": 2})),
        call(("ask_writer", {"task": "write"})),
        over_to_the_editor,
    ),
    name="manager",
    tools=[program.search],
    output_type=hand_over,
)


@manager.tool_plain
def flaky(number: int) -> str:
    """Fails at first."""
    if number == 1:
        raise ModelRetry("try another number")
    return "well"


@manager.tool_plain
async def ask_writer(task: str) -> str:
    """Have a draft written."""
    return (await writer.run(task)).output


async def agent(question: str) -> str:
    return (await manager.run(question)).output


boss = Agent(scripted(call(("odd", {})), says("done")), name="boss", tools=[odd])


async def ask() -> str:
    return (await boss.run("go")).output


if __name__ == "__main__":
    trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
    Agent.instrument_all()
    values = OddValues(ask)
    tv.trace.listen()
    report = program.done(agent)
    program.show(report | {"odd": values.listened()})
