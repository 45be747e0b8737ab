"""UsualClient: asks a model through PydanticAI, which is the way to every provider."""

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Protocol

from trivium.metrics.judge.models.call import MOST_TOKENS, Alternative, Call, Reply, Token
from trivium.metrics.judge.models.provider_errors import error_of
from trivium.metrics.judge.models.trouble import Trouble

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

log = logging.getLogger(__name__)

REQUEST_TIMEOUT = 24 * 3600.0
"""Seconds that the provider's own client may wait: the time limit that counts is kept above it."""


Left = Callable[[], None]


def unheard() -> None:
    """Nobody wants to know when a request goes out."""


class Client(Protocol):
    """Sends one request and says what came of it."""

    async def send(self, call: Call, left: Left = unheard) -> Reply:
        """The reply.

        Args:
            call: What is asked.
            left: Called when the request goes out, as far as can be told.

        Raises:
            Trouble: If none came.
        """

    async def close(self) -> None:
        """End the connections."""


class UsualClient:
    """Asks through PydanticAI and the provider's own SDK, whose retries are off.

    Args:
        model: Opened; its connections end with the client.
    """

    def __init__(self, model: "Model") -> None:
        self._model = model
        self._stack = AsyncExitStack()
        self._entered = False

    async def send(self, call: Call, left: Left = unheard) -> Reply:
        """See :meth:`Client.send`."""
        if not self._entered:
            await self._stack.enter_async_context(self._model)  # which counts: once more does no harm
            self._entered = True
        left()
        return await respond(self._model, call)

    async def close(self) -> None:
        """See :meth:`Client.close`."""
        await self._stack.aclose()


async def respond(model: "Model", call: Call) -> Reply:
    """What a model replies to a call, its cost still unknown.

    Raises:
        Trouble: If it does not.
    """
    from pydantic_ai.direct import model_request
    from pydantic_ai.exceptions import ModelAPIError, UserError

    try:
        response = await model_request(
            model,
            _messages(call),
            model_settings=_settings(model, call),
            model_request_parameters=_parameters(call),
        )
        return _reply(response)
    except ModelAPIError as error:
        raise error_of(call.model, error) from None
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


def _messages(call: Call) -> "list[ModelMessage]":
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

    messages: list[ModelMessage] = []
    for index, turn in enumerate(call.turns):
        if index % 2:
            # A malformed answer goes back as plain text: a broken tool call cannot be sent.
            messages.append(ModelResponse(parts=[TextPart(turn or "(no answer)")], model_name=call.model))
        else:
            instructions = None if index else call.instructions
            said = turn if index else call.case + turn
            messages.append(ModelRequest(parts=[UserPromptPart(said)], instructions=instructions))
    return messages


def thinks(model: "Model") -> bool:
    """Whether a model reasons before it answers, unless it is told not to."""
    profile: Any = model.profile
    by_default = profile.get("thinking_always_enabled") or profile.get("thinking_enabled_by_default")
    must = profile.get("openai_supports_reasoning") and not profile.get(
        "openai_supports_reasoning_effort_none"
    )
    return bool(by_default or must)


def _settings(model: "Model", call: Call) -> "ModelSettings":
    from pydantic_ai.models.openai import OpenAIChatModelSettings

    profile: Any = model.profile
    settings = OpenAIChatModelSettings(
        max_tokens=call.max_tokens,
        timeout=REQUEST_TIMEOUT,
        max_retries=0,  # retries are ours: a second policy below would multiply them
    )
    if call.seed is not None:
        settings["seed"] = call.seed
    reasons = profile.get("openai_supports_reasoning") and thinks(model)
    if reasons or profile.get("anthropic_disallows_sampling_settings"):
        return settings  # PydanticAI would leave the others out too, with a warning for each
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
    tool = ToolDefinition(
        name="judgement",
        parameters_json_schema=call.schema,
        description="Give your judgement.",
        kind="output",
    )
    return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)
