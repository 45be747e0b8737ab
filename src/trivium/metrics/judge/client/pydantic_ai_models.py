"""Opens models of every other provider, and of Python code, with PydanticAI, and asks them."""

import logging
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any, cast, get_args

from trivium.agents.loading import load_object
from trivium.errors import AgentError, MissingExtra, suggest
from trivium.masking import mask
from trivium.metrics.judge.client.provider_errors import error_of, rejected_answer
from trivium.metrics.judge.client.providers import (
    NO_KEY,
    PROVIDERS,
    ModelDescription,
    ModelUnavailable,
    When,
    check_key,
    describe_direct,
    expand_variables,
    normalised_address,
    provider_and_model,
)
from trivium.metrics.judge.client.request import (
    NO_ANSWER,
    ModelRequest,
    ModelResponse,
    OnSent,
    RequestError,
    plausible_count,
)
from trivium.metrics.judge.client.wire_formats import NAME, PURPOSE, read_logprobs
from trivium.safe_text import sanitise
from trivium.suites.settings import ServerSettings

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.messages import ModelResponse as SdkResponse
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.providers import Provider
    from pydantic_ai.settings import ModelSettings

log = logging.getLogger(__name__)

PYTHON = "python:"
"""Begins the name of a model that Python code holds or a function returns: ``python:package.module:name``."""

REQUEST_TIMEOUT = 24 * 3600.0
"""Timeout of the provider's client, seconds. The scheduler enforces the real one."""


def model_address(name: str, server: ServerSettings | None = None) -> str:
    """Return the base URL of a model (:func:`open_model`), with secrets masked. Sends no request.

    Raises:
        ModelUnavailable: If it cannot be used.
    """
    description = describe_direct(name, server) or describe(open_model(name, server), name)
    return mask(description.base_url)


def why_unavailable(name: str) -> str | None:
    """Return why a model cannot be used, or None if nothing is wrong. Sends no request."""
    try:
        model_address(name)
    except ModelUnavailable as unavailable:
        return str(unavailable)
    return None


def describe(model: "Model", name: str) -> ModelDescription:
    """Describe an open model of this name in the suite."""
    from_python = name.startswith(PYTHON)
    profile: Any = model.profile
    reasons = profile.get("openai_supports_reasoning")
    thinks = reasons and not profile.get("openai_supports_reasoning_effort_none")
    thinks = thinks or profile.get("thinking_always_enabled") or profile.get("thinking_enabled_by_default")
    # PydanticAI would drop sampling settings, too, with a warning for each.
    sampling: When = "unthinking" if reasons else "always"
    return ModelDescription(
        provider=provider_and_model(name)[0],
        name=name.removeprefix(PYTHON) if from_python else model.model_name,
        base_url=model.model_name if from_python else str(model.base_url),
        native_schema=bool(profile.get("supports_json_schema_output")),
        completion_limit=bool(profile.get("openai_chat_supports_max_completion_tokens", True)),
        marks_cache="anthropic" in type(model).__module__,
        thinking="default" if thinks else "",
        sampling="never" if profile.get("anthropic_disallows_sampling_settings") else sampling,
    )


def open_client(
    name: str, server: ServerSettings, headers: Mapping[str, str], parameters: Mapping[str, object]
) -> "PydanticAIClient":
    """Open the client of a model (:func:`open_model`), for ``judge.parameters`` and with further headers.

    Raises:
        ModelUnavailable: If it cannot be used, or the provider's SDK would silently drop a setting.
    """
    model = open_model(name, server)
    given = any(value is not None for value in parameters.values())
    for field, used in (("extra_body", server.body or given), ("extra_headers", server.headers)):
        if used and field in getattr(model, "unsupported_settings", ()):
            keys = "judge.servers.headers" if field == "extra_headers" else "judge.parameters or servers.body"
            raise ModelUnavailable(f"{name}: its provider's client sends no fields of one's own ({keys})")
    return PydanticAIClient(model, name, headers)


def open_model(name: str, server: ServerSettings | None = None) -> "Model":
    """Open a model of PydanticAI in the running event loop.

    ``openai:…`` uses chat completions, which return log-probabilities.

    Args:
        name: Its PydanticAI name, or ``python:`` and where it is.
        server: Its server, if not the one that the environment names.

    Raises:
        ModelUnavailable: If the extra, the key or the name is missing or wrong.
    """
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError:
        raise ModelUnavailable(str(MissingExtra("judge", "a judge"))) from None
    if name.startswith(PYTHON):
        return _python_model(name, server)
    base_url = None if server is None or server.base_url is None else expand_variables(server.base_url)
    check_key(name, needed=base_url is None)
    own = partial(_create_provider, base_url=base_url) if base_url is not None else None
    sdk_name = ":".join(provider_and_model(name)) if ":" in name else name
    try:
        model = infer_model(sdk_name) if own is None else infer_model(sdk_name, own)
    except ModelUnavailable:
        raise
    except Exception as error:  # providers bring their own SDKs, each with errors of its own
        why = str(error).partition("\n")[0]
        if why.startswith("Unknown model"):
            why = _unknown_provider(name)
        elif not isinstance(error, UserError | ImportError | ValueError):
            why = f"{name}: {type(error).__name__}: {why}"
        raise ModelUnavailable(mask(why)) from None
    if model.base_url:
        normalised_address(str(model.base_url), name)
    return model


