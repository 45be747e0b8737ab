from itertools import pairwise
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reports import samples
from tests.reports.hostile_samples import hostile_view
from trivium.reports.drawings.timeline import SPANS_SHOWN, draw_timeline
from trivium.traces.trace import Span, Trace

SVG = "{http://www.w3.org/2000/svg}"


def span(place, start=None, end=None, **fields):
    return Span(
        **({"id": str(place), "kind": "tool", "name": f"t{place}", "start": start, "end": end} | fields)
    )


def bars(made):
    root = ET.fromstring(made.svg)
    return [inner for inner in root.iter(f"{SVG}svg") if "bar" in inner.get("class").split()]


def per_cent(value):
    assert value.endswith("%")
    return float(value[:-1])


def test_bars_lie_where_their_times_are():
    made = draw_timeline(Trace(spans=(span(1, 10, 20), span(2, 15, 30))))
    assert [(per_cent(bar.get("x")), per_cent(bar.get("width"))) for bar in bars(made)] == [(0, 50), (25, 75)]


def test_what_runs_inside_another_lies_under_it():
    spans = (span(1, 0, 10), span(2, 2, 4), span(3, 5, 8), span(4, 6, 7))
    heights = [float(bar.get("y")) for bar in bars(draw_timeline(Trace(spans=spans)))]
    assert heights[0] < heights[1] == heights[2] < heights[3]


def test_every_agent_has_its_lane():
    made = draw_timeline(samples.trace())
    names = [text.text for text in ET.fromstring(made.svg).iter(f"{SVG}text") if text.get("class") == "who"]
    assert names == list(samples.WORKFLOW)


@given(st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats(0, 1e6)), min_size=1, max_size=30))
def test_no_bar_covers_another_of_its_lane_and_none_leaves_the_drawing(times):
    made = draw_timeline(Trace(spans=tuple(span(p, s, s + d) for p, (s, d) in enumerate(times))))
    rows = {}
    for bar in bars(made):
        left = per_cent(bar.get("x"))
        assert -0.001 <= left <= 100.001
        rows.setdefault(bar.get("y"), []).append((left, left + per_cent(bar.get("width"))))
    for row in rows.values():
        row.sort()
        for one, other in pairwise(row):
            assert one[1] <= other[0] + 0.305  # a bar is never narrower than 0.3 %


def test_a_trace_without_times_shows_its_steps_in_order_with_a_note():
    made = draw_timeline(Trace(spans=tuple(span(place) for place in range(4))))
    assert made.title == "Order of steps"
    assert made.notes == ("The trace has no times; steps are shown in order.",)
    assert [per_cent(bar.get("x")) for bar in bars(made)] == [0, 25, 50, 75]
    assert "tick" not in made.svg


def test_spans_without_times_among_others_are_counted():
    made = draw_timeline(Trace(spans=(span(1, 0, 1), span(2), span(3, float("nan")), span(4, 1e300))))
    assert made.notes == ("3 spans have no start and are not drawn.",)


def test_an_unfinished_span_reaches_the_end_and_is_marked():
    made = draw_timeline(Trace(spans=(span(1, 0, 10), span(2, 5, None, ok=None))))
    open_ended = bars(made)[1]
    assert "open" in open_ended.get("class").split()
    assert (per_cent(open_ended.get("x")), per_cent(open_ended.get("width"))) == (50, 50)
    assert "not finished" in open_ended[0].text


def test_a_failed_call_is_marked_in_words_too():
    (bar,) = bars(draw_timeline(Trace(spans=(span(1, 0, 10, ok=False),))))
    assert "failed" in bar.get("class").split()
    assert bar[0].text.endswith("failed")
    assert bar.find(f"{SVG}text").text == "✕ t1"


def test_a_span_that_ends_before_it_starts_has_no_negative_width():
    made = draw_timeline(Trace(spans=(span(1, 5, 1), span(2, 0, 10))))
    assert all(per_cent(bar.get("width")) > 0 for bar in bars(made))


@pytest.mark.parametrize("timed", [True, False])
def test_of_many_spans_the_first_are_shown_with_a_note(timed):
    spans = tuple(
        span(place, place if timed else None, place + 1.0 if timed else None) for place in range(1200)
    )
    made = draw_timeline(Trace(spans=spans))
    assert len(bars(made)) == SPANS_SHOWN
    assert any(note.startswith("The first 300 of 1,200") for note in made.notes)


def test_a_trace_without_spans_has_no_timeline():
    assert draw_timeline(Trace()) is None


def test_a_moment_is_still_a_drawing():
    assert len(bars(draw_timeline(Trace(spans=(span(1, 7.0, 7.0),))))) == 1


def test_times_are_marked_in_round_numbers():
    root = ET.fromstring(draw_timeline(Trace(spans=(span(1, 3.0, 33.0),))).svg)
    ticks = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "tick"]
    assert ticks == ["5 s", "10 s", "15 s", "20 s", "25 s"]


def test_names_of_strangers_are_escaped():
    trace = hostile_view().attempt.trace
    made = draw_timeline(msgspec.structs.replace(trace, messages=()))
    assert "<script" not in made.svg
    ET.fromstring(made.svg)


def test_the_critical_path_is_a_line_under_what_lies_on_it():
    spans = (
        span("m", 0, 10, kind="agent", name="m", agent="m"),
        span(1, 0, 4, parent="m", agent="m"),
        span(2, 0, 8, parent="m", agent="m"),
    )
    root = ET.fromstring(draw_timeline(Trace(spans=spans)).svg)
    lines = [line for line in root.iter(f"{SVG}line") if line.get("class") == "critical"]
    assert [(per_cent(line.get("x1")), per_cent(line.get("x2"))) for line in lines] == [(0, 80), (80, 100)]
    (band,) = [rect for rect in root.iter(f"{SVG}rect") if rect.get("class") == "parallel"]
    assert (per_cent(band.get("x")), per_cent(band.get("width"))) == (0, 40)


def test_retries_and_further_rounds_are_marked():
    same = {"input": {"q": 1}, "agent": "x"}
    spans = [span(0, 0, 1, ok=False, name="a", **same), span(1, 1, 2, name="a", **same)]
    spans += [span(2 + i, 2 + i, 3 + i, name="b", **same) for i in range(3)]
    made = bars(draw_timeline(Trace(spans=tuple(spans))))
    assert [bar.get("class").split()[2:] for bar in made] == [
        ["failed"],
        ["retry"],
        [],
        ["looped"],
        ["looped"],
    ]
    titles = [bar.find(f"{SVG}title").text for bar in made]
    assert titles[1].endswith("a retry")
    assert titles[3].endswith("repeats a loop")


def test_without_times_there_is_no_path_but_retries_are_marked():
    same = {"input": {}, "name": "a"}
    made = draw_timeline(Trace(spans=(span(0, ok=False, **same), span(1, **same))))
    assert "critical" not in made.svg
    assert "retry" in made.svg
