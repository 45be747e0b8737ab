"""Disagreements as a part of the run's page."""

from typing import Any

from trivium.reports import wording
from trivium.reports.disagreeing import phrases
from trivium.reports.html.case import anchor
from trivium.reports.untrusted import one_line
from trivium.runs.disagreeing.disagreement import Disagreement, Disagreements, Tally


def section_context(found: Disagreements) -> dict[str, Any]:
    """Everything the template of the section needs."""
    return {
        "headline": phrases.headline(found),
        "sources": phrases.sources(found),
        "notes": found.notes,
        "tallies": [_tally(each) for each in found.tallies],
        "rows": [_row(each) for each in found.found],
    }


def _tally(tally: Tally) -> dict[str, str]:
    return {
        "dimension": one_line(tally.dimension),
        "who": phrases.KINDS[tally.kind],
        "agreed": phrases.agreed(tally),
        "abstained": f"{tally.abstained:,}",
        "mean": wording.number(tally.mean_apart),
        "largest": wording.number(tally.largest),
        "leaning": phrases.signed(tally.leaning),
    }


def _row(each: Disagreement) -> dict[str, Any]:
    return {
        "apart": phrases.apart(each),
        "anchor": anchor(each.case, each.repeat),
        "name": wording.attempt_name(one_line(each.case), each.repeat),
        "dimension": one_line(each.dimension),
        "who": phrases.KINDS[each.kind],
        "opinions": [
            (
                one_line(one.by, at_most=80),
                phrases.value(one),
                None if one.reason is None else one_line(one.reason, at_most=phrases.REASON_CHARS),
            )
            for one in each.opinions
        ],
    }
