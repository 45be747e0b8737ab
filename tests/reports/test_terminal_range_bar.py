from hypothesis import given
from hypothesis import strategies as st

from trivium.reports.document.terminal import range_bar

share = st.floats(0, 1)


def test_the_bar_shows_mean_and_interval():
    assert range_bar(0.5, (0.3, 0.7), columns=11) == "···├─●─┤···"


def test_nothing_known_is_an_empty_line():
    assert range_bar(None, None, columns=5) == "·····"


@given(share, share, share, st.integers(2, 60))
def test_the_bar_has_the_requested_width_and_the_mean_is_in_proportion(mean, one, other, columns):
    bar = range_bar(mean, (min(one, other), max(one, other)), columns=columns)
    assert len(bar) == columns
    assert abs(bar.index("●") - mean * (columns - 1)) <= 0.5 + 1e-9


def test_a_value_outside_the_line_sticks_to_its_edge():
    assert range_bar(1.5, None, columns=4) == "···●"
