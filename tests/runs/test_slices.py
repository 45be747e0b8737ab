"""Figures of a run by tag, complexity, group and metadata."""

import msgspec
import pytest

import trivium as tv
from tests.runs.suites import TOLD, tv_composite
from trivium.errors import InputError
from trivium.runs import slices as slicing
from trivium.suites.settings import PassRule, Settings


def suite_of(rows, **settings) -> tv.Suite:
    """Cases whose output should be the number given; rows are (number, fields of the case)."""
    cases = [
        tv.Case(id=f"q{index}", input=str(number), **fields) for index, (number, fields) in enumerate(rows)
    ]
    defaults = {
        "metrics": (TOLD,),
        "passed": PassRule(metric="told", at_least=0.5),
        "composite": tv_composite({"told": 1.0}),
    }
    return tv.Suite(name="sliced", cases=cases, settings=Settings(**(defaults | settings)))


def evaluated(suite, tmp_path, name="one"):
    return tv.evaluate(suite, agent=lambda question: question, store=f"sqlite:///{tmp_path / name}.db")


ROWS = [
    (0.9, {"tags": ("easy", "short"), "complexity": "simple", "metadata": {"city": "Riga"}}),
    (0.2, {"tags": ("hard",), "complexity": "complex", "metadata": {"city": "Oslo"}}),
    (0.8, {"tags": ("easy",), "complexity": "simple", "metadata": {"city": "Oslo", "floor": 2}}),
    (0.1, {"tags": ("hard", "short"), "complexity": "complex"}),
    (0.7, {"complexity": "medium"}),
]


def test_a_slice_has_the_figures_of_a_run_of_its_cases_alone(tmp_path):
    suite = suite_of(ROWS)
    run = evaluated(suite, tmp_path)
    for by, values in (("tag", ("easy", "short", "hard")), ("complexity", ("simple", "complex"))):
        slices = {one.value: one for one in run.slices(by).slices}
        for value in values:
            field = "tags" if by == "tag" else by
            alone = evaluated(suite.filter(**{field: value}), tmp_path, f"{by}-{value}").summary()
            one = slices[value]
            assert one.metrics["told"] == alone.metrics["told"]
            assert (one.cases, one.attempts, one.failed) == (alone.cases, alone.attempts, alone.failed)
            assert (one.pass_rate.mean, one.pass_rate.ci95) == (alone.pass_rate.value, alone.pass_rate.ci95)
            assert (one.composite.mean, one.composite.ci95) == (alone.composite.mean, alone.composite.ci95)


def test_the_worst_slice_comes_first_and_cases_without_a_value_are_counted(tmp_path):
    slices = evaluated(suite_of(ROWS), tmp_path).slices("tag")
    assert [one.value for one in slices.slices] == ["hard", "short", "easy"]
    assert slices.of == "pass_rate"
    assert slices.without == 1
    assert any("1 cases have no value" in warning for warning in slices.warnings)
    assert any("several slices" in warning for warning in slices.warnings)


def test_cases_are_sliced_by_metadata_by_a_path_and_by_the_clusters_of_the_run(tmp_path):
    run = evaluated(suite_of(ROWS, group="complexity"), tmp_path)
    assert {one.value: one.cases for one in run.slices("city").slices} == {"Riga": 1, "Oslo": 2}
    assert {one.value for one in run.slices("metadata.floor").slices} == {"2"}
    assert {one.value: one.cases for one in run.slices("group").slices} == {
        "simple": 2,
        "complex": 2,
        "medium": 1,
    }


def test_a_slice_that_fails_where_all_others_pass_differs_after_adjustment_and_the_others_do_not(tmp_path):
    rows = [(0.9 if index % 4 else 0.1, {"tags": (f"t{index % 4}",)}) for index in range(48)]
    slices = {one.value: one for one in evaluated(suite_of(rows), tmp_path).slices("tag").slices}
    assert slices["t0"].versus_rest.difference == -1.0
    assert slices["t0"].versus_rest.p_holm < 0.001
    noise = [(0.9 if index % 3 else 0.1, {"tags": (f"t{index % 4}",)}) for index in range(48)]
    slices = evaluated(suite_of(noise), tmp_path, "noise").slices("tag").slices
    assert all(one.versus_rest.p_holm > 0.05 for one in slices)


