"""LangGraph under OpenInference: two agents as nodes of a graph, and a third as a graph that a tool runs.

What LangSmith's client sends of the work outside of the evaluation is written to the file ``native.jsonl``.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import requests
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import InjectedToolCallId, tool
from langchain_core.tracers import LangChainTracer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, tools_condition
from langgraph.types import Command
from langsmith import Client
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import trivium as tv
from tests.integrations.live import program
from tests.integrations.live.odd_values import OddValues, odd


class Scripted(BaseChatModel):
    """A chat model that says one step after the other; which, the conversation tells."""

    steps: tuple[Any, ...]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **options):
        turns = sum(isinstance(message, AIMessage) for message in messages)
        step = self.steps[min(turns, len(self.steps) - 1)]
        calls = [] if isinstance(step, str) else step
        message = AIMessage(
            content=step if isinstance(step, str) else "",
            tool_calls=[
                {"name": name, "args": arguments, "id": f"call-{turns}-{index}"}
                for index, (name, arguments) in enumerate(calls)
            ],
            usage_metadata={
                "input_tokens": program.INPUT_TOKENS,
                "output_tokens": program.OUTPUT_TOKENS,
                "total_tokens": program.INPUT_TOKENS + program.OUTPUT_TOKENS,
            },
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def graph_of(name, model, tools):
    """An agent as a graph: its model and its tools in turn."""

    async def ask(state):
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", ask)
    graph.add_edge(START, "model")
    if tools:
        graph.add_node("tools", ToolNode(tools, handle_tool_errors=True))
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "model")
    else:
        graph.add_edge("model", END)
    return graph.compile(name=name)


@tool
def flaky(number: int) -> str:
    """Fails at first."""
    if number == 1:
        raise ValueError("try another number")
    return "well"


writer = graph_of(
    "writer", Scripted(steps=((("look_up", {"word": "cat"}),), "a draft")), [tool(program.look_up)]
)


@tool
async def ask_writer(task: str) -> str:
    """Have a draft written."""
    return (await writer.ainvoke({"messages": [("user", task)]}))["messages"][-1].content


@tool
def transfer_to_editor(
    state: Annotated[dict, InjectedState], tool_call_id: Annotated[str, InjectedToolCallId]
) -> Command:
    """Hand over to the editor."""
    done = ToolMessage("handed over", name="transfer_to_editor", tool_call_id=tool_call_id)
    return Command(goto="editor", graph=Command.PARENT, update={"messages": [*state["messages"], done]})


manager = graph_of(
    "manager",
    Scripted(
        steps=(
            (("search", {"query": "cats"}), ("search", {"query": "dogs"})),
            (("flaky", {"number": 1}),),
            (("flaky", {"number": 2}),),
            (("ask_writer", {"task": "write"}),),
            (("transfer_to_editor", {}),),
        )
    ),
    [tool(program.search), flaky, ask_writer, transfer_to_editor],
)
editor = graph_of("editor", Scripted(steps=("the answer",)), [])

_team = StateGraph(MessagesState)
_team.add_node("manager", manager, destinations=("editor",))
_team.add_node("editor", editor)
_team.add_edge(START, "manager")
_team.add_edge("editor", END)
team = _team.compile(name="team")


class Service(requests.Session):
    """Keeps what LangSmith's client sends: each run as it begins, and again as it ends."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies = []

    def request(self, method, url, *args, **options):
        if isinstance(options.get("data"), bytes | str):
            self.bodies.append(json.loads(options["data"]))
        answer = requests.Response()
        answer.status_code, answer._content = 202, b"{}"
        return answer


async def agent(question: str) -> str:
    """Told to LangSmith outside of the evaluation."""
    tracers = [LangChainTracer(client=langsmith_client)] if question == "outside" else []
    state = await team.ainvoke({"messages": [("user", question)]}, {"callbacks": tracers})
    return state["messages"][-1].content


boss = graph_of("boss", Scripted(steps=((("odd", {}),), "done")), [tool(odd)])


async def ask() -> str:
    return (await boss.ainvoke({"messages": [("user", "go")]}))["messages"][-1].content


if __name__ == "__main__":
    trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
    LangChainInstrumentor().instrument()
    values = OddValues(ask)
    tv.trace.listen()
    service = Service()
    langsmith_client = Client(
        "http://127.0.0.1:9", api_key="none", session=service, auto_batch_tracing=False, info={}
    )
    report = program.done(agent)
    Path("native.jsonl").write_text("".join(json.dumps(body) + "\n" for body in service.bodies))
    program.show(report | {"odd": values.listened()})
