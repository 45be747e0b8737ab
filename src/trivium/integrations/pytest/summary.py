"""How a session ends: its runs summed up, compared with their base, and the line that goes on with one."""

import shlex

import pytest

from trivium.display import as_text
from trivium.errors import TriviumError
from trivium.integrations.pytest.plugin import option
from trivium.integrations.pytest.session import Evaluating, Note
from trivium.reports.comparison_text import ComparisonTable
from trivium.reports.escape import one_line
from trivium.reports.terminal import SummaryTable
from trivium.reports.wording import interval, number, passed_of
from trivium.runs.comparing.compare import compare
from trivium.runs.comparing.comparison import Comparison
from trivium.runs.run import Run
from trivium.store.records import RunRecord
from trivium.store.store import Store

PREVIOUS = "previous"

_compared = pytest.StashKey[list[Comparison | str]]()


def check_options(config: pytest.Config, evaluating: Evaluating) -> None:
    """Refuse runs that are not there.

    Raises:
        pytest.UsageError: Saying which and why.
    """
    for name in ("compare", "resume"):
        run = option(config, name)
        if run is not None and (name, run) != ("compare", PREVIOUS):
            try:
                with Store(evaluating.store_url, read_only=True) as store:
                    store.run(run)
            except TriviumError as error:
                raise pytest.UsageError(f"--trivium-{name} {run}: {error}") from error


def compare_all(session: pytest.Session, evaluating: Evaluating) -> None:
    """Compare every finished run with its base; the session fails with any of them."""
    base = option(session.config, "compare")
    notes = [note for note in evaluating.notes() if note.done]
    if base is None or not notes:
        return
    compared: list[Comparison | str] = []
    session.config.stash[_compared] = compared
    own = {note.run for note in notes}
    code = pytest.ExitCode.OK
    for note in notes:
        try:
            head = evaluating.store.run(note.run)
            found = _base_of(head, base, evaluating.store, own)
            if found is None:
                compared.append(f"{note.suite}: there is no earlier run to compare it with")
                continue
            comparison = compare(Run(evaluating.store, found), Run(evaluating.store, head))
        except TriviumError as error:
            compared.append(f"{note.suite}: {error}")
            code = pytest.ExitCode.USAGE_ERROR
            continue
        compared.append(comparison)
        answer = comparison.answer
        if answer == "inconclusive":
            answer = "pass" if evaluating.inconclusive == "pass" else "fail"
        if answer == "fail" and code == pytest.ExitCode.OK:
            code = pytest.ExitCode.TESTS_FAILED
    if base != PREVIOUS and not any(isinstance(each, Comparison) for each in compared) and not code:
        code = pytest.ExitCode.USAGE_ERROR
    if session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = code


def write_summary(reporter: pytest.TerminalReporter, evaluating: Evaluating) -> None:
    """Write what the runs of the session say."""
    notes = evaluating.notes()
    if not notes:
        return
    reporter.section("trivium")
    for note in notes:
        if not note.done:
            _write_unfinished(reporter, evaluating, note)
            continue
        summary = Run(evaluating.store, evaluating.store.run(note.run)).summary()
        if reporter.verbosity >= 0:
            _write(reporter, SummaryTable(summary))
        else:
            rate = summary.pass_rate
            figures = f"pass rate {number(rate.value)} {interval(rate.ci95)}, {passed_of(summary)}"
            reporter.write_line(f"{one_line(note.suite)}  {note.run}  {figures}")
    for each in evaluating.config.stash.get(_compared, []):
        if isinstance(each, Comparison):
            reporter.section(f"trivium: compared with {one_line(each.base)}: {each.answer}", sep="-")
            _write(reporter, ComparisonTable(each))
        else:
            reporter.write_line(f"--trivium-compare: {each}", yellow=True)


def _base_of(head: RunRecord, base: str, store: Store, own: set[str]) -> RunRecord | None:
    """The run that a run of the session is compared with."""
    if base != PREVIOUS:
        found = store.run(base)
        return found if found.suite_name == head.suite_name else None
    for record in store.runs():
        same = record.suite_name == head.suite_name and record.kind == head.kind
        if same and record.state == "done" and record.number < head.number and record.id not in own:
            return record
    return None


def _write_unfinished(reporter: pytest.TerminalReporter, evaluating: Evaluating, note: Note) -> None:
    kept = sum(1 for _ in evaluating.store.answered(evaluating.store.run(note.run)))
    reporter.write_line(
        f"{one_line(note.suite)}: cut short; {kept:,} attempts are kept. Go on with", yellow=True
    )
    words = [str(word) for word in reporter.config.invocation_params.args]
    if option(reporter.config, "resume") is None:
        words += ["--trivium-resume", note.run]
    reporter.write_line(f"  {shlex.join(['pytest', *words])}")


def _write(reporter: pytest.TerminalReporter, table: SummaryTable | ComparisonTable) -> None:
    width = min(reporter._tw.fullwidth, 120)  # noqa: SLF001 - the width that pytest itself writes to
    reporter.write(as_text(table, width=width, colour=reporter._tw.hasmarkup))  # noqa: SLF001
    reporter.write_line("")
