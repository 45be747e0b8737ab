"""Agreement, calibrators and certificates in a notebook."""

from trivium.reports.drawings.svg import text
from trivium.reports.notebook.fragment import box, heading, line, table, verdict, warnings
from trivium.reports.trust.agreement_table import NAMES
from trivium.reports.trust.calibrator_table import MEASURES, WHEN
from trivium.reports.wording import counted, interval, number, share
from trivium.trust.acceptance import Certificate
from trivium.trust.agreeing import Agreement
from trivium.trust.calibration.calibrator import Calibrator


def agreement_fragment(found: Agreement) -> str:
    """Every measure with its interval, or why there is none."""
    rows = []
    for name, figure in found.figures.items():
        ends = None if figure.interval is None else (figure.interval.low, figure.interval.high)
        told = interval(ends) if ends is not None else figure.reason or interval(None)
        rows.append((text(NAMES.get(name, name)), number(figure.value), text(told)))
    return box(
        heading("agreement", f"{counted(found.n, 'item')} in {counted(found.groups, 'group')}"),
        table(["measure", "value", "interval"], rows),
    )


def calibrator_fragment(made: Calibrator) -> str:
    """What was fitted on what, and how good it is."""
    on = ", ".join(made.features) or made.confidence or "one confidence"
    shown = [name for name in MEASURES if any(name in (figures or {}) for figures in _figures(made))]
    rows = [
        (text(words), *(number(figures.get(name)) for name in shown))
        for key, words in WHEN.items()
        if isinstance(figures := made.metrics.get(key), dict)
    ]
    return box(
        heading(f"{made.method} on {on}", f"target {made.target}" if made.target else ""),
        warnings(made.warnings),
        table(["", *(MEASURES[name] for name in shown)], rows) if rows else "",
    )


def certificate_fragment(found: Certificate) -> str:
    """From which confidence on verdicts may stand, or why none may."""
    promise = f"at most {share(found.epsilon)} wrong, kept with probability {1 - found.delta:g}"
    if found.threshold is None:
        said = verdict("inconclusive", f"Nothing can be certified ({promise}): {found.reason}")
    else:
        accepted = f"{found.n_accepted:,} of {counted(found.n, 'labelled verdict')}, {found.errors:,} wrong"
        said = verdict("pass", f"Accept from {found.threshold:g} on ({promise}): {accepted}")
    tested = f"{counted(found.groups, 'group')}, {counted(found.tested, 'threshold')} tested, {found.method}"
    covered = f"covers {share(found.coverage)}, error bound {number(found.error_bound)}"
    return box(heading("certificate", covered), said, line(tested, quiet=True))


def _figures(made: Calibrator) -> list[dict[str, float]]:
    return [figures for key in WHEN if isinstance(figures := made.metrics.get(key), dict)]
