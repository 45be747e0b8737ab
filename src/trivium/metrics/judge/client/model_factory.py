"""Opens language models by PydanticAI name, and explains in one line why one is unavailable."""

import os
import re
from functools import partial
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlsplit

import msgspec

from trivium.agents.loading import load_object
from trivium.errors import AgentError, MissingExtra, suggest
from trivium.masking import mask
from trivium.suites.settings import ServerSettings
from trivium.suites.settings_loader import VARIABLE

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider

KEYS = {
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "openai-chat": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "openai-responses": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "anthropic": ("ANTHROPIC_API_KEY",),
}
"""Environment variables by provider; one of them must be set, as a private server may need no key."""


PYTHON = "python:"
"""Begins the name of a model that Python code makes: ``python:package.module:name``."""


class ModelUnavailable(Exception):
    """A model cannot be used; the text says why, in one line."""


class ModelDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What PydanticAI knows about a model, as far as requests depend on it.

    Attributes:
        name: The provider's name for it; of one that Python code makes where it is.
        base_url: Its base URL; of one that Python code makes what it calls itself.
        native_schema: Whether it accepts a JSON schema for its answer.
        completion_limit: Whether the limit of tokens is sent as ``max_completion_tokens``.
        marks_cache: Whether the provider caches only marked parts of a prompt. Others cache automatically or
            not at all.
        thinks: Whether it reasons before it answers, if no effort is requested.
        screened: Whether PydanticAI breaks up special tokens in texts.
        drops: Which of ``extra_body`` and ``extra_headers`` its client silently drops.
    """

    name: str
    base_url: str
    native_schema: bool
    completion_limit: bool
    marks_cache: bool
    thinks: bool
    screened: bool
    drops: tuple[str, ...]


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
        name=name.removeprefix(PYTHON) if from_python else model.model_name,
        base_url=model.model_name if from_python else str(model.base_url),
        native_schema=bool(profile.get("supports_json_schema_output")),
        completion_limit=bool(profile.get("openai_chat_supports_max_completion_tokens", True)),
        marks_cache="anthropic" in type(model).__module__,
        thinks=thinks(model),
        screened=bool(profile.get("may_tokenize_special_tokens_in_content")),
        drops=tuple(sorted(dropped & {"extra_body", "extra_headers"})),
    )


def thinks(model: "Model", effort: str | None = None) -> bool:
    """Whether a model reasons before it answers.

    Args:
        model: The model.
        effort: The reasoning effort that is requested, or None.
    """
    if effort is not None:
        return effort != "none"
    profile: Any = model.profile
    by_default = profile.get("thinking_always_enabled") or profile.get("thinking_enabled_by_default")
    must = profile.get("openai_supports_reasoning") and not profile.get(
        "openai_supports_reasoning_effort_none"
    )
    return bool(by_default or must)


def open_model(
    name: str, *, http_client: "httpx2.AsyncClient | None" = None, server: ServerSettings | None = None
) -> "Model":
    """Open a model in the running event loop.

    ``openai:…`` uses chat completions, which every OpenAI-compatible server offers and which return
    log-probabilities; ``openai-responses:…`` uses the Responses API. Clients take OPENAI_BASE_URL and
    ANTHROPIC_BASE_URL from the environment.

    ``python:package.module:name`` is any PydanticAI model that this name holds, or that a function of this
    name returns.

    Args:
        name: Its PydanticAI name, or ``python:`` and where it is.
        http_client: HTTP client for the provider's SDK to use in place of its own (which takes 20 to 60 ms to
            read the trusted certificates).
        server: Its server, if not the one that the environment names.

    Raises:
        ModelUnavailable: If the extra, the key or the name is missing or wrong.
    """
    provider = name.partition(":")[0]
    keys = KEYS.get(provider, ())
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError:
        raise ModelUnavailable(str(MissingExtra("judge", "a judge"))) from None
    if name.startswith(PYTHON):
        return _python_model(name, server)
    base_url = (
        expand_variables(server.base_url) if server is not None and server.base_url is not None else None
    )
    if keys:
        check_key(keys, name, needed=base_url is None)
    if provider == "openai":
        name = name.replace("openai:", "openai-chat:", 1)

    try:
        if http_client is None and base_url is None:
            return _with_address(infer_model(name), name)
        provided = partial(_create_provider, http_client=http_client, base_url=base_url)
        return _with_address(infer_model(name, provided), name)
    except ModelUnavailable:
        raise
    except (UserError, ImportError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise ModelUnavailable(
            mask(_unknown_provider(name) if why.startswith("Unknown model") else why)
        ) from None
    except Exception as error:  # providers bring their own SDKs, each with errors of its own
        raise ModelUnavailable(mask(f"{name}: {type(error).__name__}: {error}".partition("\n")[0])) from None


def check_key(keys: tuple[str, ...], name: str, *, needed: bool) -> None:
    """Check the environment variables that hold a provider's key.

    Raises:
        ModelUnavailable: If none is set though one is needed, or it cannot be sent.
    """
    if needed and not any(os.environ.get(key) for key in keys):
        raise ModelUnavailable(f"{keys[0]} is not set, which {name} needs")
    if not _valid_in_header(os.environ.get(keys[0], "")):
        raise ModelUnavailable(f"{keys[0]} holds a line break or another character that no key can have")


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


def _create_provider(
    provider_name: str, *, http_client: "httpx2.AsyncClient | None", base_url: str | None
) -> "Provider[Any]":
    """Create a provider with the given HTTP client or base URL."""
    from pydantic_ai.providers import infer_provider_class

    kind: Any = infer_provider_class(provider_name)
    options: dict[str, Any] = {} if http_client is None else {"http_client": http_client}
    if base_url is not None:
        known = signature(kind.__init__).parameters
        place = next((each for each in ("base_url", "azure_endpoint") if each in known), None)
        if place is None:
            raise ModelUnavailable(f"{provider_name} has no base URL that judge.servers could set")
        options[place] = base_url
        if provider_name == "anthropic" and not os.environ.get("ANTHROPIC_API_KEY"):
            options["api_key"] = "api-key-not-set"  # as PydanticAI has it for OpenAI's client
    made: Provider[Any] = kind(**options)
    return made


def _valid_in_header(value: str) -> bool:
    """Whether a value is valid in a header."""
    return value.isascii() and value.isprintable() and value == value.strip()


def _with_address(model: "Model", name: str) -> "Model":
    """Return the model if its base URL is valid.

    Raises:
        ModelUnavailable: If it is not.
    """
    parts = urlsplit(str(model.base_url or "http://none"))
    try:
        known = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or 80)
        (parts.hostname or "").encode("idna")
    except ValueError:  # invalid port or host name
        known = False
    if not known:
        shown = mask(str(model.base_url))
        raise ModelUnavailable(f'{name}: the base URL is "{shown}", expected http://… or https://…')
    return model


def unknown_provider(name: str) -> str | None:
    """Return the error message for an unknown provider; None if it is known or cannot be checked.

    Of a model that Python code makes: why it cannot be had.
    """
    if name.startswith(PYTHON):
        return why_unavailable(name) if find_spec("pydantic_ai") else None
    provider, colon, _ = name.partition(":")
    if colon and provider in KEYS:  # saves importing PydanticAI
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

    return {each.partition(":")[0] for each in get_args(KnownModelName.__value__)} | KEYS.keys()


def expand_variables(text: str) -> str:
    """Replace each ``${NAME}`` in a text by the environment variable of that name.

    Raises:
        ModelUnavailable: If a variable is not set, or its value is not valid in a header.
    """

    def value(found: "re.Match[str]") -> str:
        given = os.environ.get(found[1])
        if not given:
            raise ModelUnavailable(f"{found[1]} is not set, which judge.servers names")
        if not _valid_in_header(given):
            raise ModelUnavailable(f"{found[1]} holds a line break or another character that cannot be sent")
        return given

    return VARIABLE.sub(value, text)


def why_unavailable(name: str) -> str | None:
    """Return why a model cannot be used, or None if nothing is wrong. Sends no request."""
    try:
        open_model(name)
    except ModelUnavailable as unavailable:
        return str(unavailable)
    return None
