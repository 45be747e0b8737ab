"""One small job as each framework's instrumentation records it, written by hand in its vocabulary.

A boss is asked "Who wrote it?", has its model ask for two calls of a tool, of which the first fails, and
answers "Ann". Each request has 10 input tokens and 2 output tokens.
"""

import json
from typing import Any

from tests.traces.opentelemetry.spans import request, span

QUESTION, ANSWER, ARGUMENTS = "Who wrote it?", "Ann", {"title": "X"}
TEXT = json.dumps(ARGUMENTS)
KIND = "openinference.span.kind"


def scoped(scope: str, *spans: dict[str, Any]) -> dict[str, Any]:
    """An export request of one instrumentation."""
    made = request(*spans)
    made["resourceSpans"][0]["scopeSpans"][0]["scope"] = {"name": scope}
    return made


def _tokens(attrs: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
        **(attrs or {}),
    }


def _said(role: str, *parts: dict[str, Any]) -> str:
    return json.dumps([{"role": role, "parts": list(parts)}])


def _text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def _call(number: int) -> dict[str, Any]:
    return {"type": "tool_call", "id": f"c{number}", "name": "look_up", "arguments": ARGUMENTS}


def _tool(number: int, **more: Any) -> dict[str, Any]:
    stated = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look_up",
        "gen_ai.tool.call.id": f"c{number}",
    }
    return stated | more


def genai() -> dict[str, Any]:
    """The GenAI conventions, as agent-framework writes them."""
    conversation = json.dumps(
        [
            {"role": "assistant", "parts": [_call(1)]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "x"}]},
            {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, _text(ANSWER)]},
        ]
    )
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "boss",
        "gen_ai.system_instructions": json.dumps([_text("You are the boss.")]),
        "gen_ai.input.messages": _said("user", _text(QUESTION)),
        "gen_ai.output.messages": conversation,
        "gen_ai.usage.input_tokens": 20,
    }
    given = {"gen_ai.tool.call.arguments": TEXT}
    return scoped(
        "agent_framework",
        span("a", agent, at=(0, 9)),
        span("m1", _tokens({"gen_ai.output.messages": _said("assistant", _call(1))}), parent="a", at=(1, 2)),
        span("t1", _tool(1, **given), parent="a", at=(2, 3), failed="down"),
        span("t2", _tool(2, **given), parent="a", at=(3, 4)),
        span(
            "m2",
            _tokens({"gen_ai.output.messages": _said("assistant", _text(ANSWER))}),
            parent="a",
            at=(5, 6),
        ),
    )


def details() -> dict[str, Any]:
    """The GenAI conventions with contents in events of details."""
    event = "gen_ai.client.inference.operation.details"
    return scoped(
        "strands.telemetry.tracer",
        span(
            "a",
            {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "boss"},
            at=(0, 9),
            events=[
                (event, {"gen_ai.input.messages": _said("user", _text(QUESTION))}),
                (event, {"gen_ai.output.messages": _said("assistant", _text(ANSWER))}),
            ],
        ),
        span("m1", _tokens(), parent="a", at=(1, 2)),
        *(
            span(
                f"t{number}",
                _tool(number),
                parent="a",
                at=(1 + number, 2 + number),
                failed=number == 1,
                events=[(event, {"gen_ai.input.messages": _said("tool", _call(number))})],
            )
            for number in (1, 2)
        ),
        span("m2", _tokens(), parent="a", at=(5, 6)),
    )


