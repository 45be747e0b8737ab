import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.reports import comparison_samples as samples
from trivium.display import as_text
from trivium.runs.comparing.moved_cases import MovedCases


def shown(comparison, **options):
    return as_text(comparison, **options)


@pytest.mark.parametrize("width", [80, 104, 160])
@pytest.mark.parametrize("comparison", [samples.comparison(), samples.hostile()], ids=["calm", "hostile"])
def test_the_table_fits_its_columns(comparison, width):
    assert max(cell_len(line) for line in shown(comparison, width=width).splitlines()) <= width


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_it_fits_80_columns_for_all_names(figure, case):
    made = samples.comparison(
        metrics={figure: samples.delta(-0.123, 0.1, "inconclusive", needs_cases=123_456)},
        decided_by=(figure,),
        suite=case,
        warnings=(case,),
    )
    text = shown(made)
    assert max(cell_len(line) for line in text.splitlines()) <= 80
    assert "[−0.223, −0.023]" in text


def test_a_figure_says_answer_delta_interval_p_record_and_what_it_needs():
    row = next(line for line in shown(samples.comparison()).splitlines() if line.startswith("?  composite"))
    words = ["?", "composite", "−0.010", "[−0.060,", "+0.040]", "0.340", "1,234/5/0", "812"]
    assert row.split() == words


def test_means_are_shown_where_there_is_room():
    assert "0.410" not in shown(samples.comparison())
    assert "0.410" in shown(samples.comparison(), width=104)


def test_the_answer_comes_first_then_what_changed_the_figures_and_the_reservations():
    text = " ".join(shown(samples.comparison()).split())
    assert (
        text.index(
            "? inconclusive. Likely not worse (75 %): composite 0.500 → 0.490, −0.010 [−0.060, +0.040]"
        )
        < text.index("Policy proof: only what is proven")
        < text.index("what changed")
        < text.index("p (Holm)")
        < text.index("4 of 90 attempts")
    )
    assert "1 case only in base · 2 cases only in head" in text


def test_what_moved_is_shown_and_nothing_where_nothing_is_known():
    assert "↓ q3  passed → not passed" in shown(samples.comparison())
    assert "what changed" not in shown(samples.comparison(moved_cases=MovedCases()))


def test_no_text_moves_the_cursor():
    assert "\x1b" not in shown(samples.hostile())
