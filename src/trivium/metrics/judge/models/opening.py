"""Opening a language model by its PydanticAI name, and saying in one line why it cannot be had."""

import os
from typing import TYPE_CHECKING

from trivium.errors import MissingExtra
from trivium.masking import mask

if TYPE_CHECKING:
    from pydantic_ai.models import Model

KEYS = {
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "openai-chat": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "openai-responses": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "anthropic": ("ANTHROPIC_API_KEY",),
}
"""Environment variables of a provider, one of which must be set: a server of one's own may need no key."""


class ModelOff(Exception):
    """A model cannot be used; the text says why, in one line."""


def open_model(name: str) -> "Model":
    """A model ready to be asked, in the event loop that runs.

    ``openai:…`` is spoken to by chat completions, which every OpenAI-compatible server knows and which give
    log-probabilities; ``openai-responses:…`` says otherwise. Clients take OPENAI_BASE_URL and
    ANTHROPIC_BASE_URL from the environment.

    Raises:
        ModelOff: If the extra, the key or the name is missing or wrong.
    """
    provider = name.partition(":")[0]
    keys = KEYS.get(provider, ())
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError:
        raise ModelOff(str(MissingExtra("judge", "a judge"))) from None
    if keys and not any(os.environ.get(key) for key in keys):
        raise ModelOff(f"{keys[0]} is not set, which {name} needs")
    if provider == "openai":
        name = name.replace("openai:", "openai-chat:", 1)
    try:
        return infer_model(name)
    except (UserError, ImportError, ValueError) as error:
        raise ModelOff(mask(str(error).partition("\n")[0])) from None
    except Exception as error:  # providers bring their own SDKs, each with errors of its own
        raise ModelOff(mask(f"{name}: {type(error).__name__}: {error}".partition("\n")[0])) from None


def where(name: str) -> str:
    """The address that a model is asked at.

    Raises:
        ModelOff: If it cannot be used.
    """
    return mask(str(open_model(name).base_url))


def why_off(name: str) -> str | None:
    """Why a model cannot be used, or None when it seems that it can; nobody is asked."""
    try:
        open_model(name)
    except ModelOff as off:
        return str(off)
    return None