def strands() -> dict[str, Any]:
    """Contents in an event for each message; a cycle of the loop around each request."""
    cycle = {"gen_ai.operation.name": "execute_event_loop_cycle"}
    asked = ("gen_ai.user.message", {"content": json.dumps([{"text": QUESTION}])})
    return scoped(
        "strands.telemetry.tracer",
        span(
            "a",
            {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "boss"},
            at=(0, 9),
            events=[
                ("gen_ai.system.message", {"content": json.dumps([{"text": "You are the boss."}])}),
                asked,
                ("gen_ai.choice", {"message": ANSWER, "finish_reason": "end_turn"}),
            ],
        ),
        span("c", cycle, parent="a", at=(1, 8), events=[asked]),
        span("m1", _tokens(), parent="c", at=(1, 2)),
        *(
            span(
                f"t{number}",
                _tool(number),
                parent="c",
                at=(1 + number, 2 + number),
                failed=number == 1,
                events=[("gen_ai.tool.message", {"content": TEXT, "id": f"c{number}"})],
            )
            for number in (1, 2)
        ),
        span("m2", _tokens(), parent="c", at=(5, 6)),
    )


def pydantic_ai() -> dict[str, Any]:
    """The whole conversation on the agent's span."""
    conversation = [
        {"role": "user", "parts": [_text(QUESTION)]},
        {"role": "assistant", "parts": [_call(1)]},
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "c1", "result": "x"}]},
        {"role": "assistant", "parts": [_text(ANSWER)]},
    ]
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "boss",
        "pydantic_ai.all_messages": json.dumps(conversation),
        "final_result": ANSWER,
    }
    given = {"gen_ai.tool.call.arguments": TEXT}
    return scoped(
        "pydantic-ai",
        span("a", agent, at=(0, 9)),
        span("m1", _tokens(), parent="a", at=(1, 2)),
        span("t1", _tool(1, **given), parent="a", at=(2, 3), failed="down"),
        span("t2", _tool(2, **given), parent="a", at=(3, 4)),
        span("m2", _tokens(), parent="a", at=(5, 6)),
    )


def ag2() -> dict[str, Any]:
    """Contents on model requests only, and a record of the usage beside each request."""
    asked = {"gen_ai.input.messages": json.dumps([{"role": "user", "content": QUESTION}])}
    called = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function"}]}
    first = {"gen_ai.output.messages": json.dumps([called])}
    last = {"gen_ai.output.messages": json.dumps([{"role": "assistant", "content": ANSWER}])}
    usage = {"ag2.span.type": "usage", "gen_ai.response.model": "m", "gen_ai.usage.input_tokens": 10}
    usage["gen_ai.usage.output_tokens"] = 2
    given = {"gen_ai.tool.call.arguments": TEXT}
    return scoped(
        "opentelemetry.instrumentation.ag2",
        span("a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "boss"}, at=(0, 9)),
        span("m1", _tokens(asked | first), parent="a", at=(1, 2)),
        span("u1", usage, parent="a", at=(2, 2), name="record_usage model_call"),
        span("t1", _tool(1, **given), parent="a", at=(2, 3), failed="down"),
        span("t2", _tool(2, **given), parent="a", at=(3, 4)),
        span("m2", _tokens(asked | last), parent="a", at=(5, 6)),
        span("u2", usage, parent="a", at=(6, 6), name="record_usage model_call"),
    )


def autogen() -> dict[str, Any]:
    """A team without contents, whose model requests OpenLLMetry records; a hand-off ends the boss's turn."""
    asked = {
        "gen_ai.input.messages": json.dumps(
            [{"role": "system", "parts": [_text("Hand over.")]}, {"role": "user", "parts": [_text(QUESTION)]}]
        )
    }
    handing = {"type": "tool_call", "id": "h", "name": "transfer_to_clerk", "arguments": {}}
    first = {"gen_ai.output.messages": _said("assistant", handing)}
    calls = {"gen_ai.output.messages": _said("assistant", _call(1), _call(2))}
    last = {"gen_ai.output.messages": _said("assistant", _text(ANSWER))}

    def run(id: str, at: tuple[float, float]) -> dict[str, Any]:
        stated = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": id}
        return span(id, stated, parent="p" + id, at=at)

    handed = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "transfer_to_clerk"}
    return scoped(
        "autogen-core",
        span("team", {}, name="run_team", at=(0, 20)),
        span("pboss", {"messaging.operation": "process"}, parent="team", at=(1, 4)),
        run("boss", (1, 4)),
        span("m0", _tokens(asked | first), parent="boss", at=(1, 2)),
        span("h", handed | {"gen_ai.tool.call.id": "h"}, parent="boss", at=(2, 3)),
        span("pclerk", {"messaging.operation": "process"}, parent="team", at=(5, 19)),
        run("clerk", (5, 19)),
        span("m1", _tokens(asked | calls), parent="clerk", at=(6, 7)),
        span("t1", _tool(1), parent="clerk", at=(8, 9), failed="down"),
        span("t2", _tool(2), parent="clerk", at=(9, 10)),
        span("m2", _tokens(asked | last), parent="clerk", at=(11, 12)),
    )


