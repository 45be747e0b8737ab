"""The answers of ``trivium trust`` as self-contained HTML pages that begin with the conclusion."""

from collections.abc import Iterable, Sequence
from pathlib import PurePath

from trivium.reports.document.blocks import (
    Block,
    Drawing,
    Facts,
    Fold,
    Paragraph,
    Picture,
    Remarks,
    Section,
)
from trivium.reports.html.shell import page
from trivium.reports.trust.charts import MOST_VARIANTS, charts_of
from trivium.reports.trust.tables import (
    agreement_blocks,
    certificate_blocks,
    curve_blocks,
    may_decide_sentence,
)
from trivium.reports.wording import judge_name
from trivium.runs.artifacts.curve import CurveArtifact
from trivium.runs.artifacts.judge import AgreementAnswer, CertificateAnswer
from trivium.runs.items.table import Origin
from trivium.safe_text import one_line
from trivium.values import counted


def curve_page(artifact: CurveArtifact) -> str:
    """The page of risk–coverage curves; it loads nothing, runs no script, and escapes the texts of the items.

    Args:
        artifact: Result of ``curve_artifact`` with ``drawn=True``.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
    """
    counts = counted(artifact.population.items_total, "labelled item")
    return _page("Risk and coverage", curve_body(artifact), meta=[*_sources(artifact.inputs), counts])


def curve_body(artifact: CurveArtifact) -> list[Block]:
    """The curves, as blocks of a page.

    Args:
        artifact: Result of ``curve_artifact`` with ``drawn=True``.
    """
    names = list(artifact.confidence_variants)
    pictures: list[Block] = [Paragraph((CURVES_NOTE,))]
    for name in names[:MOST_VARIANTS]:
        label = f"Curve of the confidence {name}; the table above has the numbers."
        pictures.append(Drawing(tuple(Picture(each.svg, label) for each in charts_of(artifact, name))))
    if (left_out := len(names) - MOST_VARIANTS) > 0:
        pictures.append(Paragraph((f"{left_out} more confidences are only in the table.",), "quiet"))
    pictures.append(Fold("Definitions", [Facts(DEFINITIONS)]))
    return _arranged(curve_blocks(artifact), Section(title=CURVES_TITLE, blocks=pictures))


CURVES_TITLE = "error of the most confident predictions"
CURVES_NOTE = (
    "Predictions are accepted from the most confident down. Coverage is the share of all items answered so "
    "far, risk the mean loss of the answers. A confidence is useful if the risk is low at low coverage."
)
AURC = (
    "Area under the curve of risk against coverage. Lower is better, but abstaining more lowers it too: "
    "compare two predictors up to the coverage that both reach."
)
AUGRC = (
    "The same with the summed loss of the answers divided by the number of all items; ties distort it less."
)
LOWER_HULL = (
    "The lower convex hull of the working points. It can be reached only with randomised thresholds, so no "
    "conclusion rests on it."
)
DEFINITIONS = (
    ("AURC", AURC),
    ("AUGRC", AUGRC),
    ("best ranking possible", "The same predictions, ranked by their actual loss."),
    ("lower hull", LOWER_HULL),
    ("interval", "From resampling groups: how much the metric would vary with other groups."),
)


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


def judge_body(against: Iterable[Block], risk: Iterable[Block] | str) -> list[Block]:
    """What is known of a judge, as blocks of a page.

    Args:
        against: Its agreement with people.
        risk: Its risk and coverage, or why they are not known.
    """
    known = [Paragraph((risk,))] if isinstance(risk, str) else risk
    return [
        Section(title="the judge against people", blocks=against),
        Section(title="risk and coverage", blocks=known),
    ]


def agreement_body(answer: AgreementAnswer, certificate: CertificateAnswer | str | None) -> list[Block]:
    """The agreement, and from which confidence on a judge may decide, as blocks of a page.

    Args:
        answer: Result of ``agreement_answer``.
        certificate: Result of ``certificate`` for the same items, or why there is none, or None.
    """
    further: list[Block] = []
    if certificate is not None:
        further.append(Paragraph((may_decide_sentence(certificate),), "strong"))
    if isinstance(certificate, CertificateAnswer) and certificate.reason:
        further.append(Paragraph((f"Why no confidence is enough: {certificate.reason}.",)))
    return _arranged([*agreement_blocks(answer), *further])


def certificate_page(answer: CertificateAnswer) -> str:
    """The page of a certificate: from which confidence on verdicts need no person.

    Args:
        answer: Result of ``certificate``.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
    """
    meta = [*_sources(answer.inputs), counted(answer.n, "labelled verdict")]
    return _page("Certificate", _arranged(certificate_blocks(answer)), meta=meta)


def _sources(inputs: Sequence[Origin]) -> list[str]:
    """Judge, dimension, and run or file of each input."""
    lines = []
    for source in inputs:
        where = f"run {source.run_id}" if source.run_id else PurePath(source.path).name
        parts = [source.judge and judge_name(source.judge), source.mode, where]
        lines.append(" · ".join(one_line(part, at_most=120) for part in parts if part))
    return lines


def _page(heading: str, body: Sequence[Block], *, meta: Sequence[str]) -> str:
    return b"".join(page(body, brand="Trivium trust", heading=heading, meta=meta)).decode()


def _arranged(said: Iterable[Block], *pictures: Section) -> list[Block]:
    """What a terminal shows, in the order of a page, with pictures after the numbers."""
    conclusions: list[str] = []
    places: dict[str, list[Block]] = {"numbers": [], "reservations": [], "provenance": []}
    for block in said:
        match block:
            case Paragraph(tone="strong"):
                conclusions += block.lines
            case Remarks():
                places["reservations"] += [block] if block.lines else []
            case Paragraph(tone="quiet"):
                places["provenance"].append(block)
            case _:
                places["numbers"].append(block)
    made = [Section(title=title, blocks=blocks) for title, blocks in places.items() if blocks]
    after = 1 if places["numbers"] else 0
    return [Paragraph(tuple(conclusions), "strong"), *made[:after], *pictures, *made[after:]]
