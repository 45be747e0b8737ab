"""Writes the report of a run as one HTML page."""

import os
import re
import tempfile
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from trivium.errors import InputError
from trivium.reports import wording
from trivium.reports.document.blocks import Section
from trivium.reports.document.html import html
from trivium.reports.html import overview
from trivium.reports.html.overview import Distributions
from trivium.reports.html.packing import Index, Packer, copied
from trivium.reports.html.process import RunTimes
from trivium.reports.html.shell import asset, document, environment, write_atomically
from trivium.reports.view import EvaluationView, worst_first
from trivium.runs.disagreements import Disagreements
from trivium.runs.slices import Slices
from trivium.runs.summary import Summary
from trivium.store.records import Provenance

if TYPE_CHECKING:
    import jinja2


def write_html(
    path: str | os.PathLike[str],
    summary: Summary,
    evaluations: Iterable[EvaluationView],
    *,
    cases_shown: int = 500,
    provenance: Provenance | None = None,
    disagreements: Disagreements | None = None,
    group: str | None = None,
    slices: Sequence[Slices] = (),
) -> None:
    """Write the report of a run.

    The page holds every attempt with its texts and scores, most of them compressed, and its controls find and
    order all of them. Attempts are read one at a time, so memory does not grow with the run.

    Args:
        path: The file; an existing file is replaced only when the new one is complete.
        summary: The summary of the run.
        evaluations: Its attempts, in any order.
        cases_shown: Largest number of attempts with judgements and drawings of their traces: the worst ones.
        provenance: Origin of the run: nested names and values.
        disagreements: Disagreements of its judges; attempts with one have their judgements in any case.
        group: The case field that defines the cluster, as in the suite's settings.
        slices: Its figures by the values of some keys.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
        InputError: If the file cannot be written.
    """
    templates = environment()  # fails early if the extra is missing
    target = Path(path)
    distributions, times = Distributions(), RunTimes(group)
    with tempfile.TemporaryFile() as rendered, tempfile.TemporaryFile() as parts:
        always_full = {(each.case, each.repeat) for each in disagreements.found} if disagreements else set()
        passing = _counted(evaluations, distributions, times)
        places, total = _spool(passing, rendered, parts, templates, cases_shown, always_full=always_full)
        packer = Packer(parts)
        for place in places[IN_THE_OPEN:]:
            packer.add(place.number, _read(rendered, place).decode())
        packer.flush()
        figures = overview.sections(
            summary,
            provenance,
            drawn=distributions.by_name,
            slices=slices,
            disagreements=disagreements,
            times=times.section(summary.metadata.get("level", 0.95)),
        )
        counts = {"total": total, "in_the_open": min(IN_THE_OPEN, len(places))}
        page = _render_page(summary, tuple(figures), counts)
        before, between, after = re.split(f"{_ATTEMPTS_MARK}|{_PARTS_MARK}", page)
        in_the_open = (_read(rendered, place) for place in places[:IN_THE_OPEN])
        try:
            write_atomically(
                target,
                chain([before.encode()], in_the_open, [between.encode()], copied(parts), [after.encode()]),
            )
        except OSError as error:
            raise InputError(str(target), f"cannot be written: {error.strerror or error}") from error


IN_THE_OPEN = 25
"""Number of attempts that a browser shows before it runs a script: the worst ones."""

_ATTEMPTS_MARK, _PARTS_MARK = "<!-- attempts -->", "<!-- parts -->"


class _Place(NamedTuple):
    """Number of an attempt, and where its HTML is in the spool: in full, and right after it in brief."""

    number: int
    start: int
    length: int
    brief_length: int


def _read(spool: IO[bytes], place: _Place) -> bytes:
    spool.seek(place.start)
    return spool.read(place.length)


def _counted(
    evaluations: Iterable[EvaluationView], distributions: Distributions, times: RunTimes
) -> Iterator[EvaluationView]:
    """Pass the attempts on after counting each."""
    for view in evaluations:
        distributions.add(view.scores, view.composite.value if view.composite_shown else None)
        times.add(view)
        yield view


def _spool(
    evaluations: Iterable[EvaluationView],
    rendered: IO[bytes],
    parts: IO[bytes],
    templates: "jinja2.Environment",
    at_most: int,
    *,
    always_full: Set[tuple[str, int]],
) -> tuple[list[_Place], int]:
    """Write every attempt in brief to the parts, and the worst attempts in full to the spool.

    Returns:
        Where each full attempt is, worst first, and the number of all attempts.
    """
    from trivium.reports.html.case import case_context, index_entry

    template = templates.get_template("case.html")
    index, brief = Index(parts), Packer(parts)
    worst: list[tuple[Any, _Place]] = []  # in order, the least bad one last
    requested: list[tuple[Any, _Place]] = []
    for view in evaluations:
        number, key = index.add(index_entry(view)), worst_first(view)
        is_requested = (view.case.id, view.attempt.repeat) in always_full
        in_brief = template.render(case_context(view, number=number, full=False))
        if not is_requested and len(worst) >= at_most and (not worst or worst[-1][0] <= key):
            brief.add(number, in_brief)
            continue
        html = template.render(case_context(view, number=number)).encode()
        entry = (key, _Place(number, rendered.seek(0, os.SEEK_END), len(html), len(in_brief.encode())))
        rendered.write(html + in_brief.encode())
        if is_requested:
            requested.append(entry)
            continue
        insort(worst, entry)
        if len(worst) > at_most:
            _, left = worst.pop()
            rendered.seek(left.start + left.length)
            brief.add(left.number, rendered.read(left.brief_length).decode())
    index.flush()
    brief.flush()
    return [place for _, place in sorted(worst + requested)], index.total


def _render_page(summary: Summary, figures: Sequence[Section], attempts: Mapping[str, int]) -> str:
    from markupsafe import Markup

    links = {"Cases": "#attempts"}
    links |= {each.title[:1].upper() + each.title[1:]: f"#{each.key}" for each in figures}
    return document(
        "page.html",
        script=asset("cases.js") + asset("print.js"),
        brand="Trivium report",
        heading=summary.suite,
        title=summary.suite,
        meta=[summary.run, wording.headline(summary)],
        links=links,
        answer=html(overview.answer(summary)),
        figures=html(figures),
        counts=attempts,
        composite_shown=summary.shown_composite is not None,
        attempts=Markup(_ATTEMPTS_MARK),  # noqa: S704 - our own
        parts_mark=Markup(_PARTS_MARK),  # noqa: S704 - our own
    )
