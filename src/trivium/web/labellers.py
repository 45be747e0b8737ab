"""Identifies the person who labels through the server, on its pages and its JSON interface alike."""

from typing import Any, Final

from litestar import Request

from trivium.errors import InputError
from trivium.labels.people import LONGEST_NAME, typed_name
from trivium.store.tokens import Token
from trivium.web.errors import Refused
from trivium.web.sessions import cookie_in

__all__ = ["LABELLER", "labeller_in", "labeller_of", "token_of", "typed_in_browser"]

LABELLER: Final = "trivium_labeller"
"""Cookie that holds the name that was typed into this browser, on a server that asks for no tokens."""


def token_of(request: Request[Any, Any, Any]) -> Token | None:
    """The token that a request comes with, itself or by a login; None on a server that asks for none."""
    found: Token | None = request.scope["state"].get("token")
    return found


def labeller_of(request: Request[Any, Any, Any], typed: str | None) -> str:
    """The person whose labels a request reads or changes.

    Args:
        request: The request.
        typed: The name that somebody typed; only where the request comes without a token.

    Raises:
        Refused: If a name comes with a token, or none without one.
    """
    token = token_of(request)
    if token is None:
        if not typed:
            raise Refused(400, "Say who you are first.")
        try:
            return typed_name(typed)
        except InputError as error:
            raise Refused(400, str(error)) from None
    if typed:
        raise Refused(400, f'You label as the token "{token.name}": another name is not taken.')
    return token.actor


def typed_in_browser(request: Request[Any, Any, Any]) -> str:
    """The name that was typed into this browser; empty before it was."""
    try:
        return typed_name(bytes.fromhex(cookie_in(request.scope, LABELLER)).decode("utf-8")[:LONGEST_NAME])
    except (ValueError, InputError):
        return ""


def labeller_in(request: Request[Any, Any, Any]) -> tuple[str, str, bool]:
    """Return the labeller of this browser, the shown name, and whether they may label; else empty texts."""
    token = token_of(request)
    if token is None:
        name = typed_in_browser(request)
        return name, name, True
    return (token.actor, token.name, True) if token.allows("label") else ("", token.name, False)
