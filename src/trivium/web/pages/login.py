"""The page on which a token is entered once for this browser."""

from typing import Any

from litestar import Request, Response, get, post
from litestar.params import FromQuery
from litestar.response import Redirect

from trivium.web.errors import Refused
from trivium.web.pages.site import Site, set_cookie
from trivium.web.security import LOGIN_PATH, LOGOUT_PATH, address_of
from trivium.web.sessions import SESSION, check_form, cookie_in, local_address

__all__ = ["routes"]


def routes(site: Site) -> list[Any]:
    """The routes of the page."""

    def page(
        request: Request[Any, Any, Any], following: str, problem: Refused | None = None
    ) -> Response[str]:
        return site.page(
            request,
            "login.html",
            title="Log in",
            status_code=200 if problem is None else problem.status,
            forms=True,
            following=local_address(following),
            problem="" if problem is None else problem.message,
        )

    @get(LOGIN_PATH, include_in_schema=False, sync_to_thread=False)
    def login(request: Request[Any, Any, Any], next: FromQuery[str] = "") -> Response[str]:  # noqa: A002
        return page(request, next)

    @post(LOGIN_PATH, include_in_schema=False, status_code=200)
    async def enter(request: Request[Any, Any, Any]) -> Response[Any]:
        form = await request.form()
        check_form(request.scope, form.get("form"))
        following = local_address(str(form.get("next", "")))
        try:
            guard, secret = request.scope["state"]["guard"], str(form.get("token", ""))[:500]
            session = await guard.sign_in(secret, address_of(request.scope))
        except Refused as problem:
            return page(request, following, problem)
        answer: Response[Any] = Redirect(following, status_code=303)
        set_cookie(answer, request, SESSION, session)
        return answer

    @post(LOGOUT_PATH, include_in_schema=False, status_code=200)
    async def leave(request: Request[Any, Any, Any]) -> Response[Any]:
        form = await request.form()
        session = cookie_in(request.scope, SESSION)
        if session:  # else there is nothing to end
            check_form(request.scope, form.get("form"))
            await request.scope["state"]["guard"].sign_out(session, address_of(request.scope))
        answer: Response[Any] = Redirect(LOGIN_PATH, status_code=303)
        set_cookie(answer, request, SESSION, "")
        return answer

    return [login, enter, leave]
