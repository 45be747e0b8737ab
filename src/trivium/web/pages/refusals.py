"""Answers a browser whose request the guard refuses: with a page, or a redirect to the login and back.

Programs get JSON. A browser that asks for a page without a login is sent to the login and from there back;
one that sends a form is told that nothing was stored, sees what was typed, and gets a link to the login.
"""

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

from litestar import Request

from trivium.web.errors import Refused, header, media_type
from trivium.web.pages.forms import typed_in
from trivium.web.pages.site import Site
from trivium.web.paths import quoted_path
from trivium.web.security import LOGIN_PATH, SAFE_METHODS, send_refusal
from trivium.web.sessions import local_address

if TYPE_CHECKING:
    from litestar.types import HTTPScope, Receive, Send

__all__ = ["answer_refusal"]

MOST_KEPT = 16_384
"""Bytes of a form that are read to show what was typed."""

ENDED: Final = "Your login has ended"


async def answer_refusal(
    site: Site, scope: "HTTPScope", receive: "Receive", send: "Send", refusal: Refused
) -> None:
    """Answer a request with a refusal: with a page if a browser asks for one."""
    request: Request[Any, Any, Any] = Request(scope)
    if not site.is_page(request):
        await send_refusal(scope, send, refusal)
        return
    login = _login(request)
    if refusal.status == 401 and request.headers.get("HX-Request"):
        refusal.headers["HX-Redirect"] = login
    elif refusal.status == 401 and scope["method"] in SAFE_METHODS:
        location = {"Location": login}
        await send_refusal(scope, send, Refused(303, "a token is needed", headers=location))
        return
    if scope["method"] not in SAFE_METHODS:
        typed = typed_in(await _form(scope, receive)) if refusal.status == 401 else {}
        why = ENDED if refusal.status == 401 else f"{refusal.message[:1].upper()}{refusal.message[1:]}"
        message = f"{why.rstrip('.')}. Nothing was stored."
        refusal = Refused(refusal.status, message, headers=refusal.headers, typed=typed)
    answer = site.problem(request, refusal, login=login if refusal.status == 401 else "")
    await answer.to_asgi_response(None, request)(scope, receive, send)


def _login(request: Request[Any, Any, Any]) -> str:
    """Address of the login, which leads back to where the person was."""
    if request.headers.get("HX-Request"):
        try:
            here = urlsplit(request.headers.get("HX-Current-URL", ""))
        except ValueError:
            here = urlsplit("")
        path, arguments = here.path, here.query
    else:
        path, arguments = quoted_path(request.scope), request.scope["query_string"].decode("latin-1")
    back = local_address(path + (f"?{arguments}" if arguments else ""))
    return f"{LOGIN_PATH}?next={quote(back, safe='/')}"


async def _form(scope: "HTTPScope", receive: "Receive") -> dict[str, str]:
    """The fields of a form, as far as they come; empty if it is too large or of another kind."""
    if media_type(header(scope["headers"], b"content-type")) != "application/x-www-form-urlencoded":
        return {}
    body, more = b"", True
    while more and len(body) <= MOST_KEPT:
        try:
            message: Any = await receive()
        except Refused:  # it does not come in time
            return {}
        body += message.get("body", b"")
        more = message["type"] == "http.request" and message.get("more_body", False)
    if len(body) > MOST_KEPT:
        return {}
    try:
        return dict(parse_qsl(body.decode("ascii", "replace"), max_num_fields=50))
    except ValueError:
        return {}
