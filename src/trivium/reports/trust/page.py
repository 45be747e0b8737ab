"""Renders the answers of ``trivium trust`` as self-contained HTML pages that begin with the conclusion."""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trivium.reports.charts import load_altair
from trivium.reports.escape import one_line
from trivium.reports.html.shell import asset, environment, policy
from trivium.reports.trust.charts import MOST_VARIANTS, describe_curves, in_page_colours
from trivium.reports.trust.tables import (
    AgreementTable,
    CertificateText,
    CurveTable,
    may_decide_sentence,
)
from trivium.reports.wording import counted, judge_name
from trivium.runs.artifacts.curve import CurveArtifact
from trivium.runs.artifacts.judge import AgreementAnswer, CertificateAnswer
from trivium.runs.items.table import Origin

Shown = AgreementTable | CertificateText | CurveTable


class Blocks(msgspec.Struct, frozen=True, kw_only=True):
    """What a command prints, sorted by its place on the page.

    Attributes:
        conclusions: The answer, in sentences.
        notes: Sentences about the numbers.
        tables: (head, rows, caption) of each table; a head and a cell are (text, whether it is a number).
        reservations: Warnings.
        provenance: How it was computed.
    """

    conclusions: list[str] = []
    notes: list[str] = []
    tables: list[tuple[list[Any], list[Any], str]] = []
    reservations: list[str] = []
    provenance: list[str] = []


class TrustBody(msgspec.Struct, frozen=True, kw_only=True):
    """Values for ``trust_body.html``.

    Attributes:
        blocks: What the command prints.
        notes: Sentences about the numbers.
        conclusions: The answer, in sentences.
        pictures: Names and SVG of the curves.
        left_out: Number of curves that are not drawn.
    """

    blocks: Blocks
    notes: Sequence[str]
    conclusions: Sequence[str] = ()
    pictures: Sequence[tuple[str, Any]] = ()
    left_out: int = 0


def curve_page(artifact: CurveArtifact) -> str:
    """The page of risk–coverage curves; it loads nothing, runs no script, and escapes the texts of the items.

    Args:
        artifact: Result of ``curve_artifact`` with ``drawn=True``.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
    """
    counts = counted(artifact.population.items_total, "labelled item")
    return _page("Risk and coverage", curve_body(artifact), meta=[*_sources(artifact.inputs), counts])


def curve_body(artifact: CurveArtifact) -> TrustBody:
    """Values for ``trust_body.html``: the curves.

    Args:
        artifact: Result of ``curve_artifact`` with ``drawn=True``.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
    """
    load_altair()
    import vl_convert
    from markupsafe import Markup

    names = list(artifact.confidence_variants)
    pictures = []
    for name in names[:MOST_VARIANTS]:
        for specification in describe_curves(artifact, [name], apart=True):
            svg = in_page_colours(vl_convert.vegalite_to_svg(specification))
            pictures.append((name, Markup(svg)))  # noqa: S704 - Vega escapes the names
    left_out = max(0, len(names) - MOST_VARIANTS)
    return _body(CurveTable(artifact), pictures=pictures, left_out=left_out)


def agreement_page(answer: AgreementAnswer, certificate: CertificateAnswer | str | None) -> str:
    """The page of the agreement of a judge with people, and of what follows from it.

    Args:
        answer: Result of ``agreement_answer``.
        certificate: Result of ``certificate`` for the same items, or why there is none; None if the
            predictions are not a judge's.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
    """
    one, other = (one_line(side, at_most=60) for side in answer.sides)
    title = f"{one[:1].upper()}{one[1:]} against {other}"
    meta = [*_sources(answer.inputs), counted(answer.n, "labelled item")]
    return _page(title, agreement_body(answer, certificate), meta=meta)


def agreement_body(answer: AgreementAnswer, certificate: CertificateAnswer | str | None) -> TrustBody:
    """Values for ``trust_body.html``: the agreement, and from which confidence on a judge may decide.

    Args:
        answer: Result of ``agreement_answer``.
        certificate: Result of ``certificate`` for the same items, or why there is none, or None.
    """
    further = [] if certificate is None else [may_decide_sentence(certificate)]
    notes = []
    if isinstance(certificate, CertificateAnswer) and certificate.reason:
        notes = [f"Why no confidence is enough: {certificate.reason}."]
    return _body(AgreementTable(answer), further=further, notes=notes)


def certificate_page(answer: CertificateAnswer) -> str:
    """The page of a certificate: from which confidence on verdicts need no person.

    Args:
        answer: Result of ``certificate``.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
    """
    meta = [*_sources(answer.inputs), counted(answer.n, "labelled verdict")]
    return _page("Certificate", _body(CertificateText(answer)), meta=meta)


def _sources(inputs: Sequence[Origin]) -> list[str]:
    """Judge, dimension, and run or file of each input."""
    lines = []
    for source in inputs:
        where = f"run {source.run_id}" if source.run_id else PurePath(source.path).name
        parts = [source.judge and judge_name(source.judge), source.mode, where]
        lines.append(" · ".join(one_line(part, at_most=120) for part in parts if part))
    return lines


def _page(title: str, body: TrustBody, *, meta: Sequence[str]) -> str:
    from markupsafe import Markup

    from trivium._version import __version__

    style = asset("style.css")
    return (
        environment()
        .get_template("trust.html")
        .render(
            **msgspec.structs.asdict(body),
            policy=policy(style),
            style=Markup(style),  # noqa: S704 - our own file
            version=__version__,
            title=title,
            meta=meta,
        )
    )


def _body(
    shown: Shown,
    *,
    further: Sequence[str] = (),
    notes: Sequence[str] = (),
    pictures: Sequence[tuple[str, Any]] = (),
    left_out: int = 0,
) -> TrustBody:
    blocks = _blocks(shown)
    return TrustBody(
        blocks=blocks,
        notes=[*blocks.notes, *notes],
        conclusions=[*blocks.conclusions, *further],
        pictures=pictures,
        left_out=left_out,
    )


def _blocks(shown: Shown) -> Blocks:
    """Sort what is printed in a terminal by the place that it has on the page."""
    console, blocks = Console(force_jupyter=False, markup=False, emoji=False), Blocks()
    places = {
        "bold": blocks.conclusions,
        "yellow": blocks.reservations,
        "dim": blocks.provenance,
        "": blocks.notes,
    }
    for each in shown.__rich_console__(console, console.options):
        if isinstance(each, Table):
            blocks.tables.append(_table(each))
        elif isinstance(each, Text):
            lines = [line for line in each.plain.splitlines() if line.strip()]
            places[str(each.style)] += [re.sub(r"^! ", "", line) for line in lines]
    return blocks


def _table(table: Table) -> tuple[list[Any], list[Any], str]:
    numbers = [column.justify == "right" for column in table.columns]
    head = [(str(column.header), number) for column, number in zip(table.columns, numbers, strict=True)]
    rows = zip(*(column.cells for column in table.columns), strict=True)
    cells = [[(str(cell), number) for cell, number in zip(row, numbers, strict=True)] for row in rows]
    return head, cells, str(table.caption or "")
