"""Every report says the answer, what failed or changed, the numbers, the reservations and provenance, so."""

import time
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import trivium as tv
from tests.cli.monitoring.test_monitor import fill
from tests.reports import comparison_samples, samples, test_disagreements, test_pairwise
from tests.reports.trust.test_curve_pictures import artifact, table
from tests.reports.trust.test_pages import judged
from tests.runs.trace_scores.samples import support
from trivium.monitor.status import status_of
from trivium.reports import comparison, disagreements, monitoring, summary, trace_scores
from trivium.reports import pairwise as of_pairs
from trivium.reports.document import blocks as kinds
from trivium.reports.document.blocks import Block
from trivium.reports.trust import page, tables
from trivium.runs.artifacts.judge import agreement_answer, certificate
from trivium.store.store import Store
from trivium.traces.native import native_trace

ANSWER, CHANGED, NUMBERS, RESERVATIONS, PROVENANCE = range(5)

CHANGES = ("did not pass", "what changed", "worst traces", "lost in", "largest disagreements", "Alerts")
FIGURES_OF_ANSWERS = ("Gates", "Dimensions", "difference of each metric")
"""Gates decide, win rates are what pairs are judged for, and a comparison is drawn beside its sentence."""
CAVEATS = ("more", "how to read this", "reservations")


def place(block: Block) -> int | None:
    """Where a block belongs; None for a sentence, which belongs to what it stands with."""
    name = str(getattr(block, "title", "") or getattr(block, "label", ""))
    match block:
        case kinds.Answer() | kinds.Paragraph(tone="strong") | kinds.KeyFigures() | kinds.Title():
            return ANSWER
        case kinds.Table() | kinds.Section() if name in FIGURES_OF_ANSWERS:
            return ANSWER
        case kinds.Table() | kinds.Section() | kinds.Fold() if name.startswith(CHANGES):
            return CHANGED
        case kinds.Remarks():
            return RESERVATIONS if block.lines else None
        case kinds.Section() | kinds.Fold() if name.endswith(CAVEATS) or name.startswith("cases only in"):
            return RESERVATIONS
        case kinds.Section() if name == "provenance":
            return PROVENANCE
        case kinds.Paragraph():
            return PROVENANCE if block.tone == "quiet" and any(block.lines) else None
        case _:
            return NUMBERS


def of_monitor(folder: Path, surface: kinds.Surface) -> Iterator[Block]:
    url = f"sqlite:///{folder}/store.db"
    fill(url, good=False)
    with Store(url) as store:
        yield from monitoring.describe(status_of(store, "support", now=time.time()), surface)


def of_traces(folder: Path) -> Iterator[Block]:
    made = [native_trace(each) for each in support()]
    config = folder / "config.yaml"
    config.write_text("gates: {pass_rate: {at_least: 0.9}}\n")
    report = tv.score_traces(made, config=config, store=f"sqlite:///{folder}/store.db")
    assert report.summary.gates
    assert report.worst
    return trace_scores.describe(report)


def of_agreement() -> list[Block]:
    return page.agreement_body(agreement_answer(judged(), resamples=50), certificate(judged(), None))


def of_certificate() -> Iterator[Block]:
    wrong = np.arange(80) < 3
    return tables.certificate_blocks(tv.trust.certify(wrong, np.linspace(0, 1, 80), range(80)))


REPORTS = {
    "run": lambda _, surface: summary.describe(samples.summary(), surface),
    "comparison": lambda _, surface: comparison.describe(comparison_samples.comparison(), surface),
    "monitor": of_monitor,
    "pairs": lambda _, surface: of_pairs.describe(test_pairwise.comparison(), surface),
    "disagreements": lambda _, surface: disagreements.describe(test_disagreements.found(), surface),
}
ALIKE = {
    "traces": of_traces,
    "curve": lambda _: tables.curve_blocks(artifact(table(abstain=0.2))),
    "curve, two": lambda _: tables.curve_blocks(
        artifact(table(abstain=0.2), table(abstain=0.1, name="b.jsonl"))
    ),
    "curve, page": lambda _: page.curve_body(artifact(table(abstain=0.2))),
    "agreement": lambda _: tables.agreement_blocks(agreement_answer(judged(), resamples=50)),
    "agreement, page": lambda _: of_agreement(),
    "certificate": lambda _: tables.certificate_blocks(certificate(judged(), None)),
    "certificate, notebook": lambda _: of_certificate(),
}
EACH = {
    f"{name}, {surface}": (lambda folder, make=make, surface=surface: make(folder, surface))
    for name, make in REPORTS.items()
    for surface in ("terminal", "comment", "notebook", "page")
    if surface != "page" or name in {"comparison", "monitor"}
} | ALIKE


@pytest.mark.parametrize("make", EACH.values(), ids=EACH)
def test_it_is_the_order_of_the_pages(make, tmp_path):
    shown: Iterable[Block] = list(make(tmp_path))
    places = [(where, block) for block in shown if (where := place(block)) is not None]
    assert places[0][0] in {ANSWER, CHANGED}
    for (before, one), (after, other) in pairwise(places):
        assert before <= after, f"{one} stands before {other}"
    assert {where for where, _ in places} >= {ANSWER}
