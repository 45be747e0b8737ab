"""Sends requests through PydanticAI, which supports every provider."""

import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Protocol

from trivium.masking import mask
from trivium.metrics.judge.client.model_factory import thinks
from trivium.metrics.judge.client.provider_errors import error_of, rejected_answer
from trivium.metrics.judge.client.request import (
    NO_ANSWER,
    ModelRequest,
    ModelResponse,
    RequestError,
    plausible_count,
)
from trivium.metrics.judge.client.wire_formats import NAME, PURPOSE, compact_logprobs
from trivium.suites.sanitize import sanitise

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.messages import ModelResponse as SdkResponse
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.models.openai import OpenAIChatModelSettings
    from pydantic_ai.settings import ModelSettings

log = logging.getLogger(__name__)

PYTHON_PROVIDER = "python"
"""Provider of models that Python code makes."""

REQUEST_TIMEOUT = 24 * 3600.0
"""Timeout of the provider's client, seconds. The scheduler enforces the real one."""

OnSent = Callable[[], None]


def ignore_sent() -> None:
    """Ignore that a request was sent."""


class Client(Protocol):
    """Sends one request to a model."""

    async def send(self, request: ModelRequest, on_sent: OnSent = ignore_sent) -> ModelResponse:
        """Send a request and return the response.

        Args:
            request: The request.
            on_sent: Called when the request is written, as far as the client knows.

        Raises:
            RequestError: If there is no response.
        """

    async def close(self) -> None:
        """Close the connections."""


class PydanticAIClient:
    """Uses PydanticAI and the provider's SDK, with the SDK's retries turned off.

    Args:
        model: The model; its connections are closed with the client.
        headers: Added to each request.
    """

    def __init__(self, model: "Model", headers: Mapping[str, str] | None = None) -> None:
        self._model = model
        self._headers = headers or {}
        self._stack = AsyncExitStack()
        self._entered = False

    async def send(self, request: ModelRequest, on_sent: OnSent = ignore_sent) -> ModelResponse:
        """See :meth:`Client.send`."""
        if not self._entered:
            await self._stack.enter_async_context(self._model)
            self._entered = True
        on_sent()
        return await respond(self._model, request, self._headers)

    async def close(self) -> None:
        """See :meth:`Client.close`."""
        await self._stack.aclose()


async def respond(model: "Model", request: ModelRequest, headers: Mapping[str, str]) -> ModelResponse:
    """Send a request with PydanticAI and return the response, without its cost.

    Args:
        model: The model.
        request: The request.
        headers: Added to the request.

    Raises:
        RequestError: If there is no response.
    """
    from pydantic_ai.direct import model_request
    from pydantic_ai.exceptions import ModelAPIError, UserError

    try:
        response = await model_request(
            model,
            _messages(request),
            model_settings=_settings(model, request, headers),
            model_request_parameters=_parameters(request),
        )
        return _converted_response(response)
    except ModelAPIError as error:
        if (rejected := rejected_answer(getattr(error, "body", None))) is not None:
            return rejected
        raise error_of(request, error) from None
    except UserError as error:  # raised before anything is sent
        raise RequestError(f"{request.model}: {error}", kind="permanent") from None
    except Exception as error:  # a malformed 200 can make the SDK raise anything
        log.debug("%s: no answer could be read: %s", request.model, error, exc_info=error)
        if request.provider == PYTHON_PROVIDER:  # the user's own code, not a reply
            why = mask(f"{request.model} failed: {type(error).__name__}: {error}")
            raise RequestError(why, kind="permanent") from None
        why = f"{request.model}: the reply holds no answer that can be read"
        raise RequestError(why, kind="provider_error", billed=True) from None


