"""The process of attempts, on pages and in the terminal: closed forms, and SciPy for the intervals."""

import io

import msgspec
import numpy as np
import pytest
from rich.console import Console

from tests.reports import samples
from tests.reports.html.parsed import Page
from tests.traces.samples import agent, tool
from trivium.agents.attempt import Attempt
from trivium.metrics.evaluation import Composite
from trivium.reports.document.terminal import Printed
from trivium.reports.html.page import write_html
from trivium.reports.html.process import RunTimes
from trivium.reports.trace_tables import arrow_chain, process_blocks
from trivium.reports.view import EvaluationView
from trivium.suites.case import Case
from trivium.traces.normalize import normalise
from trivium.traces.process.process import Process
from trivium.traces.process.totals import process_totals
from trivium.traces.trace import Message, Trace
from trivium.trust.intervals import mean_interval


def hand_overs(*pairs):
    return [Message(sender=one, receiver=other, type="handoff") for one, other in pairs]


BUSY = normalise(
    [
        agent("m", "boss", start=0.0, end=12.0),
        tool("s", "search", "m", start=1.0, end=6.0, input={"q": 1}, ok=False),
        tool("r", "read", "m", start=1.0, end=4.0, input={"q": 1}),
        tool("s2", "search", "m", start=6.0, end=9.0, input={"q": 1}),
        *[tool(f"p{i}", "poll", "m", start=9.0 + i / 2, end=9.5 + i / 2, input={}) for i in range(4)],
        tool("w", "write", "m", start=11.5, ok=None),
    ],
    hand_overs(*[("a", "b"), ("b", "c"), ("c", "a")] * 3, ("a", "c"), ("c", "a"), ("a", "c")),
)
"""One of everything: a failure and its retry, calls side by side, a loop, hand-offs that go round."""


def printed(traces, width=80):
    console = Console(file=io.StringIO(), width=width)
    console.print(Printed(process_blocks(process_totals(traces), traces=len(traces))))
    return console.file.getvalue()


def test_the_terminal_shows_the_whole_process_of_one_trace():
    text = " ".join(printed([BUSY]).split())
    for expected in (
        "wall time 12.0 s",
        "1.25 spans at work on average, 2 at most; two or more 25 % of the time",
        "tool search of boss 1.0 s 5.0 s 42 %",
        "1 parallel section, the longest 3.0 s from 1.0 s with up to 2 spans at once",
        "retries of failed calls: search 1; 1 of 1 succeeded",
        "calls repeated after a success: poll 3",
        "1 loop: 3 of 8 tool calls only repeat a loop",
        "poll, 4 times, by boss",
        "Loop of hand-offs: a → b → c, 3 times",
        "Ping-pong:",
        "unfinished: tool write 1",
    ):
        assert expected in text


def test_the_terminal_adds_traces_up_and_names_the_slowest():
    quick = normalise([tool("t", "search", start=0.0, end=1.0)])
    untimed = normalise([tool("t", "search")])
    text = " ".join(printed([quick, msgspec.structs.replace(BUSY, trace_id="long"), untimed]).split())
    assert "wall time 13.0 s of 2 traces (1 without times), added up" in text
    assert "from the first start" not in text  # their clocks may have nothing to do with each other
    assert "critical path of the slowest trace, long: 12.0 s" in text
    assert printed([untimed]).strip() == ""


def test_traces_at_once_last_from_the_first_start_to_the_last_end():
    moments = [(1.7e9, 1.7e9 + 3.0), (1.7e9 + 1.0, 1.7e9 + 3.5)]
    traces = [normalise([tool("t", "search", start=start, end=end)]) for start, end in moments]
    expected = "wall time 5.5 s of 2 traces, added up; 3.5 s from the first start to the last end"
    assert expected in " ".join(printed(traces).split())
    started = [{"started": f"2026-01-02T10:00:0{second}Z"} for second in (0, 2)]
    counted = [normalise([tool("t", "x", start=0.0, end=3.0)], metadata=each) for each in started]
    assert "added up; 5.0 s from the first start" in " ".join(printed(counted).split())


def test_long_lists_are_cut_and_counted():
    many = normalise([tool(str(i), f"t{i}", start=float(i), end=i + 1.0) for i in range(40)])
    assert printed([many]).count("… and 25 more") == 2
    assert arrow_chain([str(i) for i in range(20)]) == "0 → 1 → 2 → 3 → (12 more) → 16 → 17 → 18 → 19"


def test_a_case_has_the_process_of_its_trace_in_the_words_of_the_terminal(tmp_path):
    own = samples.view(0)
    attempt = msgspec.structs.replace(own.attempt, trace=BUSY)
    path = tmp_path / "r.html"
    write_html(path, samples.summary(), [msgspec.structs.replace(own, attempt=attempt)])
    text = " ".join(Page(path.read_text("utf-8")).text.split())
    assert "↻ retry" in text
    for expected in (
        "Wall time 12.0 s",
        "Critical path: 12.0 s, 8 steps",
        "tool search of boss",
        "1 parallel section, the longest 3.0 s from 1.0 s with up to 2 spans at once",
        "retries of failed calls: search 1; 1 of 1 succeeded",
        "calls repeated after a success: poll 3",
        "unfinished: tool write 1",
    ):
        assert expected in text
    assert list(process_blocks(process_totals([Trace()]), traces=1)) == []


