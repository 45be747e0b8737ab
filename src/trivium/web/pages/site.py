"""What all pages share: the templates, the styles and scripts, the layout, and the headers of answers.

Templates escape everything; styles and scripts are files of the server, so that the Content-Security-Policy
can refuse all that is inside a page. The parts of the reports are drawn with the reports' templates.
"""

import gzip
import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import quote, unquote, urlencode

import msgspec
from litestar import MediaType, Request, Response, get
from litestar.params import FromQuery, PathParameter
from litestar.response import Redirect, Stream

from trivium.errors import InputError, StoreError, suggest
from trivium.labels.queue import LabelQueues
from trivium.reports.html.shell import asset as report_asset
from trivium.reports.html.shell import environment
from trivium.reports.wording import moment, run_name
from trivium.safe_text import one_line
from trivium.store.labels import LabelQueue
from trivium.store.live_alerts import monitors_of
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.web.errors import Refused
from trivium.web.paths import quoted_path
from trivium.web.services import Services
from trivium.web.sessions import (
    SESSION,
    VISITOR,
    cookie_in,
    cookie_name,
    form_digest,
    form_digest_in,
    local_address,
    over_tls,
)

if TYPE_CHECKING:
    import jinja2

__all__ = [
    "ASSETS_PATH",
    "Crumb",
    "Form",
    "Site",
    "asset_url",
    "case_address",
    "here",
    "monitor_called",
    "monitor_names",
    "query",
    "queue_called",
    "redirected",
    "run_of",
    "segment",
    "table_export",
    "way_back",
]

ASSETS_PATH: Final = "/assets/"

PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of a page: nothing from elsewhere, nothing inline, in no frame."""

_FOLDER = Path(__file__).parent
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}

NAVIGATION: Final = (
    ("runs", "Runs", "/runs"),
    ("labels", "Labels", "/labels"),
    ("monitors", "Production", "/monitors"),
    ("search", "Search", "/search"),
)
"""Sections of the site: key, words, address."""

_INTERFACES: Final = ("/api/", "/v1/", "/metrics", "/healthz", "/readyz", ASSETS_PATH)
_PROBLEMS: Final = {
    401: "Log in again",
    403: "Not allowed",
    404: "Not found",
    429: "Too many requests",
    500: "The server has failed",
    503: "Not now",
}

_ORIGINS: Final = tuple(
    (re.compile(pattern), section, words)
    for pattern, section, words in (
        ("/runs/([^/]+)", "runs", "{}"),
        ("/compare/([^/]+)/([^/]+)", "runs", "{} and {}"),
        ("/monitors/([^/]+)", "monitors", "{}"),
        ("/alerts/([0-9]+)", "monitors", "Alert {}"),
        ("/traces/([^/]+)", "monitors", "Trace {}"),
        ("/labels/([^/]+)/people", "labels", "{}: how far people agree"),
        ("/search", "search", "Search"),
    )
)
"""Pages from which a case is opened: path, section and what a link back to them says."""

LONGEST_BACK: Final = 2_000
"""Characters of an address that a link may name as the way back."""

Crumb = tuple[str, str]
"""A link above the title of a page: its words and its address."""

Form = FromQuery[Literal["html", "csv", "json"]]
"""Form in which a table is returned: a page, or a file."""


class Asset(msgspec.Struct, frozen=True, kw_only=True):
    """A file that pages load.

    Attributes:
        body: Its bytes.
        packed: Its bytes, compressed with gzip.
        media_type: Its type.
        digest: Of its bytes; part of its address, so that browsers may keep it for ever.
    """

    body: bytes
    packed: bytes
    media_type: str
    digest: str


@cache
def assets() -> Mapping[str, Asset]:
    """The files that pages load, by name."""
    files = {path.name: path.read_bytes() for path in (_FOLDER / "assets").iterdir() if path.suffix in _TYPES}
    files["style.css"] = report_asset("style.css").encode() + files.pop("site.css")
    return {
        name: Asset(
            body=body,
            packed=gzip.compress(body, mtime=0),
            media_type=_TYPES[Path(name).suffix],
            digest=hashlib.sha256(body).hexdigest()[:12],
        )
        for name, body in files.items()
    }


def asset_url(name: str) -> str:
    """Address of a file that pages load."""
    return f"{ASSETS_PATH}{assets()[name].digest}/{name}"


class Site:
    """Draws pages.

    Args:
        services: What works behind the server.
    """

    def __init__(self, services: Services) -> None:
        self.services = services
        self.store = services.store
        self.clock = services.clock

    @cached_property
    def templates(self) -> "jinja2.Environment":
        """The reports' templates, and those of the pages."""
        import jinja2

        reports = environment()
        templates = reports.overlay(
            loader=jinja2.ChoiceLoader(
                [jinja2.FileSystemLoader(_FOLDER / "templates"), reports.loader or jinja2.DictLoader({})]
            )
        )
        templates.filters = {
            **reports.filters,
            "moment": moment,
            "segment": segment,
            "run_name": run_name,
            "called": called,
        }
        templates.globals = {
            **reports.globals,
            "asset": asset_url,
            "query": query,
            "case_address": case_address,
        }
        return templates

    def page(
        self,
        request: Request[Any, Any, Any],
        template: str,
        *,
        title: str,
        section: str = "",
        status_code: int = 200,
        forms: bool = False,
        **context: Any,
    ) -> Response[str]:
        """Answer with a page.

        Args:
            request: The request.
            template: Name of a template that extends ``layout.html``. Where HTMX asked for a part of it,
                only its block ``partial`` is drawn (``partial`` is the id of the wanted element, or empty).
            title: Title of the page, the most special first.
            section: Key of its section in the navigation.
            status_code: Status of the answer.
            forms: Whether the page has forms that change something; each holds the value ``form``.
            context: Values for the template.
        """
        partial = request.headers.get("HX-Target", "") if request.headers.get("HX-Request") else ""
        digest, visitor = form_digest_in(request.scope), ""
        if forms and not digest:
            visitor = secrets.token_urlsafe(24)
            digest = form_digest(visitor)
        arguments = list(request.query_params.multi_items())
        body = self.templates.get_template(template).render(
            context,
            title=title,
            section=section,
            navigation=NAVIGATION,
            partial=partial,
            path=request.scope["path"],
            arguments=arguments,
            this_page=here(request),
            form=digest,
            logged_in=bool(cookie_in(request.scope, SESSION))
            and request.scope["state"].get("token") is not None,
        )
        headers = {
            "Content-Security-Policy": PAGE_POLICY,
            "Referrer-Policy": "same-origin",  # with no-referrer, browsers send forms with the Origin "null"
            "Vary": "HX-Request, HX-Target",
        }
        answer = Response(body, status_code=status_code, media_type=MediaType.HTML, headers=headers)
        if visitor:
            set_cookie(answer, request, VISITOR, visitor)
        return answer

    @staticmethod
    def is_page(request: Request[Any, Any, Any]) -> bool:
        """Whether a request is answered with a page, also if it fails."""
        is_interface = request.scope["path"].startswith(_INTERFACES)
        wanted = "text/html" in request.headers.get("Accept", "") or "HX-Request" in request.headers
        return not is_interface and wanted

    def problem(self, request: Request[Any, Any, Any], refusal: Refused, *, login: str = "") -> Response[str]:
        """Answer with a page that says why there is no other.

        Args:
            request: The request.
            refusal: What is wrong.
            login: Address of the login, if one helps.
        """
        title = _PROBLEMS.get(refusal.status, "This request cannot be answered")
        message = "There is no such page." if refusal.message == "Not Found" else refusal.message
        back = "" if login or request.method == "GET" else quoted_path(request.scope)
        answer = self.page(
            request,
            "problem.html",
            title=title,
            status_code=refusal.status,
            message=message,
            login=login,
            back=back,
            typed=refusal.typed,
        )
        answer.headers |= refusal.headers
        return answer

    def routes(self) -> list[Any]:
        """The route of the files that pages load."""

        @get(ASSETS_PATH + "{digest:str}/{name:str}", include_in_schema=False, sync_to_thread=False)
        def asset_file(
            digest: Annotated[str, PathParameter()],
            name: Annotated[str, PathParameter()],
            request: Request[Any, Any, Any],
        ) -> Response[bytes]:
            found = assets().get(name)
            if found is None or found.digest != digest:
                raise Refused(404, "there is no such file")
            headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
            packed = "gzip" in request.headers.get("Accept-Encoding", "")
            if packed:
                headers["Content-Encoding"] = "gzip"
            return Response(
                found.packed if packed else found.body,
                media_type=f"{found.media_type}; charset=utf-8",
                headers=headers,
            )

        return [asset_file]


def called(run: RunRecord) -> str:
    """What a page calls a run."""
    return run_name(run.suite_name, run.names)


def run_of(store: Store, run: str) -> RunRecord:
    """The run with an id or the beginning of one.

    Raises:
        Refused: If there is none, or several.
    """
    try:
        return store.run(run[:100])
    except StoreError as error:
        if "no run is called" in str(error) or "several runs" in str(error) or "no run yet" in str(error):
            raise Refused(404, str(error).partition(": ")[2]) from None
        raise


def monitor_names(services: Services) -> list[str]:
    """Names of the monitors of a server and its store, sorted."""
    return sorted({*services.monitors, *monitors_of(services.store)})