def _converted_response(response: "SdkResponse") -> ModelResponse:
    """Convert a response; lone surrogates, which the SDK lets pass, can be neither stored nor sent on."""
    calls = response.tool_calls
    usage = response.usage
    text, _ = sanitise(calls[0].args_as_json_str() if calls else response.text or "")
    logprobs, _ = sanitise((response.provider_details or {}).get("logprobs"))
    return ModelResponse(
        text=text,
        finish=response.finish_reason,
        model=sanitise(response.model_name or "")[0],
        logprobs=compact_logprobs(logprobs),
        input_tokens=plausible_count(usage.input_tokens),
        output_tokens=plausible_count(usage.output_tokens),
        cached_tokens=plausible_count(usage.cache_read_tokens),
        cache_write_tokens=plausible_count(usage.cache_write_tokens),
    )


def _messages(request: ModelRequest) -> "list[ModelMessage]":
    from pydantic_ai.messages import CachePoint, TextPart, UserPromptPart
    from pydantic_ai.messages import ModelRequest as SdkRequest
    from pydantic_ai.messages import ModelResponse as SdkResponse

    messages: list[ModelMessage] = []
    for index, turn in enumerate(request.turns):
        if index % 2:
            # A malformed answer goes back as plain text: a broken tool call cannot be sent.
            messages.append(SdkResponse(parts=[TextPart(turn or NO_ANSWER)], model_name=request.model))
        else:
            instructions = None if index else request.instructions
            content: str | list[str | CachePoint] = turn if index else request.case + turn
            if request.marks == "case" and not index and request.case:
                content = [request.case, CachePoint(), turn]
            messages.append(SdkRequest(parts=[UserPromptPart(content)], instructions=instructions))
    return messages


def _settings(model: "Model", request: ModelRequest, headers: Mapping[str, str]) -> "ModelSettings":
    from pydantic_ai.models.openai import OpenAIChatModelSettings

    settings = OpenAIChatModelSettings(
        timeout=REQUEST_TIMEOUT,
        max_retries=0,  # the scheduler retries; the SDK's retries would multiply that
    )
    body = dict(request.body)
    if request.limit == "":
        settings["max_tokens"] = request.max_tokens
    elif request.limit != "none":
        body.setdefault(request.limit, request.max_tokens)
    if body:
        settings["extra_body"] = body
    if headers:
        settings["extra_headers"] = dict(headers)
    if request.seed is not None:
        settings["seed"] = request.seed
    if (effort := request.reasoning_effort) is not None:
        given: dict[str, Any] = {"thinking": False if effort == "none" else effort}
        if "openai" in type(model).__module__:
            given = {"openai_reasoning_effort": effort}  # sent unchanged for any model name
        settings.update(given)  # type: ignore[typeddict-item]
    if request.marks:
        marks: dict[str, Any] = {"anthropic_cache_instructions": True}
        if request.output == "tool":
            marks["anthropic_cache_tool_definitions"] = True
        settings.update(marks)  # type: ignore[typeddict-item]
    return _with_sampling(settings, model, request)


def _with_sampling(
    settings: "OpenAIChatModelSettings", model: "Model", request: ModelRequest
) -> "ModelSettings":
    """Add sampling settings, if the model accepts them."""
    profile: Any = model.profile
    effort = request.reasoning_effort
    reasons = profile.get("openai_supports_reasoning") and (
        thinks(model) if effort is None else effort != "none"
    )
    if reasons or profile.get("anthropic_disallows_sampling_settings"):
        return settings  # PydanticAI would drop them, too, with a warning for each
    if request.temperature is not None:
        settings["temperature"] = request.temperature
    if request.top_logprobs:
        settings["openai_logprobs"] = True
        settings["openai_top_logprobs"] = request.top_logprobs
    return settings


def _parameters(request: ModelRequest) -> "ModelRequestParameters":
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition

    if request.output == "native":
        output = OutputObjectDefinition(json_schema=request.schema, name=NAME, strict=True)
        return ModelRequestParameters(output_mode="native", output_object=output)
    if request.output == "prompted":
        return ModelRequestParameters(output_mode="text")
    tool = ToolDefinition(
        name=NAME,
        parameters_json_schema=request.schema,
        description=PURPOSE,
        kind="output",
    )
    return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)