def test_it_says_how_many_loops_there_are_and_when_nothing_worked():
    loops = [
        tool(f"{name}{i}", name, agent="x", start=float(i), end=i + 0.25, input={"n": name})
        for i, name in enumerate("aaabbbcccdddeee")
    ]
    text = " ".join(printed([normalise(loops)]).split())
    assert "5 loops: 10 of 15 tool calls only" in text
    assert "none 74 %" in text


def view(case, trace, *, repeat=0, group=None):
    return EvaluationView(
        case=Case(id=case, input="", group=group),
        attempt=Attempt(case=case, repeat=repeat, trace=trace),
        scores={},
        composite=Composite(value=None),
    )


def shared(part):
    """Ten seconds of which ``search`` has a part, and boss the rest."""
    return normalise(
        [agent("m", "boss", start=0.0, end=10.0), tool("t", "search", "m", start=0.0, end=10.0 * part)]
    )


def test_shares_of_a_run_have_the_interval_of_the_mean_over_cases():
    rng = np.random.default_rng(5)
    parts = rng.uniform(0.3, 0.6, (12, 2))
    times = RunTimes()
    for case, own in enumerate(parts):
        for repeat, part in enumerate(own):
            times.add(view(f"q{case}", shared(part), repeat=repeat))
    times.add(view("bare", None))
    note, shares, _ = times.section(0.95).blocks
    assert note.lines[0].startswith("Traces with times: 24 attempts.")
    agent, tool = (dict(zip(heads(shares), row, strict=True)) for row in shares.rows)
    assert (agent["name"], agent["0 … 1"].mean, agent["attempts"]) == ("boss", pytest.approx(1), "24")
    means = parts.mean(axis=1)
    assert (tool["who"].text, tool["name"]) == ("tool", "search")
    assert tool["0 … 1"].mean == pytest.approx(means.mean())
    ends = mean_interval(means, np.arange(12))
    assert tool["interval"].replace("−", "-") == f"[{ends.low:.3f}, {ends.high:.3f}]"


def heads(table):
    return [column.head for column in table.columns]


def test_retries_and_repeats_are_counted_per_attempt():
    times = RunTimes("group")
    times.add(view("q0", BUSY, group="g"))
    times.add(view("q1", normalise([tool("t", "search")]), group="h"))
    note, _, counts = times.section(0.95).blocks
    assert note.lines[0].startswith("Traces with times: 1 attempt.")
    assert heads(counts) == ["steps", "count", "per attempt", "attempts with any"]
    assert [(row[0], row[1].text, *row[2:]) for row in counts.rows] == [
        ("retries of failed calls", "1", "0.5", "1 of 2"),
        ("calls repeated after a success", "3", "1.5", "1 of 2"),
        ("calls that only repeat a loop", "3", "1.5", "1 of 2"),
        ("unfinished spans", "1", "0.5", "1 of 2"),
    ]
    assert RunTimes().section(0.95) is None


def test_counts_have_an_interval_from_ten_groups_on():
    times = RunTimes()
    for case in range(10):
        times.add(view(f"q{case}", BUSY if case % 2 else normalise([tool("t", "search")])))
    counts = times.section(0.95).blocks[-1]
    assert heads(counts)[3] == "interval"
    _, count, mean, interval, _ = counts.rows[0]
    assert (count.text, mean) == ("5", "0.5")
    assert interval.startswith("[0.")


@pytest.mark.parametrize("busy", [True, False])
def test_the_page_has_a_table_of_retries_only_where_there_are_any(tmp_path, busy):
    views = [view("q0", BUSY if busy else shared(0.5))]
    write_html(tmp_path / "r.html", samples.summary(), views)
    page = Page((tmp_path / "r.html").read_text("utf-8"))
    assert ("attempts with any" in page.text) is busy
    assert ("No retries of failed calls, no calls repeated" in page.text) is not busy


def test_the_page_of_a_run_shows_both(tmp_path):
    views = [view(f"q{i}", BUSY if i else normalise([tool("t", "search")])) for i in range(3)]
    write_html(tmp_path / "r.html", samples.summary(), views)
    page = Page((tmp_path / "r.html").read_text("utf-8"))
    assert page.open == []
    for shown in ("Where the time went", "Wall time 12.0 s", "poll, 4 times", "critical path", "↻"):
        assert shown in page.text
    (lines, bands) = (
        [each for each in page.all(tag) if each.get("class") == name]
        for tag, name in (("line", "critical"), ("rect", "parallel"))
    )
    longer = [stretch for stretch in Process(BUSY).path_segments if stretch.end > stretch.start]
    assert (len(lines), len(bands)) == (2 * len(longer), 2)
