"""The table of a trace report."""

import pytest

import trivium as tv
from tests.runs.trace_scores.samples import call, support, trace
from trivium.display import as_text
from trivium.reports.document.terminal import Printed
from trivium.reports.trace_scores import compact, describe, reservations
from trivium.traces.native import native_trace


def report(tmp_path, *traces):
    store = f"sqlite:///{tmp_path / 'store.db'}"
    return tv.score_traces([native_trace(each) for each in traces], store=store)


@pytest.mark.parametrize(
    ("number", "shown"),
    [(None, "–"), (0, "0"), (9_999, "9,999"), (12_345, "12.3k"), (4_500_000, "4.5M"), (2 * 10**9, "2.0G")],
)
def test_large_numbers_are_short(number, shown):
    assert compact(number) == shown


def test_text_of_the_report_is_its_table(tmp_path):
    text = str(report(tmp_path, *support()))
    assert "1 of 4 traces failed" in text
    assert "20.0 s median" in text


def test_traces_in_which_nothing_went_wrong_name_no_worst(tmp_path):
    text = str(report(tmp_path, trace("a", call("1", "search", (1, 2)))))
    assert "1 trace, none failed" in text
    assert "worst" not in text
    assert "most" not in text


def test_a_run_of_an_agent_that_failed_inside_a_trace_is_in_the_headline(tmp_path):
    spans = [
        {"id": "w", "kind": "agent", "name": "boss", "start": 0, "end": 9, "ok": True},
        {"id": "a", "parent": "w", "kind": "agent", "name": "helper", "start": 1, "end": 2, "ok": False},
    ]
    text = str(report(tmp_path, {"trace_id": "t", "spans": spans}))
    assert "1 trace, none failed as a whole (1 run of an agent inside did)" in " ".join(text.split())


def test_completed_says_that_it_leaves_out_what_has_not_ended(tmp_path):
    text = " ".join(str(report(tmp_path, *support())).split())
    assert "3 of those that ended; 1 did not" in text


def test_a_looping_agent_is_named_in_the_answer(tmp_path):
    text = " ".join(str(report(tmp_path, support()[2])).split())
    assert "most calls in loops: agent helper, 4 of its 5 (80 %) in 1 loop" in text


def test_long_tables_are_cut_and_counted(tmp_path):
    calls = [call(str(n), f"tool-{n:02}", (n, n + 1)) for n in range(20)]
    found = report(tmp_path, trace("a", *calls))
    assert "… and 5 more (--rows 20)" in str(found)
    whole = as_text(Printed(describe(found, rows=20)))
    assert "tool-19" in whole
    assert "more (--rows" not in whole


def test_costs_that_are_unknown_or_from_the_list_are_said(tmp_path):
    pytest.importorskip("genai_prices")
    unpriced = {**support()[0]["spans"][1], "name": "my-own-model"}
    traces = [support()[0], {"trace_id": "x", "spans": [{**unpriced, "parent": None}]}]
    said = " ".join(reservations(report(tmp_path, *traces)))
    assert "no price is known for 1 model request" in said
    assert "the cost of 1 model request is today's list price" in said
