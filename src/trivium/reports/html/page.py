"""Writes a run as one HTML file that works offline, from a mail attachment, with a strict policy."""

import base64
import hashlib
import heapq
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from trivium.errors import InputError, MissingExtra
from trivium.reports import charts
from trivium.reports.html.distribution import Distributions
from trivium.reports.untrusted import visible
from trivium.reports.view import EvaluationView
from trivium.reports.worst_first import worst_first
from trivium.runs.summary import Summary

if TYPE_CHECKING:
    import jinja2

_TEMPLATES = Path(__file__).parent / "templates"


def write_html(
    path: str | os.PathLike[str],
    summary: Summary,
    evaluations: Iterable[EvaluationView],
    *,
    cases_shown: int = 500,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write the report of a run.

    Distributions are of all attempts. Of the attempts themselves the worst ``cases_shown`` are
    shown, and the page says of how many. Attempts pass by one at a time: memory does not grow with
    the run.

    Args:
        path: The file; it is replaced only when the new one is complete.
        summary: What the run says.
        evaluations: Its attempts, in any order.
        cases_shown: Most attempts to show.
        provenance: How the run came to be, any nested names and values.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
        InputError: If the file cannot be written.
    """
    charts.load_altair()  # what is missing is said before the work, not after it
    environment = _environment()
    target = Path(path)
    distributions = Distributions()
    with tempfile.TemporaryFile() as spool:
        places, total = _spool_worst(evaluations, spool, environment, cases_shown, distributions)
        page = _around(environment, summary, distributions, provenance or {}, len(places), total)
        before, after = page.split(_HERE)
        try:
            _write_whole(target, before, _parts(spool, places), after)
        except OSError as error:
            raise InputError(str(target), f"cannot be written: {error.strerror or error}") from error


_HERE = "<!-- attempts -->"


def _write_whole(target: Path, before: str, parts: Iterable[bytes], after: str) -> None:
    """Write beside the target and put it in place when it is complete."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            file.write(before.encode())
            file.writelines(parts)
            file.write(after.encode())
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _parts(spool: IO[bytes], places: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    for start, length in places:
        spool.seek(start)
        yield spool.read(length)


def _spool_worst(
    evaluations: Iterable[EvaluationView],
    spool: IO[bytes],
    environment: "jinja2.Environment",
    at_most: int,
    distributions: Distributions,
) -> tuple[list[tuple[int, int]], int]:
    """Write the worst attempts to the spool; where they stand in it, worst first, and how many passed by."""
    from trivium.reports.html.case import case_context

    template = environment.get_template("case.html")
    total = 0
    # The least bad of those kept is on top, which is what the next one has to beat.
    kept: list[tuple[_Reversed, int, int]] = []
    for view in evaluations:
        total += 1
        distributions.add(view.scores, view.composite.value)
        key = _Reversed(worst_first(view))
        if len(kept) >= at_most and (not kept or not kept[0][0] < key):
            continue
        start = spool.seek(0, os.SEEK_END)
        length = spool.write(template.render(case_context(view)).encode())
        entry = (key, start, length)
        if len(kept) < at_most:
            heapq.heappush(kept, entry)
        else:
            heapq.heapreplace(kept, entry)
    return [(start, length) for _, start, length in sorted(kept, reverse=True)], total


class _Reversed:
    """A key that sorts the other way round, since heapq keeps the smallest on top."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: "_Reversed") -> bool:
        return bool(other.key < self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.key == other.key)

    __hash__ = None  # type: ignore[assignment]


def _around(
    environment: "jinja2.Environment",
    summary: Summary,
    distributions: Distributions,
    provenance: Mapping[str, Any],
    shown: int,
    total: int,
) -> str:
    from markupsafe import Markup

    from trivium import __version__
    from trivium.reports.html.overview import overview_context

    style, script = _asset("style.css"), _asset("cases.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return environment.get_template("page.html").render(
        overview_context(summary, distributions.by_name, provenance, shown=shown, total=total),
        style=Markup(style),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        policy=policy,
        here=Markup(_HERE),  # noqa: S704 - ours too
        version=__version__,
    )


@cache
def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


@cache
def _environment() -> "jinja2.Environment":
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtra("report", "The HTML report") from error
    from trivium.reports import wording

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters |= {
        "number": wording.number,
        "interval": wording.interval,
        "share": wording.share,
        "words": wording.words,
    }
    return environment


def _shown(value: Any) -> Any:
    """What a template prints: texts of strangers with nothing in them that is obeyed rather than read."""
    return visible(value) if type(value) is str else value
