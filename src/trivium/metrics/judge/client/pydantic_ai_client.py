"""UsualClient: asks a model through PydanticAI, which is the way to every provider."""

import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Protocol

from trivium.metrics.judge.client.provider_errors import error_of
from trivium.metrics.judge.client.request import MOST_TOKENS, Alternative, Call, Reply, Token, Trouble

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.models.openai import OpenAIChatModelSettings
    from pydantic_ai.settings import ModelSettings

log = logging.getLogger(__name__)

REQUEST_TIMEOUT = 24 * 3600.0
"""Seconds that the provider's own client may wait: the time limit that counts is kept above it."""


Left = Callable[[], None]


Heard = Callable[[Mapping[str, str]], None]


def unheard() -> None:
    """Nobody wants to know when a request goes out."""


def passed_over(_headers: Mapping[str, str]) -> None:
    """Nobody wants to know the headers of an answer."""


class Client(Protocol):
    """Sends one request and says what came of it."""

    async def send(self, call: Call, left: Left = unheard, heard: Heard = passed_over) -> Reply:
        """The reply.

        Args:
            call: What is asked.
            left: Called when the request goes out, as far as can be told.
            heard: Called with the headers of the answer, names in small letters, where they can be had.

        Raises:
            Trouble: If none came.
        """

    async def close(self) -> None:
        """End the connections."""


class UsualClient:
    """Asks through PydanticAI and the provider's own SDK, whose retries are off.

    Args:
        model: Opened; its connections end with the client.
        headers: Added to each request.
    """

    def __init__(self, model: "Model", headers: Mapping[str, str] | None = None) -> None:
        self._model = model
        self._headers = headers or {}
        self._stack = AsyncExitStack()
        self._entered = False

    async def send(self, call: Call, left: Left = unheard, heard: Heard = passed_over) -> Reply:
        """See :meth:`Client.send`."""
        if not self._entered:
            await self._stack.enter_async_context(self._model)  # which counts: once more does no harm
            self._entered = True
        left()
        return await respond(self._model, call, self._headers)

    async def close(self) -> None:
        """See :meth:`Client.close`."""
        await self._stack.aclose()


async def respond(model: "Model", call: Call, headers: Mapping[str, str]) -> Reply:
    """What a model replies to a call, its cost still unknown.

    Args:
        model: Opened.
        call: What is asked.
        headers: Added to the request.

    Raises:
        Trouble: If it does not.
    """
    from pydantic_ai.direct import model_request
    from pydantic_ai.exceptions import ModelAPIError, UserError

    try:
        response = await model_request(
            model,
            _messages(call),
            model_settings=_settings(model, call, headers),
            model_request_parameters=_parameters(call),
        )
        return _reply(response)
    except ModelAPIError as error:
        raise error_of(call, error) from None
    except UserError as error:  # raised before anything is sent
        raise Trouble(f"{call.model}: {error}", kind="final") from None
    except Exception as error:  # what a 200 without an answer in it may do to a reader, nobody can list
        log.debug("%s: no answer could be read: %s", call.model, error, exc_info=error)
        why = f"{call.model}: the reply holds no answer that can be read"
        raise Trouble(why, kind="failing", billed=True) from None


def _reply(response: "ModelResponse") -> Reply:
    calls = response.tool_calls
    usage = response.usage
    return Reply(
        text=calls[0].args_as_json_str() if calls else response.text or "",
        finish=response.finish_reason,
        model=response.model_name or "",
        logprobs=thinned((response.provider_details or {}).get("logprobs")),
        input_tokens=counted(usage.input_tokens),
        output_tokens=counted(usage.output_tokens),
        cached_tokens=counted(usage.cache_read_tokens),
        cache_write_tokens=counted(usage.cache_write_tokens),
        cost_usd=None,
    )


def counted(tokens: int) -> int:
    """Tokens that a provider says it counted; 0 where that cannot be."""
    return tokens if 0 <= tokens <= MOST_TOKENS else 0


def thinned(logprobs: list[dict[str, Any]] | None) -> list[Token] | None:
    """Log-probabilities without what nothing is made of; bytes stay where they are not the token's own."""
    if not logprobs:
        return None
    return [_thin(each) for each in logprobs]


