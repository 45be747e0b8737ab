"""Opens language models by PydanticAI name, and explains in one line why one is unavailable."""

import os
import re
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlsplit

from trivium.errors import MissingExtra, suggest
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
"""Environment variables of a provider, one of which must be set: a server of one's own may need no key."""


class ModelUnavailable(Exception):
    """A model cannot be used; the text says why, in one line."""


def open_model(
    name: str, *, over: "httpx2.AsyncClient | None" = None, server: ServerSettings | None = None
) -> "Model":
    """Open a model in the running event loop.

    ``openai:…`` uses chat completions, which every OpenAI-compatible server offers and which return
    log-probabilities; ``openai-responses:…`` uses the Responses API. Clients take OPENAI_BASE_URL and
    ANTHROPIC_BASE_URL from the environment.

    Args:
        name: Its PydanticAI name.
        over: HTTP client for the provider's SDK, in place of its own. (An unused one would cost 20 to 60 ms
            for reading the trusted certificates.)
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
    base_url = expanded(server.base_url) if server is not None and server.base_url is not None else None
    if keys and base_url is None and not any(os.environ.get(key) for key in keys):
        raise ModelUnavailable(f"{keys[0]} is not set, which {name} needs")
    if keys and not _can_be_sent(os.environ.get(keys[0], "")):
        raise ModelUnavailable(f"{keys[0]} holds a line break or another character that no key can have")
    if provider == "openai":
        name = name.replace("openai:", "openai-chat:", 1)

    try:
        if over is None and base_url is None:
            return _with_address(infer_model(name), name)
        provided = partial(_provided, over=over, base_url=base_url)
        return _with_address(infer_model(name, provided), name)
    except ModelUnavailable:
        raise
    except (UserError, ImportError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise ModelUnavailable(mask(_no_such(name) if why.startswith("Unknown model") else why)) from None
    except Exception as error:  # providers bring their own SDKs, each with errors of its own
        raise ModelUnavailable(mask(f"{name}: {type(error).__name__}: {error}".partition("\n")[0])) from None


def _provided(called: str, *, over: "httpx2.AsyncClient | None", base_url: str | None) -> "Provider[Any]":
    """Create a provider with the given HTTP client or base URL."""
    from pydantic_ai.providers import infer_provider_class

    kind: Any = infer_provider_class(called)
    options: dict[str, Any] = {} if over is None else {"http_client": over}
    if base_url is not None:
        known = signature(kind.__init__).parameters
        place = next((each for each in ("base_url", "azure_endpoint") if each in known), None)
        if place is None:
            raise ModelUnavailable(f"{called} has no base URL that judge.servers could set")
        options[place] = base_url
        if called == "anthropic" and not os.environ.get("ANTHROPIC_API_KEY"):
            options["api_key"] = "api-key-not-set"  # as PydanticAI has it for OpenAI's client
    made: Provider[Any] = kind(**options)
    return made


def _can_be_sent(value: str) -> bool:
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
    except ValueError:  # of a port, or of a name that no host has
        known = False
    if not known:
        shown = mask(str(model.base_url))
        raise ModelUnavailable(f'{name}: the base URL is "{shown}", expected http://… or https://…')
    return model


def no_such_provider(name: str) -> str | None:
    """Say what is wrong with the provider in a model name; None if it is known or cannot be checked."""
    provider, colon, _ = name.partition(":")
    if colon and provider in KEYS:  # without loading what knows the others
        return None
    if not colon:
        return _no_such(name)
    try:
        from pydantic_ai.providers import infer_provider_class

        infer_provider_class(provider)
    except ValueError:
        return _no_such(name) if provider not in _known_providers() else None
    except ImportError:  # of the extra, or of an SDK: then the provider is known
        return None
    return None


def _no_such(name: str) -> str:
    provider, colon, _ = name.partition(":")
    if not colon:
        return f'"{name}" names no provider: expected provider:model, such as openai:gpt-4o-mini'
    return f'no provider is called "{provider}".{suggest(provider, _known_providers())}'


def _known_providers() -> set[str]:
    from pydantic_ai.models import KnownModelName

    return {each.partition(":")[0] for each in get_args(KnownModelName.__value__)} | KEYS.keys()


def expanded(text: str) -> str:
    """Replace ``${NAME}`` in a text by environment variables.

    Raises:
        ModelUnavailable: If one is not set.
    """

    def value(found: "re.Match[str]") -> str:
        given = os.environ.get(found[1])
        if not given:
            raise ModelUnavailable(f"{found[1]} is not set, which judge.servers names")
        if not _can_be_sent(given):
            raise ModelUnavailable(f"{found[1]} holds a line break or another character that cannot be sent")
        return given

    return VARIABLE.sub(value, text)


def where(name: str, server: ServerSettings | None = None) -> str:
    """Return the address of a model.

    Raises:
        ModelUnavailable: If it cannot be used.
    """
    return mask(str(open_model(name, server=server).base_url))


def why_unavailable(name: str) -> str | None:
    """Say why a model cannot be used, or None if it seems that it can; no request is sent."""
    try:
        open_model(name)
    except ModelUnavailable as unavailable:
        return str(unavailable)
    return None
