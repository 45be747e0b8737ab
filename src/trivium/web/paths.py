"""Paths of requests: a slash inside a segment, and paths that lead nowhere.

A server decodes a path before routes see it: the name ``team/support`` in ``/monitors/team%2Fsupport`` would
be two segments. An encoded slash therefore takes another character's place until the route is found,
and is a slash again in the parameter of the route. No route and no scope sees it as a separator.
"""

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from trivium.web.errors import Refused

if TYPE_CHECKING:
    from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

__all__ = ["check_path", "keep_encoded_slashes", "quoted_path", "with_slashes"]

_SLASH: Final = "\ufdd0"
"""Stands for an encoded slash; a noncharacter, which is in no name."""

_ENCODED: Final = re.compile("%2f", re.IGNORECASE)


def keep_encoded_slashes(scope: "HTTPScope") -> None:
    """Decode the path of a request anew, but for its encoded slashes."""
    if raw := scope.get("raw_path"):
        path = raw.partition(b"?")[0].decode("ascii", "replace")
        scope["path"] = unquote(_ENCODED.sub(quote(_SLASH), path))


def with_slashes(app: "ASGIApp") -> "ASGIApp":
    """Middleware of the routes: an encoded slash is a slash in the parameters of a path."""

    async def restored(scope: "Scope", receive: "Receive", send: "Send") -> None:
        params: dict[str, Any] = scope.get("path_params") or {}
        scope["path_params"] = {
            name: value.replace(_SLASH, "/") if isinstance(value, str) else value
            for name, value in params.items()
        }
        await app(scope, receive, send)

    return restored


def quoted_path(scope: "HTTPScope") -> str:
    """The path of a request as it is written in an address."""
    return quote(scope["path"]).replace(quote(_SLASH), "%2F")


def check_path(path: str) -> None:
    """Refuse a path with further slashes: the routes would pass over them, and the scopes belong to paths."""
    plain = "/" + "/".join(part for part in path.split("/") if part)
    if path != plain:
        raise Refused(
            404, f"the path has too many slashes: send this to {plain[:200].replace(_SLASH, '%2F')}"
        )
