"""What all HTML pages share: style, templates, policy, and the page around a report's blocks."""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from markupsafe import Markup

from trivium.errors import InputError, MissingExtra
from trivium.reports.document.blocks import VERDICTS, Block, Lines
from trivium.reports.document.html import Html, cell, html
from trivium.reports.drawings.interval import range_svg
from trivium.safe_text import one_line, visible
from trivium.storage import replaced_when_complete

if TYPE_CHECKING:
    import jinja2

_TEMPLATES = Path(__file__).parent / "templates"


@cache
def asset(name: str) -> str:
    """The text of a file in the templates folder."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def policy(style: str, script: str | None = None) -> str:
    """A Content-Security-Policy that allows only this style and this script."""
    scripts = "'none'" if script is None else f"'{_hash(script)}'"
    return (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src {scripts}; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def environment() -> "jinja2.Environment":
    """A Jinja environment that escapes everything, with the reports' wording as filters.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtra("report", "The HTML report") from error
    from trivium.reports import wording

    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    templates.filters |= {
        "number": wording.number,
        "interval": wording.interval,
        "share": wording.share,
        "words": wording.words,
        "bar": bar,
        "breakable": breakable,
        "drawn": drawn,
        "pill": lambda verdict: cell(Lines((VERDICTS[verdict],))),
    }
    return templates


_WORD_ENDS = re.compile(r"(?<=[_./:-])(?=\w)")


def breakable(name: str) -> Markup:
    """A name that a line may break after ``_ . / : -`` and not in the middle of a word."""
    return Markup("<wbr>").join(_WORD_ENDS.split(visible(name)))


def bar(value: float | None) -> Markup:
    """A value, drawn on [0, 1]; nothing for one that is missing."""
    known = value is not None and isfinite(value)
    return Markup(range_svg(value, None) if known else "")  # noqa: S704 - made of numbers


def drawn(blocks: Block | Iterable[Block] | None, inside: int = 0) -> "Markup":
    """Blocks, inside so many sections, as HTML; nothing for None."""
    return html(blocks if isinstance(blocks, Iterable) else [blocks] if blocks else [], inside=inside)


def write_atomically(target: Path, parts: Iterable[bytes]) -> None:
    """Write a file, which takes the place of an earlier one once it is complete."""
    with replaced_when_complete(target) as unfinished, unfinished.open("wb") as file:
        file.writelines(parts)


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _printable(value: Any) -> Any:
    """Make control characters in untrusted text visible before a template prints it."""
    return visible(value) if type(value) is str else value


def page(
    blocks: Iterable[Block],
    *,
    brand: str,
    heading: str,
    answer: str = "",
    meta: Iterable[str] = (),
    links: Mapping[str, str] | None = None,
) -> Iterator[bytes]:
    """Yield a self-contained page piece by piece, so that memory does not grow with its blocks.

    Args:
        blocks: What it says, below its heading.
        brand: What kind of page it is.
        heading: Its heading.
        answer: The answer, for the title of the window.
        meta: Facts under the heading.
        links: Addresses of other pages, made by us or checked, by their words.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
    """
    from markupsafe import Markup

    title = f"{heading}: {answer}" if answer else heading
    whole = document(
        brand=brand,
        heading=heading,
        title=title,
        meta=meta,
        links=links or {},
        blocks=Markup(_BLOCKS_MARK),  # noqa: S704 - our own
    )
    before, after = whole.split(_BLOCKS_MARK)
    yield before.encode()
    for part in Html().write(blocks):
        yield part.encode()
    yield after.encode()


_BLOCKS_MARK = "<!-- blocks -->"


def document(template: str = "document.html", *, script: str | None = None, **values: Any) -> str:
    """A self-contained page from a template.

    Args:
        template: ``document.html``, or a template that extends it.
        script: The only script that may run.
        values: Values for the template.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
    """
    from markupsafe import Markup

    from trivium._version import __version__

    style = asset("style.css")
    return (
        environment()
        .get_template(template)
        .render(
            values,
            style=Markup(style),  # noqa: S704 - our own file
            script=Markup(script or ""),  # noqa: S704 - our own files
            policy=policy(style, script),
            version=__version__,
        )
    )


def checked_link(link: str) -> str:
    """An address that is safe in a page: a relative path, http or https.

    Raises:
        InputError: If it is anything else.
    """
    try:
        parts = urlsplit(link)
    except ValueError as error:
        raise InputError(repr(one_line(link)), f"is no address: {error}") from error
    if parts.scheme not in {"", "http", "https"} or (parts.netloc and not parts.scheme):
        raise InputError(repr(one_line(link)), "is no link: expected a relative path, http: or https:")
    return quote(link, safe="/:?#[]@!$&'()*+,;=%~")
