"""Sessions of browsers: a token is entered once, and a cookie stands for it; forms belong to one browser.

A session is a random value in a cookie that scripts cannot read and other sites cannot send. The store keeps
its SHA-256 with the id of the token; the token's scopes, expiry and revocation hold for it at every request.
A form carries a digest of the browser's cookie (a session, or without login a random one), which only a page
of this server can know.
"""

import hmac
from collections.abc import Iterable, Mapping
from typing import Final

from trivium.store.tokens import hash_of
from trivium.web.errors import Refused, header

__all__ = ["SESSION", "VISITOR", "check_form", "cookie_of", "form_digest", "local_address"]

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


def form_digest(cookies: Mapping[str, str]) -> str:
    """What forms of this browser carry; an empty text if it has no cookie yet."""
    value = cookies.get(SESSION) or cookies.get(VISITOR)
    return hash_of(f"form {value}") if value else ""


def check_form(cookies: Mapping[str, str], given: object) -> None:
    """Refuse a form that no page of this server gave to this browser.

    Raises:
        Refused: If the digest is missing or another one.
    """
    expected = form_digest(cookies)
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