def monitor_called(services: Services, name: str) -> str:
    """A monitor's name; refused with 404 if none is called so."""
    names = monitor_names(services)
    if name not in names:
        raise Refused(404, f'no monitor is called "{name[:100]}".{suggest(name[:100], names)}')
    return name


def queue_called(queues: LabelQueues, queue: str) -> LabelQueue:
    """The queue with an id; refused with 404 if there is none."""
    try:
        return queues.get(queue[:100])
    except InputError as error:
        raise Refused(404, str(error)) from None


def here(request: Request[Any, Any, Any]) -> str:
    """Address of a page with its query, as the way back to it; empty if it is too long."""
    arguments = request.query_params.multi_items()
    address = quoted_path(request.scope) + (query(arguments) if arguments else "")
    return address if len(address) <= LONGEST_BACK else ""


def redirected(request: Request[Any, Any, Any], address: str) -> Redirect:
    """Send a browser to an address with the query that it has now."""
    return Redirect(f"{address}?{request.url.query}" if request.url.query else address)


def set_cookie(answer: Response[Any], request: Request[Any, Any, Any], name: str, value: str) -> None:
    """Set a cookie that scripts cannot read and other sites cannot send; an empty value deletes it."""
    answer.set_cookie(
        key=cookie_name(request.scope, name),
        value=value,
        path="/",
        httponly=True,
        samesite="strict",
        secure=over_tls(request.scope),
        max_age=None if value else 0,
    )


def segment(text: str) -> str:
    """A text as one segment of an address."""
    return quote(text, safe="")


def case_address(run: str, case: str, repeat: int = 0, *, part: str = "case", **further: object) -> str:
    """Address of the page of a case, or of its ``trace``; the case's id may hold any character."""
    place = [("id", case), *([("repeat", str(repeat))] if repeat else [])]
    return f"/runs/{segment(run)}/{part}" + query(place, **further)


def way_back(back: str, otherwise: Sequence[Crumb]) -> list[Crumb]:
    """The links above a page that was opened from another one of this server.

    Args:
        back: Address of that page, as a link stated it; anybody can write such a link.
        otherwise: Where the page belongs; used if the address is not one that is known here.
    """
    path, mark, arguments = back.partition("?")
    if len(back) > LONGEST_BACK or local_address(back) != back:
        return list(otherwise)
    for pattern, section, words in _ORIGINS:
        if found := pattern.fullmatch(path):
            name = words.format(*(one_line(unquote(part), at_most=60) for part in found.groups()))
            above = [(title, address) for key, title, address in NAVIGATION if key == section]
            here = path + mark + quote(arguments, safe="=&%+,:-._~")
            return [*above, (name, here)] if above[0][1] != path else [(name, here)]
    return list(otherwise)


def query(arguments: Iterable[tuple[str, str]], **changed: object) -> str:
    """A query string with some arguments changed; None or an empty text leaves one out.

    Args:
        arguments: Names and values of the present query.
        changed: New values by name.
    """
    kept = [(name, value) for name, value in arguments if name not in changed and value != ""]
    new = [(name, str(value)) for name, value in changed.items() if value not in {None, ""}]
    return "?" + urlencode(kept + new)


def table_export(rows: Iterable[Any], columns: Sequence[str], *, file: str, form: str) -> Stream:
    """Answer with a table as CSV or JSON lines, row by row.

    Args:
        rows: Records or mappings.
        columns: Names of the attributes or keys that are written.
        file: Name of the file, without its ending.
        form: csv or json.
    """
    media = {"csv": "text/csv", "json": "application/x-ndjson"}[form]
    ending = {"csv": "csv", "json": "jsonl"}[form]
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{segment(file)}.{ending}"}
    lines = _csv(rows, columns) if form == "csv" else _json_lines(rows, columns)
    return Stream(lines, media_type=media, headers=headers)


def _values(row: Any, columns: Sequence[str]) -> list[Any]:
    if isinstance(row, Mapping):
        return [row.get(name) for name in columns]
    return [getattr(row, name) for name in columns]


def _json_lines(rows: Iterable[Any], columns: Sequence[str]) -> Iterator[bytes]:
    for row in rows:
        yield msgspec.json.encode(dict(zip(columns, _values(row, columns), strict=True))) + b"\n"


def _csv(rows: Iterable[Any], columns: Sequence[str]) -> Iterator[bytes]:
    from trivium.store.export.tables import csv_lines, escape_formula

    values = (_values(row, columns) for row in rows)
    cells = ([escape_formula(each) if isinstance(each, str) else each for each in row] for row in values)
    return csv_lines(columns, cells)
