"""Writes the report of a run as one HTML page."""

import os
import tempfile
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from markupsafe import Markup

from trivium.errors import InputError
from trivium.reports import wording
from trivium.reports.document.blocks import Section
from trivium.reports.document.html import html
from trivium.reports.html import overview
from trivium.reports.html.case import case_context, index_entry
from trivium.reports.html.overview import Distributions
from trivium.reports.html.packing import Packer, copied
from trivium.reports.html.process import RunTimes
from trivium.reports.html.shell import asset, document, environment, write_atomically
from trivium.reports.view import EvaluationView
from trivium.runs.disagreements import Disagreements
from trivium.runs.slices import Slices
from trivium.runs.summary import Summary
from trivium.store.records import Provenance


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
        evaluations: Its attempts, the worst first.
        cases_shown: Largest number of attempts with judgements and drawings of their traces: the worst ones.
        provenance: Origin of the run: nested names and values.
        disagreements: Disagreements of its judges; attempts with one have their judgements in any case.
        group: The case field that defines the cluster, as in the suite's settings.
        slices: Its figures by the values of some keys.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
        InputError: If the file cannot be written.
    """
    template = environment().get_template("case.html")  # fails early if the extra is missing
    distributions, times = Distributions(), RunTimes(group)
    always_full = {(each.case, each.repeat) for each in disagreements.found} if disagreements else set()
    with tempfile.TemporaryFile() as parts:
        packer, in_the_open = Packer(parts), list[str]()
        for number, view in enumerate(evaluations):
            distributions.add(view.scores, view.composite.value if view.composite_shown else None)
            times.add(view)
            full = number < cases_shown or (view.case.id, view.attempt.repeat) in always_full
            shown = template.render(case_context(view, number=number, full=full))
            is_open = full and len(in_the_open) < IN_THE_OPEN
            packer.add(index_entry(view), "" if is_open else shown)
            in_the_open += [shown] if is_open else []
        packer.flush()
        figures = overview.sections(
            summary,
            provenance,
            drawn=distributions.by_name,
            slices=slices,
            disagreements=disagreements,
            times=times.section(summary.metadata.get("level", 0.95)),
        )
        page = _render_page(summary, tuple(figures), in_the_open, packer.total)
        before, after = page.split(_PARTS_MARK)
        try:
            write_atomically(Path(path), chain([before.encode()], copied(parts), [after.encode()]))
        except OSError as error:
            raise InputError(str(path), f"cannot be written: {error.strerror or error}") from error


IN_THE_OPEN = 25
"""Number of attempts that a browser shows before it runs a script: the worst ones."""

_PARTS_MARK = "<!-- parts -->"


def _render_page(summary: Summary, figures: Sequence[Section], in_the_open: Sequence[str], total: int) -> str:
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
        attempts=[Markup(each) for each in in_the_open],  # noqa: S704 - escaped
        total=total,
        composite_shown=summary.shown_composite is not None,
        parts_mark=Markup(_PARTS_MARK),  # noqa: S704 - our own
    )
