import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.reports import samples
from tests.reports.hostile_samples import hostile_summary
from trivium.display import as_text
from trivium.reports.document.terminal import Printed
from trivium.reports.summary import describe
from trivium.store.records import Provenance

names = st.text(min_size=1, max_size=60)


def printed(summary, **options):
    return Printed(describe(summary, "terminal", **options))


def lines(summary, **options):
    return as_text(printed(summary), **options).splitlines()


@pytest.mark.parametrize("width", [80, 100, 104, 140, 200])
@pytest.mark.parametrize("summary", [samples.summary(), hostile_summary()], ids=["calm", "hostile"])
def test_the_table_fits_its_columns(summary, width):
    assert max(cell_len(line) for line in lines(summary, width=width)) <= width


def test_a_run_of_judgements_alone_has_no_empty_pass_rate_and_composite():
    base = samples.summary(errors={})
    unscored = msgspec.structs.replace(base.composite, mean=None, recommendation=None, why_none=None)
    none = msgspec.structs.replace(
        base,
        passed=0,
        failed=0,
        pass_rate=msgspec.structs.replace(base.pass_rate, value=None),
        composite=unscored,
    )
    shown = "\n".join(lines(none))
    assert "no attempt has a verdict" in shown
    assert "pass rate" not in shown
    assert "no recommendation" not in shown
    assert "pass rate" in "\n".join(lines(base))


@given(names, names, names)
def test_the_table_fits_80_columns_for_all_names(metric, case, suite):
    base = samples.summary()
    summary = msgspec.structs.replace(
        base,
        suite=suite,
        metrics={metric: base.metrics["similarity"]},
        failures=(msgspec.structs.replace(base.failures[0], case=case),),
        dimension_averages={case: 0.5},
    )
    shown = lines(summary, width=80)
    assert max(cell_len(line) for line in shown) <= 80
    assert "0.389 " in "\n".join(shown)


def test_a_built_in_name_stays_on_one_line_at_80_columns():
    assert any(re.match(r"coordination_quality +0\.576 ", line) for line in lines(samples.summary()))


def test_a_reservation_is_wrapped_so_that_its_end_is_read():
    note = "read question as input, ground_truth as references; kept as metadata: topic, source; not read: n"
    shown = lines(samples.summary(warnings=(note,)), width=80)
    assert note in " ".join(" ".join(shown).split())


def test_intervals_are_drawn_where_there_is_room():
    assert not any("●" in line for line in lines(samples.summary(), width=103))
    drawn = [line for line in lines(samples.summary(), width=104) if "●" in line]
    assert len(drawn) == 11