def crewai() -> dict[str, Any]:
    """A crew and its tasks, which say that they invoke agents; no tool has a span."""
    invoke = {"gen_ai.operation.name": "invoke_agent"}
    task = {"traceloop.span.kind": "task", "traceloop.entity.output": ANSWER, **invoke}
    agent = {"traceloop.span.kind": "agent", "gen_ai.agent.name": "boss", **invoke}
    asked = {"gen_ai.input.messages": _said("user", _text(QUESTION))}
    return scoped(
        "opentelemetry.instrumentation.crewai.instrumentation",
        span("w", invoke | {"crewai.crew.result": ANSWER}, name="crewai.workflow", at=(0, 20)),
        span("k", task, parent="w", name="answer.task", at=(1, 19)),
        span("a", agent, parent="k", name="boss.agent", at=(2, 18)),
        span(
            "m1",
            _tokens(asked | {"gen_ai.output.messages": _said("assistant", _call(1), _call(2))}),
            parent="a",
            at=(3, 4),
        ),
        span(
            "m2",
            _tokens(asked | {"gen_ai.output.messages": _said("assistant", _text(ANSWER))}),
            parent="a",
            at=(5, 6),
        ),
    )


def ai_sdk() -> dict[str, Any]:
    """Attributes of its own; the name of the function is the agent's, and results are in quotes."""
    named = {"ai.telemetry.functionId": "boss"}
    root = named | {
        "ai.operationId": "ai.generateText",
        "ai.prompt": json.dumps({"system": "You are the boss.", "prompt": QUESTION}),
        "ai.response.text": ANSWER,
        "ai.usage.inputTokens": 20,
    }
    asked = json.dumps([{"role": "user", "content": [{"type": "text", "text": QUESTION}]}])
    do = named | {"ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": asked}
    tokens = {key: value for key, value in _tokens().items() if key != "gen_ai.operation.name"}
    call = named | {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "look_up", "ai.toolCall.args": TEXT}
    return scoped(
        "ai",
        span("a", root, name="ai.generateText", at=(0, 9)),
        span("m1", do | tokens, parent="a", name="ai.generateText.doGenerate", at=(1, 2)),
        span("t1", call, parent="a", name="ai.toolCall", at=(2, 3), failed="down"),
        span("t2", call | {"ai.toolCall.result": '"x"'}, parent="a", name="ai.toolCall", at=(3, 4)),
        span(
            "m2",
            do | tokens | {"ai.response.text": ANSWER},
            parent="a",
            name="ai.generateText.doGenerate",
            at=(5, 6),
        ),
    )


