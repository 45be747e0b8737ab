"""A run and its summary in a notebook."""

from collections.abc import Iterator

import msgspec

from trivium.reports import wording
from trivium.reports.drawings.svg import text
from trivium.reports.notebook.fragment import box, heading, interval_bar, line, table, verdict, warnings
from trivium.reports.spent import spent_sentence
from trivium.runs.run import Run
from trivium.runs.summary import Summary

FAILURES_SHOWN = 8


def run_fragment(run: Run) -> str:
    """The run: what it was of, and its summary as it was stored, else as far as it has come."""
    record = run.record
    whose = text(str(record.provenance.get("agent", "")))
    summary = msgspec.convert(record.summary, Summary) if record.summary is not None else run.summary()
    return box(*_parts(summary), line(f"{record.state} · {whose}" if whose else record.state, quiet=True))


def summary_fragment(summary: Summary) -> str:
    """The summary as a table with its intervals drawn."""
    return box(*_parts(summary))


def _parts(summary: Summary) -> Iterator[str]:
    yield heading(summary.suite, summary.run)
    yield line(wording.headline(summary))
    yield warnings(summary.warnings)
    yield table(["", "mean", "0 … 1", "interval", "n", "cover", "not ok"], _rows(summary))
    if summary.composite is not None:
        yield line(f"composite: {wording.composite_sentence(summary.composite)}")
    yield from (verdict(gate.answer, f"{gate.gate}: {wording.gate_sentence(gate)}") for gate in summary.gates)
    if summary.acceptance:
        yield line(wording.accepted_of(summary))
    if summary.spent is not None:
        yield line(spent_sentence(summary.spent))
    if summary.failures:
        total = len(summary.failures) + summary.failures_left_out
        yield line(f"did not pass ({min(FAILURES_SHOWN, total):,} of {total:,}, worst first)")
        shown = [
            (text(wording.attempt_name(each.case, each.repeat), at_most=60), text(each.why, at_most=160))
            for each in summary.failures[:FAILURES_SHOWN]
        ]
        yield table(["attempt", "why"], shown, left=2)
    if note := wording.interval_note(summary):
        yield line(note, quiet=True)


def _rows(summary: Summary) -> Iterator[list[str]]:
    rate = summary.pass_rate
    yield _row("pass rate", rate.value, rate.ci95, rate.n, rate.coverage, wording.passed_of(summary))
    if (whole := summary.composite) is not None:
        yield _row("composite", whole.mean, whole.ci95, whole.n, whole.coverage, wording.not_ok(whole.status))
    for name, figure in summary.metrics.items():
        yield _row(name, figure.mean, figure.ci95, figure.n, figure.coverage, wording.lacking(figure))


def _row(
    name: str, mean: float | None, ends: tuple[float, float] | None, n: int, cover: float, told: str
) -> list[str]:
    drawn = interval_bar(mean, ends)
    numbers = (wording.interval(ends), f"{n:,}", wording.share(cover), told)
    return [text(name), wording.number(mean), drawn, *map(text, numbers)]