def test_the_answer_comes_first_then_failures_then_numbers_then_reservations_then_the_origin():
    text = "\n".join(lines(samples.summary(metadata={"agent": "reviewer", "seed": 42})))
    order = [
        "✗ fail",
        "pass rate",
        "\ncomposite  ",
        "did not pass",
        "metric ",
        "! similarity is",
        "agent reviewer",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def test_a_run_is_called_by_the_name_of_its_version():
    named = samples.summary(metadata={**samples.summary().metadata, "version": "blue"})
    assert lines(named)[0] == f"{named.suite}  blue ({named.run})"


def test_the_pass_rate_is_in_the_first_five_lines():
    assert any(line.startswith("pass rate") for line in lines(samples.summary(gates=()))[:5])


def test_a_reservation_has_three_lines_at_most_and_a_few_are_shown_unless_details_are_asked_for():
    warnings = tuple(f"reservation {number} " + "word " * 60 + "end" for number in range(7))
    summary = samples.summary(warnings=warnings)
    shown = lines(summary)
    marked = [line for line in shown if line.startswith("!")]
    assert len(marked) == 4
    assert sum(line.endswith("…") for line in shown) == len(marked)
    assert "  3 more reservations (--details)" in shown
    full = " ".join(" ".join(as_text(printed(summary, details=True)).split()).split())
    assert all(" ".join(warning.split()) in full for warning in warnings)


def test_metrics_without_anything_are_counted_and_named_in_the_details():
    empty = msgspec.structs.replace(
        samples.summary().metrics["similarity"], mean=None, ci95=None, n=0, status={"skipped": 3}, missing=0
    )
    summary = samples.summary(metrics={"cosine": samples.summary().metrics["cosine"], "chrf": empty})
    summary = msgspec.structs.replace(summary, left_out=("bleu",), notes=("a remark",))
    shown = "\n".join(lines(summary))
    assert "2 more metrics had nothing to measure here (--details)" in shown
    assert "chrf" not in shown
    assert "a remark" not in shown
    details = as_text(printed(summary, details=True))
    assert "nothing to measure here: chrf, bleu" in details
    assert "a remark" in details


def test_a_metric_of_which_scores_are_missing_stays_in_the_table():
    gone = msgspec.structs.replace(
        samples.summary().metrics["similarity"], mean=None, ci95=None, n=0, status={"error": 3}, missing=3
    )
    assert any(line.startswith("chrf") for line in lines(samples.summary(metrics={"chrf": gone})))


def test_natural_units_and_directions_are_shown_next_to_the_score():
    base = msgspec.structs.replace(samples.summary().metrics["cosine"], mean=1.0, raw_mean=0.0)
    units = {
        "communication_overhead": {"unit": "of messages", "better": "lower", "raw_mean": 0.0},
        "time": {"unit": "s", "better": "lower", "raw_mean": 3.21},
        "centrality": {"unit": "", "better": None, "raw_mean": 4 / 3},
    }
    metrics = {name: msgspec.structs.replace(base, **fields) for name, fields in units.items()}
    text = "\n".join(lines(samples.summary(metrics=metrics), width=120))
    assert "0 of messages, lower is " in text
    assert "3.2 s, lower is better" in text
    assert "1.33, for information" in text


def test_few_groups_give_no_interval_next_to_a_mean():
    few = msgspec.structs.replace(samples.summary().metrics["cosine"], groups=4)
    enough = msgspec.structs.replace(few, groups=5)
    assert not any(
        "[" in line for line in lines(samples.summary(metrics={"m": few})) if line.startswith("m ")
    )
    assert any("[" in line for line in lines(samples.summary(metrics={"m": enough})) if line.startswith("m "))


def test_the_details_hold_the_whole_provenance():
    provenance = Provenance(python="3.11.7", metrics={"cosine": "1", "coordination_quality": "2"})
    table = printed(samples.summary(), details=True, provenance=provenance)
    text = " ".join(as_text(table, width=120).split())
    assert "python 3.11.7" in text
    assert "metrics cosine, coordination_quality (version 2)" in text
    assert "python 3.11.7" not in as_text(printed(samples.summary(), provenance=provenance))


def test_no_control_character_of_a_stranger_reaches_the_terminal():
    text = as_text(printed(hostile_summary()), colour=False)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_colours_are_there_when_asked_for():
    assert "\x1b[" in as_text(printed(samples.summary()), colour=True)


def test_the_number_of_failures_not_shown_is_reported():
    text = "\n".join(lines(samples.summary(failures_left_out=1000)))
    assert "did not pass (5 of 1,015, worst first)" in text


def test_people_stand_beside_the_run_on_equal_footing():
    shown = lines(samples.summary())
    below = shown[shown.index("compared with people") :]
    assert below[1] == "Each output is scored against the other people's outputs of its case."
    assert any(re.match(r"similarity +0\.377 +\[0\.327, 0\.427\] +0\.393 +\[", line) for line in below)
    assert not any("0.393" in line for line in shown[: shown.index("compared with people")])


def test_a_metric_that_is_only_reported_is_not_called_missing():
    (line,) = [line for line in lines(samples.summary(), width=140) if line.startswith("complexity")]
    assert " 24 " in line
    assert "/" not in line


def test_a_summary_of_nothing_is_still_shown():
    empty = samples.summary(
        [], metrics={}, composite=None, gates=(), failures=(), warnings=(), human_ceiling=None
    )
    text = "\n".join(lines(empty))
    assert "0 attempts of 0 cases" in text
    assert "pass rate" in text


def test_every_gate_shows_its_answer():
    text = "\n".join(lines(samples.summary()))
    assert all(answer in text for answer in ("✓ pass", "✗ fail", "? inconclusive"))