def mastra() -> dict[str, Any]:
    """Operations of its own names; tokens of all steps of a generation together."""
    generation = _tokens({"mastra.span.type": "model_generation", "gen_ai.usage.input_tokens": 20})
    generation["gen_ai.usage.output_tokens"] = 4
    step = {"gen_ai.operation.name": "model.step", "mastra.span.type": "model_step", "modelId": "m"}
    chunk = {"gen_ai.operation.name": "model.chunk", "mastra.span.type": "model_chunk"}
    call = {
        "gen_ai.operation.name": "tool.execute",
        "mastra.span.type": "tool_call",
        "gen_ai.tool.name": "look_up",
        "input": TEXT,
    }
    agent = {
        "gen_ai.operation.name": "agent.run",
        "mastra.span.type": "agent_run",
        "gen_ai.agent.id": "boss",
        "input": QUESTION,
        "output": json.dumps({"text": ANSWER, "files": []}),
    }
    answer = json.dumps({"text": ANSWER, "toolCalls": []})
    return scoped(
        "@mastra/otel",
        span("a", agent, name="agent.boss", at=(0, 9)),
        span("g", generation, parent="a", name="chat m", at=(1, 8)),
        span("s1", step, parent="g", name="step: 0", at=(1, 5)),
        span("t1", call, parent="s1", name="tool.execute look_up", at=(2, 3), failed="down"),
        span("t2", call, parent="s1", name="tool.execute look_up", at=(3, 4)),
        span("k", chunk, parent="s1", name="chunk: 'tool-result'", at=(4, 5)),
        span("s2", step | {"output": answer}, parent="g", name="step: 1", at=(6, 7)),
    )


def haystack() -> dict[str, Any]:
    """Nothing but names of spans and attributes of its own; the agent has no name."""

    def message(role: str, text: str | None) -> dict[str, Any]:
        usage = {"prompt_tokens": 10, "completion_tokens": 2}
        return {
            "role": role,
            "meta": {"model": "m", "usage": usage},
            "content": [{"text": text} if text else {"tool_call": {"tool_name": "look_up"}}],
        }

    asked = {"messages": [message("user", QUESTION)], "streaming_callback": None}
    whole = {"messages": [message("user", QUESTION), message("assistant", ANSWER)], "step_count": 2}
    agent = {"haystack.agent.input": json.dumps(asked), "haystack.agent.output": json.dumps(whole)}

    def reply(text: str | None) -> dict[str, Any]:
        return {
            "haystack.agent.step.llm.input": json.dumps(asked),
            "haystack.agent.step.llm.output": json.dumps({"replies": [message("assistant", text)]}),
        }

    call = {"haystack.tool.name": "look_up", "haystack.agent.step.tool.input": TEXT}
    failed = {"haystack.tool.error": True, "haystack.agent.step.tool.output": '{"error": "down"}'}
    return scoped(
        "haystack",
        span("a", agent, name="haystack.agent.run", at=(0, 9)),
        span("s1", {"haystack.agent.step": 0}, parent="a", name="haystack.agent.step", at=(1, 5)),
        span("m1", reply(None), parent="s1", name="haystack.agent.step.llm", at=(1, 2)),
        span("t1", call | failed, parent="s1", name="haystack.agent.step.tool", at=(2, 3)),
        span("t2", call, parent="s1", name="haystack.agent.step.tool", at=(3, 4)),
        span("s2", {"haystack.agent.step": 1}, parent="a", name="haystack.agent.step", at=(6, 8)),
        span("m2", reply(ANSWER), parent="s2", name="haystack.agent.step.llm", at=(6, 7)),
    )


