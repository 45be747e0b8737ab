"""Moved cases on the HTML page of a comparison, in folded pages of fifty."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from urllib.parse import quote, urlsplit

from trivium.errors import InputError
from trivium.reports.escape import one_line
from trivium.reports.html.page import environment
from trivium.reports.moved_cases.shown import (
    ShownCase,
    ShownText,
    call_text,
    shown_case,
    values_text,
    verdicts_text,
)
from trivium.runs.comparing.moved_cases import MovedCase, MovedCases

CASES_AT_FIRST = 10
"""Cases in the open, so that the figures are not far below."""
CASES_AT_ONCE = 50
"""Cases on each folded page after them."""
OPEN_CASES = 1
"""Cases that are unfolded at first."""
TEXT_CHARS = 6_000
"""Largest number of characters of a text; the page of a run has more."""
CALLS_SHOWN = 100


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


def cases_html(moved: MovedCases, links: Mapping[str, str]) -> Iterator[bytes]:
    """Yield the cases as HTML, one after another, in folded pages.

    Args:
        moved: The cases.
        links: Pages of ``base`` and ``head``, if there are any.
    """
    from trivium.reports.view import anchor

    def pages_of(case: ShownCase) -> dict[str, str]:
        at = anchor(*case.attempt)
        return {name: f"{links[name]}#{at}" if name in links else "" for name in ("base", "head")}

    cases, total = iter(moved), len(moved)
    for start in (0, *range(CASES_AT_FIRST, total, CASES_AT_ONCE)) if total else ():
        end = min(start + CASES_AT_ONCE if start else CASES_AT_FIRST, total)
        if start:
            title = f"Cases {start + 1:,} to {end:,} of {total:,}"
            yield f'<details class="cases"><summary>{title}</summary>'.encode()
        yield b'<div class="list">'
        yield from list_html(islice(cases, end - start), pages_of, open_cases=0 if start else OPEN_CASES)
        yield b"</div></details>" if start else b"</div>"


def list_html(
    cases: Iterable[MovedCase], pages_of: Callable[[ShownCase], Mapping[str, str]], *, open_cases: int = 0
) -> Iterator[bytes]:
    """Yield cases as HTML.

    Args:
        cases: The cases.
        pages_of: Gives the addresses of an attempt on the pages of ``base`` and ``head``; empty for none.
        open_cases: Cases that are unfolded at first.
    """
    from trivium.reports.view import anchor

    templates = environment().overlay()
    templates.filters = templates.filters | {"call_text": call_text}
    template = templates.get_template("moved_case.html")
    for place, each in enumerate(cases):
        case = shown_case(each, chars=TEXT_CHARS, calls=CALLS_SHOWN)
        change = _change(case)
        others = (case.why, verdicts_text(case), values_text(case), case.repeats)
        yield template.render(
            case=case,
            anchor=anchor(*case.attempt),
            open=place < open_cases,
            pages=pages_of(case),
            gist=_gist(case.input),
            change=change,
            facts=" · ".join(fact for fact in others if fact and fact != change),
        ).encode()


def _change(case: ShownCase) -> str:
    """The verdicts if they differ, else the values."""
    before, after = case.verdicts
    return verdicts_text(case) if before != after else values_text(case) or before


def _gist(text: ShownText) -> str:
    return one_line("".join("…" if piece is None else piece.text for piece in text.pieces), at_most=140)
