"""Opens language models by PydanticAI name, and explains in one line why one is unavailable."""

import os
from functools import partial
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any, get_args

from trivium.agents.loading import load_object
from trivium.errors import AgentError, MissingExtra, suggest
from trivium.masking import mask
from trivium.metrics.judge.client.providers import (
    NO_KEY,
    PROVIDERS,
    ModelDescription,
    ModelUnavailable,
    check_key,
    describe_direct,
    expand_variables,
    normalised_address,
    provider_and_model,
)
from trivium.suites.settings import ServerSettings

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider

PYTHON = "python:"
"""Begins the name of a model that Python code makes: ``python:package.module:name``."""


def describe_model(name: str, server: ServerSettings | None = None) -> ModelDescription:
    """Describe a model, without asking it.

    Args:
        name: Its PydanticAI name, or ``python:`` and where it is.
        server: Its server, if not the one that the environment names.

    Raises:
        ModelUnavailable: If it cannot be used.
    """
    return describe_direct(name, server) or describe(open_model(name, server=server), name)


def model_address(name: str, server: ServerSettings | None = None) -> str:
    """Return the base URL of a model, with secrets masked.

    Raises:
        ModelUnavailable: If it cannot be used.
    """
    return mask(describe_model(name, server).base_url)


def why_unavailable(name: str) -> str | None:
    """Return why a model cannot be used, or None if nothing is wrong. Sends no request."""
    try:
        describe_model(name)
    except ModelUnavailable as unavailable:
        return str(unavailable)
    return None


def describe(model: "Model", name: str) -> ModelDescription:
    """Describe an open model.

    Args:
        model: The model.
        name: Its name in the suite.
    """
    from_python = name.startswith(PYTHON)
    profile: Any = model.profile
    dropped: frozenset[str] = getattr(model, "unsupported_settings", frozenset())
    return ModelDescription(
        provider=provider_and_model(name)[0],
        name=name.removeprefix(PYTHON) if from_python else model.model_name,
        base_url=model.model_name if from_python else str(model.base_url),
        native_schema=bool(profile.get("supports_json_schema_output")),
        completion_limit=bool(profile.get("openai_chat_supports_max_completion_tokens", True)),
        marks_cache="anthropic" in type(model).__module__,
        thinking="default" if thinks(model) else "",
        drops=tuple(sorted(dropped & {"extra_body", "extra_headers"})),
    )


def thinks(model: "Model") -> bool:
    """Whether a model reasons before it answers, if no effort is requested."""
    profile: Any = model.profile
    by_default = profile.get("thinking_always_enabled") or profile.get("thinking_enabled_by_default")
    must = profile.get("openai_supports_reasoning") and not profile.get(
        "openai_supports_reasoning_effort_none"
    )
    return bool(by_default or must)


def open_model(name: str, *, server: ServerSettings | None = None) -> "Model":
    """Open a model of PydanticAI in the running event loop.

    ``openai:…`` uses chat completions, which every OpenAI-compatible server offers and which return
    log-probabilities; ``openai-responses:…`` uses the Responses API. Clients take OPENAI_BASE_URL and
    ANTHROPIC_BASE_URL from the environment.

    ``python:package.module:name`` is any PydanticAI model that this name holds, or that a function of this
    name returns.

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
    except (UserError, ImportError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise ModelUnavailable(
            mask(_unknown_provider(name) if why.startswith("Unknown model") else why)
        ) from None
    except Exception as error:  # providers bring their own SDKs, each with errors of its own
        raise ModelUnavailable(mask(f"{name}: {type(error).__name__}: {error}".partition("\n")[0])) from None
    if model.base_url:
        normalised_address(str(model.base_url), name)
    return model


def _python_model(name: str, server: ServerSettings | None) -> "Model":
    """The model that a Python path names.

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
    if colon and provider in PROVIDERS:  # saves importing PydanticAI
        return None
    if not colon:
        return _unknown_provider(name)
    try:
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