def test_many_slices_and_few_groups_are_warned_of(tmp_path):
    rows = [(0.9, {"tags": (f"t{index}",)}) for index in range(6)]
    warnings = evaluated(suite_of(rows), tmp_path).slices("tag").warnings
    assert any("6 slices some are low by chance" in warning for warning in warnings)
    assert any("6 slices have fewer than 10 groups" in warning for warning in warnings)


def test_without_verdicts_the_composite_orders_the_slices(tmp_path):
    run = evaluated(suite_of(ROWS, passed=PassRule(metric="success", at_least=0.5)), tmp_path)
    assert run.slices("complexity").of == "composite"
    assert [one.value for one in run.slices("complexity").slices] == ["complex", "medium", "simple"]


def test_an_unknown_key_is_refused_with_the_keys_that_cases_have(tmp_path):
    run = evaluated(suite_of(ROWS), tmp_path)
    with pytest.raises(InputError, match="no case has a value for 'citty'.*city.*Did you mean"):
        run.slices("citty")


def test_a_key_with_too_many_values_is_refused(tmp_path, monkeypatch):
    run = evaluated(suite_of(ROWS), tmp_path)
    monkeypatch.setattr(slicing, "MAX_SLICES", 2)
    with pytest.raises(InputError, match="tag has more than 2 values"):
        run.slices("tag")


def test_slices_become_frames_with_a_row_per_slice_and_metric(tmp_path):
    slices = evaluated(suite_of(ROWS), tmp_path).slices("tag")
    for frame in (slices.to_polars().to_dicts(), slices.to_pandas().to_dict("records")):
        rows = {(row["value"], row["metric"]): row for row in frame}
        assert rows["easy", "told"]["mean"] == pytest.approx(0.85)
        assert rows["hard", "pass_rate"]["mean"] == 0
        assert rows["hard", "pass_rate"]["difference"] < 0
        assert len(rows) == 3 * 3


def test_a_comparison_by_tag_has_the_differences_of_the_cases_alone(tmp_path):
    suite = suite_of(ROWS * 4)
    suite = tv.Suite(
        name="sliced",
        cases=[msgspec.structs.replace(case, id=f"q{at}") for at, case in enumerate(suite.cases)],
        settings=suite.settings,
    )
    store = f"sqlite:///{tmp_path / 'runs'}.db"
    base = tv.evaluate(suite, agent=lambda question: question, store=store)
    head = tv.evaluate(suite, agent=lambda question: "0.3" if float(question) > 0.75 else "0.9", store=store)
    compared = tv.compare(base, head, by=["tag"], resamples=200).slices["tag"]
    assert [one.value for one in compared] == ["easy", "short", "hard"]
    for one in compared:
        part = suite.filter(tags=one.value)
        alone = tv.compare(
            tv.evaluate(part, agent=lambda question: question, store=store),
            tv.evaluate(part, agent=lambda question: "0.3" if float(question) > 0.75 else "0.9", store=store),
            resamples=200,
        )
        for name, delta in one.metrics.items():
            expected = alone.metrics[name]
            assert (delta.delta, delta.ci95, delta.p, delta.n) == (
                expected.delta,
                expected.ci95,
                expected.p,
                expected.n,
            )
    easy, short, hard = compared
    assert (easy.change("pass_rate", level=0.95), hard.change("pass_rate", level=0.95)) == ("worse", "better")
    assert short.change("pass_rate", level=0.95) is None
    assert short.change("jaccard", level=0.95) is None
    assert easy.metrics["pass_rate"].p_holm >= easy.metrics["pass_rate"].p
