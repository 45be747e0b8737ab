"""Sessions of browsers: a token is entered once, and a cookie stands for it; forms belong to one browser.

A session is a random value in a cookie that scripts cannot read and other sites cannot send. The store keeps
its SHA-256 with the id of the token; the token's scopes, expiry and revocation hold for it at every request.
A form carries a digest of the browser's cookie (a session, or without login a random one), which only a page
of this server can know.
"""

import hmac
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from trivium.store.tokens import hash_of
from trivium.web.errors import Refused, header

if TYPE_CHECKING:
    from litestar.types import HTTPScope

__all__ = [
    "SESSION",
    "VISITOR",
    "check_form",
    "cookie_in",
    "cookie_name",
    "cookie_of",
    "form_digest",
    "form_digest_in",
    "local_address",
    "over_tls",
]

SESSION: Final = "trivium_session"
VISITOR: Final = "trivium_visitor"


def cookie_of(headers: Iterable[tuple[bytes, bytes]], name: str) -> str:
    """The value of a cookie of a request; an empty text without it.

    Other servers on this host may set cookies of any form: one that is malformed hides no other.
    """
    found = ""
    for part in header(headers, b"cookie").split(";"):
        key, _, value = part.partition("=")
        if key.strip() == name:
            found = value.strip()[:200]
    return found


def over_tls(scope: "HTTPScope") -> bool:
    """Whether a browser sent a request by TLS, as the server or a proxy in front of it says."""
    forwarded = header(scope["headers"], b"x-forwarded-proto").strip().lower()
    return "https" in {scope.get("scheme"), forwarded} or bool(scope["state"].get("tls"))


def cookie_name(scope: "HTTPScope", name: str) -> str:
    """The name of a cookie: over TLS with a prefix, so that no other server of the domain can set it."""
    return f"__Host-{name}" if over_tls(scope) else name


def cookie_in(scope: "HTTPScope", name: str) -> str:
    """The value of one of this server's cookies in a request; an empty text without it."""
    return cookie_of(scope["headers"], cookie_name(scope, name))


def form_digest(value: str) -> str:
    """What forms of a browser with this cookie carry; an empty text for no cookie."""
    return hash_of(f"form {value}") if value else ""


def form_digest_in(scope: "HTTPScope") -> str:
    """What forms of the browser carry that sent a request; an empty text if it has no cookie yet."""
    return form_digest(cookie_in(scope, SESSION) or cookie_in(scope, VISITOR))


def check_form(scope: "HTTPScope", given: object) -> None:
    """Refuse a form that no page of this server gave to this browser.

    Raises:
        Refused: If the digest is missing or another one.
    """
    expected = form_digest_in(scope)
    if (
        not expected
        or not isinstance(given, str)
        or not hmac.compare_digest(expected.encode(), given.encode("utf-8", "surrogatepass"))
    ):
        raise Refused(403, "This form is of another browser or session: open its page again.", reason="form")


def local_address(address: str) -> str:
    """An address on this server to go on at after a login; the first page if it is anything else."""
    plain = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if plain and "\\" not in address else "/runs"