def _python_model(name: str, server: ServerSettings | None) -> "Model":
    """Load the model that a Python path names.

    Raises:
        ModelUnavailable: If it cannot be imported, is no model, or is given a base URL.
    """
    from pydantic_ai.models import Model

    if server is not None and server.base_url is not None:
        raise ModelUnavailable(f"{name} has no base URL that judge.servers could set")
    try:
        found = load_object(name.removeprefix(PYTHON), what="model")
        if callable(found) and not isinstance(found, Model):
            found = found()
    except AgentError as error:
        raise ModelUnavailable(f"{PYTHON}{error}") from None
    except Exception as error:  # the function is a user's
        raise ModelUnavailable(mask(f"{name} failed: {type(error).__name__}: {error}")) from None
    if not isinstance(found, Model):
        expected = "a model of PydanticAI or a function that returns one"
        raise ModelUnavailable(f'{name} gives "{type(found).__name__}", expected {expected}')
    return found


def _create_provider(provider_name: str, *, base_url: str) -> "Provider[Any]":
    """Create a provider with the given base URL."""
    from pydantic_ai.providers import infer_provider_class

    kind: Any = infer_provider_class(provider_name)
    known = signature(kind.__init__).parameters
    place = next((each for each in ("base_url", "azure_endpoint") if each in known), None)
    if place is None:
        raise ModelUnavailable(f"{provider_name} has no base URL that judge.servers could set")
    options = {place: base_url}
    if provider_name == "anthropic" and not os.environ.get("ANTHROPIC_API_KEY"):
        options["api_key"] = NO_KEY  # as PydanticAI has it for OpenAI's client
    made: Provider[Any] = kind(**options)
    return made


def unknown_provider(name: str) -> str | None:
    """Return the error message for an unknown provider; None if it is known or cannot be checked.

    Of a model that Python code makes: why it cannot be had.
    """
    if name.startswith(PYTHON):
        return why_unavailable(name) if find_spec("pydantic_ai") else None
    provider, colon, _ = name.partition(":")
    if not colon:
        return _unknown_provider(name)
    try:
        if provider not in PROVIDERS:  # saves importing PydanticAI
            from pydantic_ai.providers import infer_provider_class

            infer_provider_class(provider)
    except ValueError:
        return _unknown_provider(name) if provider not in _known_providers() else None
    except ImportError:  # the extra is missing, or the SDK of a known provider
        return None
    return None


def _unknown_provider(name: str) -> str:
    provider, colon, _ = name.partition(":")
    if not colon:
        return f'"{name}" names no provider: expected provider:model, such as openai:gpt-4o-mini'
    return f'no provider is called "{provider}".{suggest(provider, _known_providers())}'


def _known_providers() -> set[str]:
    from pydantic_ai.models import KnownModelName

    return {each.partition(":")[0] for each in get_args(KnownModelName.__value__)} | PROVIDERS.keys()


class PydanticAIClient:
    """Uses PydanticAI and the provider's SDK, with the SDK's retries turned off.

    The model's connections are closed with the client; ``headers`` are added to each request.
    """

    def __init__(self, model: "Model", name: str, headers: Mapping[str, str] | None = None) -> None:
        self.description = describe(model, name)
        self._model = model
        self._headers = dict(headers or {})
        self._stack = AsyncExitStack()
        self._entered = False

    async def send(self, request: ModelRequest, on_sent: OnSent = lambda: None) -> ModelResponse:
        """See :meth:`~trivium.metrics.judge.client.request.Client.send`."""
        from pydantic_ai.direct import model_request
        from pydantic_ai.exceptions import ModelAPIError, UserError

        if not self._entered:
            await self._stack.enter_async_context(self._model)
            self._entered = True
        on_sent()
        try:
            response = await model_request(
                self._model,
                _messages(request),
                model_settings=self._settings(request),
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
            if request.provider == "python":  # the user's own code, not a reply
                why = mask(f"{request.model} failed: {type(error).__name__}: {error}")
                raise RequestError(why, kind="permanent") from None
            why = f"{request.model}: the reply holds no answer that can be read"
            raise RequestError(why, kind="provider_error", billed=True) from None

    async def close(self) -> None:
        """See :meth:`~trivium.metrics.judge.client.request.Client.close`."""
        await self._stack.aclose()

    def _settings(self, request: ModelRequest) -> "ModelSettings":
        effort, sampled = request.reasoning_effort, self.description.samples(request.reasoning_effort)
        logprobs = sampled and request.top_logprobs > 0
        limit = {} if request.limit in ("", "none") else {request.limit: request.max_tokens}
        given: dict[str, Any] = {
            "timeout": REQUEST_TIMEOUT,
            "max_retries": 0,  # the scheduler retries; the SDK's retries would multiply that
            "max_tokens": request.max_tokens if request.limit == "" else None,
            "extra_body": limit | request.body or None,
            "extra_headers": self._headers or None,
            "seed": request.seed,
            "temperature": request.temperature if sampled else None,
            "openai_logprobs": logprobs or None,
            "openai_top_logprobs": request.top_logprobs if logprobs else None,
            "anthropic_cache_instructions": request.marks != "" or None,
            "anthropic_cache_tool_definitions": (request.marks != "" and request.output == "tool") or None,
        }
        if "openai" in type(self._model).__module__:
            given["openai_reasoning_effort"] = effort  # sent unchanged for any model name
        elif effort is not None:
            given["thinking"] = effort != "none" and effort
        return cast("ModelSettings", {key: value for key, value in given.items() if value is not None})


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
        logprobs=read_logprobs(logprobs, text),
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
        name=NAME, parameters_json_schema=request.schema, description=PURPOSE, kind="output"
    )
    return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)