def dspy() -> dict[str, Any]:
    """OpenInference; each request is recorded by DSPy's instrumentation and by LiteLLM's below it."""
    chain, llm = {KIND: "CHAIN"}, {KIND: "LLM", "llm.model_name": "m"}
    json_type = {"input.mime_type": "application/json", "output.mime_type": "application/json"}
    root = chain | json_type
    root["input.value"] = json.dumps({"input_args": {"question": QUESTION}})
    root["output.value"] = json.dumps({"trajectory": {"thought_0": "a"}, "reasoning": "r", "answer": ANSWER})
    tokens = llm | {"llm.token_count.prompt": 10, "llm.token_count.completion": 2}
    call = {KIND: "TOOL", "input.value": json.dumps({"kwargs": ARGUMENTS})} | json_type
    done = {KIND: "TOOL", "input.value": '{"kwargs": {}}'} | json_type
    return scoped(
        "openinference.instrumentation.dspy",
        span("a", root, name="ReAct.forward", at=(0, 9)),
        span("p1", chain, parent="a", name="Predict.forward", at=(1, 2)),
        span("l1", llm, parent="p1", name="LM.__call__", at=(1, 2)),
        span("m1", tokens, parent="l1", name="completion", at=(1, 2)),
        span("t1", call, parent="a", name="look_up.__call__", at=(2, 3), failed="down"),
        span("t2", call | {"output.value": '"x"'}, parent="a", name="look_up.__call__", at=(3, 4)),
        span("f", done, parent="a", name="finish.__call__", at=(4, 5)),
        span("l2", llm, parent="a", name="LM.__call__", at=(5, 6)),
        span("m2", tokens, parent="l2", name="completion", at=(5, 6)),
    )


def llamaindex() -> dict[str, Any]:
    """OpenInference; the workflow prints its state, and a request has three spans."""
    chain, llm = {KIND: "CHAIN"}, {KIND: "LLM", "llm.model_name": "m"}
    asked = {
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "You are the boss.",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.content": QUESTION,
    }
    tokens = llm | asked | {"llm.token_count.prompt": 10, "llm.token_count.completion": 2}
    role = {"llm.output_messages.0.message.role": "assistant"}
    event = {"ctx": "<Context>", "ev": "AgentSetup(input=[2 items], current_agent_name='boss')"}
    step = chain | {"input.value": json.dumps(event)}
    call = {KIND: "TOOL", "tool.name": "look_up", "input.value": json.dumps({"kwargs": ARGUMENTS})}
    root = chain | {"input.value": '{"init_state": {}}', "output.value": "StopEvent(result=AgentOutput(…))"}
    spans = [span("w", root, name="AgentWorkflow.run", at=(0, 20))]
    for number, text in ((1, None), (2, ANSWER)):
        at = (10 * number - 9, 10 * number - 6)
        answered = role | {"output.value": f"assistant: {text or ''}"}
        if text:
            answered["llm.output_messages.0.message.content"] = text
        ids = [f"{letter}{number}" for letter in "rpom"]
        names = ("AgentWorkflow.run_agent_step", "LLM._prepare_chat_with_tools", "LLM.achat", "LLM.achat")
        for each, name, above, attrs in zip(
            ids, names, ("w", ids[0], ids[0], ids[2]), (step, llm, llm, tokens | answered), strict=True
        ):
            spans.append(span(each, attrs, parent=above, name=name, at=at))
    for number in (1, 2):
        at = (4 + number, 5 + number)
        spans.append(span(f"c{number}", chain, parent="w", name="AgentWorkflow.call_tool", at=at))
        spans.append(
            span(
                f"t{number}", call, parent=f"c{number}", name="FunctionTool.acall", at=at, failed=number == 1
            )
        )
    return scoped("openinference.instrumentation.llama_index", *spans)


