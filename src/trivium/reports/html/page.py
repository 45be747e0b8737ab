"""Run report page."""

import base64
import hashlib
import heapq
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cache
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from trivium.errors import InputError, MissingExtra
from trivium.reports import charts
from trivium.reports.escape import visible
from trivium.reports.html.overview import Distributions
from trivium.reports.html.process import RunTimes
from trivium.reports.view import EvaluationView, worst_first
from trivium.runs.disagreements import Disagreements
from trivium.runs.summary import Summary

if TYPE_CHECKING:
    import jinja2


def write_html(
    path: str | os.PathLike[str],
    summary: Summary,
    evaluations: Iterable[EvaluationView],
    *,
    cases_shown: int = 500,
    provenance: Mapping[str, Any] | None = None,
    disagreements: Disagreements | None = None,
    group: str | None = None,
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
        disagreements: Where its judges disagree; those attempts are shown whatever their place.
        group: The case field that names the cluster, as in the suite's settings.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
        InputError: If the file cannot be written.
    """
    charts.load_altair()  # what is missing is said before the work, not after it
    templates = environment()
    target = Path(path)
    distributions, times = Distributions(), RunTimes(group)
    with tempfile.TemporaryFile() as spool:
        wanted = {(each.case, each.repeat) for each in disagreements.found} if disagreements else set()
        passing = _gathered(evaluations, distributions, times)
        places, total = _spool_worst(passing, spool, templates, cases_shown, wanted=wanted)
        went = times.context(summary.metadata.get("level", 0.95))
        page = _around(
            templates, summary, distributions, provenance or {}, len(places), total, disagreements, went
        )
        before, after = page.split(_HERE)
        try:
            write_whole(target, chain([before.encode()], _parts(spool, places), [after.encode()]))
        except OSError as error:
            raise InputError(str(target), f"cannot be written: {error.strerror or error}") from error


_HERE = "<!-- attempts -->"


def _parts(spool: IO[bytes], places: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    for start, length in places:
        spool.seek(start)
        yield spool.read(length)


def _gathered(
    evaluations: Iterable[EvaluationView], distributions: Distributions, times: RunTimes
) -> Iterator[EvaluationView]:
    """The attempts as they pass by, each counted."""
    for view in evaluations:
        distributions.add(view.scores, view.composite.value)
        times.add(view)
        yield view


def _spool_worst(
    evaluations: Iterable[EvaluationView],
    spool: IO[bytes],
    templates: "jinja2.Environment",
    at_most: int,
    *,
    wanted: Set[tuple[str, int]],
) -> tuple[list[tuple[int, int]], int]:
    """Write the worst attempts to the spool; where they stand in it, worst first, and how many passed by."""
    from trivium.reports.html.case import case_context

    template = templates.get_template("case.html")
    total = 0
    # The least bad of those kept is on top, which is what the next one has to beat.
    kept: list[tuple[_Reversed, int, int]] = []
    kept_anyway: list[tuple[_Reversed, int, int]] = []
    for view in evaluations:
        total += 1
        key = _Reversed(worst_first(view))
        anyway = (view.case.id, view.attempt.repeat) in wanted
        if not anyway and len(kept) >= at_most and (not kept or not kept[0][0] < key):
            continue
        start = spool.seek(0, os.SEEK_END)
        length = spool.write(template.render(case_context(view)).encode())
        entry = (key, start, length)
        if anyway:
            kept_anyway.append(entry)
        elif len(kept) < at_most:
            heapq.heappush(kept, entry)
        else:
            heapq.heapreplace(kept, entry)
    return [(start, length) for _, start, length in sorted(kept + kept_anyway, reverse=True)], total


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
    templates: "jinja2.Environment",
    summary: Summary,
    distributions: Distributions,
    provenance: Mapping[str, Any],
    shown: int,
    total: int,
    disagreements: Disagreements | None,
    went: dict[str, Any] | None,
) -> str:
    from markupsafe import Markup

    from trivium import __version__
    from trivium.reports.disagreements import section_context
    from trivium.reports.html.overview import overview_context

    style, script = asset("style.css"), asset("cases.js")
    return templates.get_template("page.html").render(
        overview_context(summary, distributions.by_name, provenance, shown=shown, total=total),
        disagreements=None if disagreements is None else section_context(disagreements),
        went=went,
        style=Markup(style),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        policy=policy(style, script),
        here=Markup(_HERE),  # noqa: S704 - ours too
        version=__version__,
    )


_TEMPLATES = Path(__file__).parent / "templates"


@cache
def asset(name: str) -> str:
    """A file that stands beside the templates."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def policy(style: str, script: str | None = None) -> str:
    """A Content-Security-Policy under which a page runs this style and this script and nothing else."""
    scripts = "'none'" if script is None else f"'{_hash(script)}'"
    return (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src {scripts}; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def environment() -> "jinja2.Environment":
    """Jinja, escaping everything, with the words of the reports as filters.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtra("report", "The HTML report") from error
    from trivium.reports import wording

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters |= {
        "number": wording.number,
        "interval": wording.interval,
        "share": wording.share,
        "words": wording.words,
    }
    return made


def write_whole(target: Path, parts: Iterable[bytes]) -> None:
    """Write beside the target and put it in place when it is complete.

    A link stays one; a device or a pipe, which nothing may take the place of, is written to as it is.
    """
    target = Path(os.path.realpath(target))
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            file.writelines(parts)
        return
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            file.writelines(parts)
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _shown(value: Any) -> Any:
    """What a template prints: texts of strangers with nothing in them that is obeyed rather than read."""
    return visible(value) if type(value) is str else value
