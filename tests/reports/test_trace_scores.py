"""The table of a trace report."""

import pytest

import trivium as tv
from tests.runs.trace_scores.samples import call, support, trace
from trivium.reports.trace_scores import compact, reservations
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


def test_a_looping_agent_is_named_in_the_answer(tmp_path):
    text = " ".join(str(report(tmp_path, support()[2])).split())
    assert "worst agent: helper spent 80 % of its calls in 1 loop (4 of 5)" in text


def test_long_tables_are_cut_and_counted(tmp_path):
    calls = [call(str(n), f"tool-{n:02}", (n, n + 1)) for n in range(20)]
    assert "… and 5 more" in str(report(tmp_path, trace("a", *calls)))


def test_costs_that_are_unknown_or_from_the_list_are_said(tmp_path):
    pytest.importorskip("genai_prices")
    unpriced = {**support()[0]["spans"][1], "name": "my-own-model"}
    traces = [support()[0], {"trace_id": "x", "spans": [{**unpriced, "parent": None}]}]
    said = " ".join(reservations(report(tmp_path, *traces)))
    assert "no price is known for 1 model request" in said
    assert "the cost of 1 model request is today's list price" in said
