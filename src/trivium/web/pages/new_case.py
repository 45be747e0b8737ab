"""The page that makes a case of a trace: the case, with secrets masked, and the command that adds it.

No page writes a file: the case is copied or downloaded, or the command adds it where the suite is.
"""

import shlex
from typing import Annotated, Any, Literal

from litestar import Request, Response, get
from litestar.params import FromPath, QueryParameter

from trivium.agents.recorded.new_case import case_of_trace
from trivium.errors import TraceError
from trivium.monitor.interaction import received_trace
from trivium.safe_text import one_line, sanitise
from trivium.suites.files.new_case import yaml_of_case
from trivium.web.errors import Refused
from trivium.web.pages.site import Site, segment

__all__ = ["case_command", "routes"]


def routes(site: Site) -> list[Any]:
    """The routes of the page."""

    @get("/traces/{trace:str}/case", include_in_schema=False, sync_to_thread=True)
    def new_case(
        request: Request[Any, Any, Any],
        trace: FromPath[str],
        format: Annotated[Literal["html", "yaml"], QueryParameter()] = "html",  # noqa: A002
    ) -> Response[str]:
        name = sanitise(trace[:200])[0]
        try:
            found = received_trace(site.store, name)
            made = None if found is None else case_of_trace(found)
        except TraceError as error:
            raise Refused(400, str(error)) from None
        if made is None:
            raise Refused(404, f"No trace {one_line(name, at_most=60)} is stored (any more).")
        text = yaml_of_case(made.case, made.remarks)
        if format == "yaml":
            headers = {"Content-Disposition": 'attachment; filename="case.yaml"'}
            return Response(text, media_type="application/yaml", headers=headers)
        return site.page(
            request,
            "new_case.html",
            title=f"A case of trace {one_line(name, at_most=60)}",
            section="monitors",
            trail=[("Production", "/monitors"), (f"Trace {one_line(name)}", f"/traces/{segment(name)}")],
            text=text,
            masked=made.masked,
            command=case_command(name),
        )

    return [new_case]


def case_command(trace: str) -> str:
    """The command that makes a case of a trace; empty for an id that looks like an option."""
    return "" if trace.startswith("-") else f"trivium case from {shlex.quote(trace)} --suite SUITE"