def _thin(given: dict[str, Any]) -> Token:
    text, own = str(given.get("token", "")), given.get("bytes")
    return Token(
        token=text,
        logprob=_number(given.get("logprob")),
        top_logprobs=[Alternative(_number(top.get("logprob"))) for top in given.get("top_logprobs") or ()],
        # A token that is a piece of a character is told by its bytes alone.
        bytes=None if not own or list(text.encode(errors="replace")) == own else own,
    )


def _number(value: Any) -> float | None:
    return None if isinstance(value, bool) or not isinstance(value, int | float) else float(value)


def marks_cache(model: "Model") -> bool:
    """Whether a provider caches only what a request marks; the others do by themselves, or not at all."""
    return "anthropic" in type(model).__module__


def _messages(call: Call) -> "list[ModelMessage]":
    from pydantic_ai.messages import CachePoint, ModelRequest, ModelResponse, TextPart, UserPromptPart

    messages: list[ModelMessage] = []
    for index, turn in enumerate(call.turns):
        if index % 2:
            # A malformed answer goes back as plain text: a broken tool call cannot be sent.
            messages.append(ModelResponse(parts=[TextPart(turn or "(no answer)")], model_name=call.model))
        else:
            instructions = None if index else call.instructions
            said: str | list[str | CachePoint] = turn if index else call.case + turn
            if call.marks == "case" and not index and call.case:
                said = [call.case, CachePoint(), turn]
            messages.append(ModelRequest(parts=[UserPromptPart(said)], instructions=instructions))
    return messages


def thinks(model: "Model", effort: str | None = None) -> bool:
    """Whether a model reasons before it answers.

    Args:
        model: Opened.
        effort: How much it is told to, or None where it is told nothing.
    """
    if effort is not None:
        return effort != "none"
    profile: Any = model.profile
    by_default = profile.get("thinking_always_enabled") or profile.get("thinking_enabled_by_default")
    must = profile.get("openai_supports_reasoning") and not profile.get(
        "openai_supports_reasoning_effort_none"
    )
    return bool(by_default or must)


def _settings(model: "Model", call: Call, headers: Mapping[str, str]) -> "ModelSettings":
    from pydantic_ai.models.openai import OpenAIChatModelSettings

    settings = OpenAIChatModelSettings(
        timeout=REQUEST_TIMEOUT,
        max_retries=0,  # retries are ours: a second policy below would multiply them
    )
    body = dict(call.body)
    if call.limit == "":
        settings["max_tokens"] = call.max_tokens
    elif call.limit != "none":
        body.setdefault(call.limit, call.max_tokens)
    if body:
        settings["extra_body"] = body
    if headers:
        settings["extra_headers"] = dict(headers)
    if call.seed is not None:
        settings["seed"] = call.seed
    if (effort := call.reasoning_effort) is not None:
        given: dict[str, Any] = {"thinking": False if effort == "none" else effort}
        if "openai" in type(model).__module__:
            given = {"openai_reasoning_effort": effort}  # as it is, whatever the model is called
        settings.update(given)  # type: ignore[typeddict-item]
    if call.marks:
        marks: dict[str, Any] = {"anthropic_cache_instructions": True}
        if call.output == "tool":
            marks["anthropic_cache_tool_definitions"] = True
        settings.update(marks)  # type: ignore[typeddict-item]
    return _with_sampling(settings, model, call)


def _with_sampling(settings: "OpenAIChatModelSettings", model: "Model", call: Call) -> "ModelSettings":
    """The settings and those of sampling, for a model that takes them."""
    profile: Any = model.profile
    reasons = profile.get("openai_supports_reasoning") and thinks(model, call.reasoning_effort)
    if reasons or profile.get("anthropic_disallows_sampling_settings"):
        return settings  # PydanticAI would leave the others out too, with a warning for each
    if call.temperature is not None:
        settings["temperature"] = call.temperature
    if call.top_logprobs:
        settings["openai_logprobs"] = True
        settings["openai_top_logprobs"] = call.top_logprobs
    return settings


def _parameters(call: Call) -> "ModelRequestParameters":
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition

    if call.output == "native":
        output = OutputObjectDefinition(json_schema=call.schema, name="judgement", strict=True)
        return ModelRequestParameters(output_mode="native", output_object=output)
    if call.output == "prompted":
        return ModelRequestParameters(output_mode="text")
    tool = ToolDefinition(
        name="judgement",
        parameters_json_schema=call.schema,
        description="Give your judgement.",
        kind="output",
    )
    return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)
