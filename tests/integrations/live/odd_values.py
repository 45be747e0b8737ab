"""Tools of each framework return values of any type, before Trivium listens and while it does.

It prints, of each value, how the agent ended without Trivium and with it, and how many calls were recorded.
"""

import asyncio
import json
import sys
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import trivium as tv
from tests.odd_values import ODD

NAMES = [name for name in ODD if name != "leaves"]  # leaving the process is the agent's own affair


class Given:
    """What the tool returns next."""

    value: Any = None


def odd() -> Any:
    """Give something."""
    return Given.value


def pydantic_ai():
    from pydantic_ai import Agent

    from tests.integrations.live.with_pydantic_ai import call, says, scripted

    Agent.instrument_all()
    agent = Agent(scripted(call(("odd", {})), says("done")), name="boss", tools=[odd])

    async def ask():
        return (await agent.run("go")).output

    return ask


def openai_agents():
    import httpx2
    from openai import AsyncOpenAI
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
    from tests.integrations.live import with_openai_agents

    OpenAIAgentsInstrumentor().instrument()
    with_openai_agents.MANAGER = ((("odd", {}),), "done")
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(with_openai_agents.answer))
    client = AsyncOpenAI(api_key="none", base_url="http://127.0.0.1:9/v1", http_client=http)
    model = OpenAIChatCompletionsModel("manager-model", client)
    agent = Agent(name="boss", model=model, tools=[function_tool(odd)])

    async def ask():
        return (await Runner.run(agent, "go")).final_output

    return ask


def langgraph():
    from langchain_core.tools import tool
    from openinference.instrumentation.langchain import LangChainInstrumentor

    from tests.integrations.live.with_langgraph import Scripted, graph_of

    LangChainInstrumentor().instrument()
    graph = graph_of("boss", Scripted(steps=((("odd", {}),), "done")), [tool(odd)])

    async def ask():
        return (await graph.ainvoke({"messages": [("user", "go")]}))["messages"][-1].content

    return ask


async def ended(ask) -> str:
    try:
        return await ask()
    except Exception as error:
        return type(error).__name__


async def main(ask) -> dict[str, Any]:
    found = {}
    for name in NAMES:
        Given.value = ODD[name]
        found[name] = [await ended(ask)]
    tv.trace.listen()
    for name in NAMES:
        Given.value = ODD[name]
        found[name].append(await ended(ask))  # to a file
        with tv.trace.recorded() as recorded:
            found[name].append(await ended(ask))
        found[name].append(len(recorded.trace.tool_calls))
    return found


if __name__ == "__main__":
    trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
    frameworks = {"pydantic_ai": pydantic_ai, "openai_agents": openai_agents, "langgraph": langgraph}
    print(json.dumps(asyncio.run(main(frameworks[sys.argv[1]]()))))
