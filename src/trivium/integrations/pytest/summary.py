"""Output at the end of a session: run summaries, comparisons, and the command that resumes a run."""

import shlex

import pytest

from trivium.display import as_text
from trivium.errors import TriviumError
from trivium.integrations.pytest.options import option
from trivium.integrations.pytest.session import RunNote, SessionRuns
from trivium.reports.wording import interval, number, passed_of
from trivium.runs.comparing.compare import compare
from trivium.runs.comparing.comparison import Comparison
from trivium.runs.run import Run, earlier_runs
from trivium.runs.summary import Summary
from trivium.safe_text import one_line
from trivium.store.store import Store

PREVIOUS = "previous"

_compared = pytest.StashKey[list[Comparison | str]]()


def check_options(config: pytest.Config, runs: SessionRuns) -> None:
    """Check that the store has the runs that the options name.

    Raises:
        pytest.UsageError: If a run cannot be read, with its name and the reason.
    """
    for name in ("compare", "resume"):
        run = option(config, name)
        if run is not None and (name, run) != ("compare", PREVIOUS):
            try:
                with Store(runs.store_url, read_only=True) as store:
                    store.run(run)
            except TriviumError as error:
                raise pytest.UsageError(f"--trivium-{name} {run}: {error}") from error


def compare_all(session: pytest.Session, runs: SessionRuns) -> None:
    """Compare every finished run with its base; the session fails if any comparison fails."""
    base = option(session.config, "compare")
    notes = [note for note in runs.notes() if note.done]
    if base is None or not notes:
        return
    compared: list[Comparison | str] = []
    session.config.stash[_compared] = compared
    this_session = {note.run for note in notes}
    code = pytest.ExitCode.OK
    for note in notes:
        try:
            head = Run(runs.store, runs.store.run(note.run))
            found = _base_of(head, base, this_session)
            if found is None:
                compared.append(f"{note.suite}: there is no earlier run to compare it with")
                continue
            comparison = compare(found, head, policy=runs.policy)
        except TriviumError as error:
            compared.append(f"{note.suite}: {error}")
            code = pytest.ExitCode.USAGE_ERROR
            continue
        compared.append(comparison)
        if comparison.answer != "pass" and code == pytest.ExitCode.OK:
            code = pytest.ExitCode.TESTS_FAILED
    if base != PREVIOUS and not any(isinstance(each, Comparison) for each in compared) and not code:
        code = pytest.ExitCode.USAGE_ERROR
    if session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = code


def write_summary(reporter: pytest.TerminalReporter, runs: SessionRuns) -> None:
    """Write the summary and the comparison of each run of the session."""
    notes = runs.notes()
    if not notes:
        return
    reporter.section("trivium")
    for note in notes:
        if not note.done:
            _write_unfinished(reporter, runs, note)
            continue
        summary = Run(runs.store, runs.store.run(note.run)).summary()
        if reporter.verbosity >= 0:
            _write(reporter, summary)
        else:
            rate = summary.pass_rate
            figures = f"pass rate {number(rate.value)} {interval(rate.ci95)}, {passed_of(summary)}"
            reporter.write_line(f"{one_line(note.suite)}  {note.run}  {figures}")
    for each in runs.config.stash.get(_compared, []):
        if isinstance(each, Comparison):
            reporter.section(f"trivium: compared with {one_line(each.base)}: {each.answer}", sep="-")
            _write(reporter, each)
        else:
            reporter.write_line(f"--trivium-compare: {each}", yellow=True)


def _base_of(head: Run, base: str, this_session: set[str]) -> Run | None:
    """Return the run that a run of the session is compared with; None if there is none of its suite."""
    if base != PREVIOUS:
        named = Run(head.store, head.store.run(base))
        return named if named.record.suite_name == head.record.suite_name else None
    earlier = (each for each in earlier_runs(head) if each.id not in this_session)
    return next((each for each in earlier if each.record.state == "done"), None)


def _write_unfinished(reporter: pytest.TerminalReporter, runs: SessionRuns, note: RunNote) -> None:
    stored = sum(1 for _ in runs.store.attempt_keys(runs.store.run(note.run)))
    reporter.write_line(
        f"{one_line(note.suite)}: interrupted; {stored:,} attempts are stored. Resume with", yellow=True
    )
    words = [str(word) for word in reporter.config.invocation_params.args]
    if option(reporter.config, "resume") is None:
        words += ["--trivium-resume", note.run]
    reporter.write_line(f"  {shlex.join(['pytest', *words])}")


def _write(reporter: pytest.TerminalReporter, table: Summary | Comparison) -> None:
    width = min(reporter._tw.fullwidth, 120)  # noqa: SLF001 - the width that pytest itself writes to
    reporter.write(as_text(table, width=width, colour=reporter._tw.hasmarkup))  # noqa: SLF001
    reporter.write_line("")