def langgraph() -> dict[str, Any]:
    """OpenInference of a prebuilt agent: the question and the answer are on the chain of its graph."""

    def message(kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": kind, "data": {"type": kind, **fields}}

    def node(id: str, of: str, step: int, kind: str, attrs: dict[str, Any], **rest: Any) -> dict[str, Any]:
        metadata = {"langgraph_node": of, "langgraph_step": step, "lc_agent_name": "boss"}
        metadata["langgraph_checkpoint_ns"] = f"{of}:{step}"
        return span(id, {KIND: kind, "metadata": json.dumps(metadata)} | attrs, **rest)

    whole = {"messages": [message("human", content=QUESTION), message("ai", content=ANSWER)]}
    root = {
        KIND: "CHAIN",
        "metadata": json.dumps({"lc_agent_name": "boss"}),
        "input.value": json.dumps({"messages": [["user", QUESTION]]}),
        "output.value": json.dumps(whole),
    }
    tokens = {"llm.model_name": "m", "llm.token_count.prompt": 10, "llm.token_count.completion": 2}
    call = {"tool.name": "look_up", "input.value": TEXT}
    return scoped(
        "openinference.instrumentation.langchain",
        span("a", root, name="boss", at=(0, 9)),
        node("n1", "model", 1, "CHAIN", {}, parent="a", name="model", at=(1, 2)),
        node("m1", "model", 1, "LLM", tokens, parent="n1", name="ChatOpenAI", at=(1, 2)),
        node("n2", "tools", 2, "CHAIN", {}, parent="a", name="tools", at=(2, 4)),
        node("t1", "tools", 2, "TOOL", call, parent="n2", name="look_up", at=(2, 3), failed="down"),
        node("t2", "tools", 2, "TOOL", call, parent="n2", name="look_up", at=(3, 4)),
        node("n3", "model", 3, "CHAIN", {}, parent="a", name="model", at=(5, 6)),
        node("m2", "model", 3, "LLM", tokens, parent="n3", name="ChatOpenAI", at=(5, 6)),
    )


def openai_agents() -> dict[str, Any]:
    """OpenInference of OpenAI Agents: contents on the responses alone, below a workflow without a name."""
    response = {
        KIND: "LLM",
        "llm.model_name": "m",
        "input.value": json.dumps([{"role": "user", "content": QUESTION}]),
    }
    response |= {"llm.token_count.prompt": 10, "llm.token_count.completion": 2}
    called = {"output": [{"type": "function_call", "name": "look_up", "arguments": TEXT, "call_id": "c1"}]}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]}
    thought = {"type": "reasoning", "summary": []}
    call = {KIND: "TOOL", "tool.name": "look_up", "input.value": TEXT}
    return scoped(
        "openinference.instrumentation.openai_agents",
        span("w", {KIND: "AGENT"}, name="Agent workflow", at=(0, 20)),
        span("a", {KIND: "AGENT", "graph.node.id": "boss"}, parent="w", name="boss", at=(1, 19)),
        span("m1", response | {"output.value": json.dumps(called)}, parent="a", name="response", at=(2, 3)),
        span("t1", call, parent="a", name="look_up", at=(4, 5), failed="down"),
        span("t2", call, parent="a", name="look_up", at=(5, 6)),
        span(
            "m2",
            response | {"output.value": json.dumps({"output": [thought, said]})},
            parent="a",
            name="response",
            at=(7, 8),
        ),
    )


def google_adk() -> dict[str, Any]:
    """Neither contents nor arguments; calls that are answered together have a span of their own."""
    call = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look_up"}
    merged = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)"}
    handing = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "transfer_to_agent"}
    ask = _tokens({"gen_ai.operation.name": "generate_content"})

    def run(id: str, at: tuple[float, float]) -> dict[str, Any]:
        stated = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": id}
        return span(id, stated, parent="w", at=at)

    return scoped(
        "gcp.vertex.agent",
        span("w", {"gen_ai.operation.name": "invoke_workflow"}, name="invoke_workflow boss", at=(0, 20)),
        run("boss", (1, 8)),
        span("m1", ask, parent="boss", at=(2, 3)),
        span("t1", call, parent="boss", at=(4, 5), failed="down"),
        span("t2", call, parent="boss", at=(4, 6)),
        span("g", merged, parent="boss", at=(6, 6)),
        span("h", handing, parent="boss", at=(7, 8)),
        run("clerk", (9, 19)),
        span("m2", ask, parent="clerk", at=(10, 11)),
    )


RECORDED = {
    made.__name__: made
    for made in (
        genai,
        details,
        strands,
        pydantic_ai,
        ag2,
        autogen,
        crewai,
        ai_sdk,
        mastra,
        haystack,
        dspy,
        llamaindex,
        langgraph,
        openai_agents,
        google_adk,
    )
}
"""The export of each framework."""
