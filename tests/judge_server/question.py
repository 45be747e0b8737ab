"""What a client asked, read from any of the three wire formats."""

from typing import Any, Literal

import msgspec

Api = Literal["chat", "responses", "messages"]


class Question(msgspec.Struct, kw_only=True):
    """One request as it arrived, and what became of it."""

    number: int
    """Requests before this one; the first is 0."""
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: dict[str, Any]
    time: float
    """When it had arrived, by ``time.monotonic``, in seconds."""
    status: int | None = None
    """The HTTP status it was given; none if it hung, was reset, or the client had left."""
    reaction: str = ""
    """What it met: the kind of its `Reaction`, or "over_rate"."""

    api: Api
    schema: dict[str, Any] | None = None
    """The JSON schema of the answer it wants; none for plain text."""
    tool: str | None = None
    """The tool that the answer is to be a call of; none for an answer in text."""
    logprobs: int | None = None
    """How many alternatives it wants for each token; none without log-probabilities."""
    samples: int = 1

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def prompt(self) -> str:
        """Every text that the model would read, system and users, one after another."""
        parts = [self.body.get("system"), self.body.get("instructions")]
        parts += [self.body.get("messages"), self.body.get("input")]
        return "\n".join(_texts(parts))


def read(
    *, api: Api, number: int, path: str, headers: dict[str, str], body: dict[str, Any], time: float
) -> Question:
    """The question in a request's body."""
    question = Question(number=number, path=path, headers=headers, body=body, time=time, api=api)
    question.tool, question.schema = _tool(api, body)
    if question.tool is None:
        question.schema = _native(api, body)
    if api == "chat":
        question.samples = body.get("n") or 1
        if body.get("logprobs"):
            question.logprobs = body.get("top_logprobs") or 0
    elif api == "responses" and "message.output_text.logprobs" in (body.get("include") or ()):
        question.logprobs = body.get("top_logprobs") or 0
    return question


def _native(api: Api, body: dict[str, Any]) -> dict[str, Any] | None:
    if api == "chat":
        given = body.get("response_format") or {}
        return given.get("json_schema", {}).get("schema")
    if api == "responses":
        return ((body.get("text") or {}).get("format") or {}).get("schema")
    given = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    return given.get("schema")


def _tool(api: Api, body: dict[str, Any]) -> tuple[str | None, dict[str, Any] | None]:
    """The tool to call: the one that was named, else the one an output goes to, else the first."""
    tools = {}
    for tool in body.get("tools") or ():
        function = tool["function"] if api == "chat" else tool
        tools[function["name"]] = function.get("input_schema" if api == "messages" else "parameters") or {}
    choice = body.get("tool_choice") or "auto"
    named = None
    if isinstance(choice, dict):
        named = choice.get("function", choice).get("name")
        choice = choice["type"]
    if not tools or choice == "none" or (choice == "auto" and _native(api, body) is not None):
        return None, None
    name = named or next((name for name in tools if name.startswith("final_result")), next(iter(tools)))
    return name, tools[name]


def _texts(node: Any) -> list[str]:
    if isinstance(node, str):
        return [node]
    if isinstance(node, list):
        return [text for each in node for text in _texts(each)]
    if isinstance(node, dict):
        return _texts(node.get("content", node.get("text", node.get("output", node.get("arguments")))))
    return []
