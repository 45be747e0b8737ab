from rich.cells import cell_len

from tests.reports import samples
from trivium.display import as_text
from trivium.reports.document.terminal import Printed
from trivium.reports.runs_table import RunRow, runs_blocks
from trivium.reports.wording import run_name
from trivium.store.records import RunNames


def table(rows, **options):
    return Printed(runs_blocks(rows, **options))


def row(**changes):
    fields = {
        "run": "r1", "suite": "papers", "started": 1_770_000_000.0, "state": "done", "attempts": 4, "due": 4,
        "pass_rate": 0.5, "composite": 0.61,
    }  # fmt: skip
    return RunRow(**(fields | changes))


def test_a_run_shows_when_it_started_and_how_it_did():
    text = as_text(table([row()]), width=120)
    # 1,770,000,000 s after the epoch by any calendar.
    assert "2026-02-02 02:40" in text
    assert "50 %" in text
    assert "0.610" in text


def test_an_unfinished_run_shows_how_much_of_it_is_there():
    assert "3/4" in as_text(table([row(attempts=3, state="interrupted")]))


def test_what_is_unknown_is_a_dash_not_a_zero():
    text = as_text(table([row(started=None, pass_rate=None, composite=None)]), width=120)
    assert text.splitlines()[1].split() == ["papers", "r1", "–", "done", "4", "–"]


def test_a_moment_no_calendar_has_is_a_dash():
    assert "–" in as_text(table([row(started=1e300)]), width=120)


def test_a_run_of_usual_names_is_whole_in_80_columns():
    text = as_text(table([row(run="20261121-155032-8b5c", suite="gpt-4o-airline", state="interrupted")]))
    for shown in ("20261121-155032-8b5c", "gpt-4o-airline", "interrupted", "50 %", "composite", "0.610"):
        assert shown in text


def test_hostile_rows_fit_80_columns():
    rows = [row(run=text * 5, suite=text, state=text) for text in samples.HOSTILE]
    text = as_text(table(rows))
    assert max(cell_len(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text


def test_an_empty_list_of_runs_says_so():
    assert as_text(table([])) == "no runs yet\n"


def test_older_runs_are_mentioned():
    assert "… and older ones (--limit, now 1)" in as_text(table([row()], older=True))
    assert "older" not in as_text(table([row()]))


def test_a_run_is_called_by_suite_version_and_agent():
    def name(**names):
        return run_name("papers", RunNames(**names))

    commit = {"git_commit": "012345678", "git_subject": "Ask for the year"}
    assert name(version="1.4", agent="qa.agents:answer", **commit) == "papers · 1.4 · answer"
    assert name(agent="agent.py:answer", **commit) == "papers · Ask for the year · answer"
    assert (
        name(agent="http://127.0.0.1:80", git_commit="012345678")
        == "papers · 012345678 · http://127.0.0.1:80"
    )
    assert name() == "papers"
