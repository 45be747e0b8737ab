"""Tests comparisons of runs with missing scores."""

import json

import msgspec
import pytest

import trivium as tv
from tests.runs.comparing.told_runs import run_of
from tests.runs.judging.suites import provider, run, suite
from tests.runs.suites import told_suite
from trivium.cli.main import run_command
from trivium.display import as_text
from trivium.store.records import StoredEvaluation

CASES = 12


def other(prompt: str) -> str:
    """Another agent, whose words are the same and whose outputs are not."""
    return f"A review. {prompt} It is sound!"


@pytest.fixture
def unjudged(store, monkeypatch):
    """A run that was judged, and one for which there was no key."""
    made = suite(CASES).with_settings(composite={"weights": {"clarity": 1, "similarity": 1}})
    with provider(monkeypatch):
        base = run(made, store)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return base, tv.evaluate(made, agent=other, store=store)


def test_a_head_without_a_judge_is_reported_and_decides_nothing(unjudged):
    comparison = tv.compare(*unjudged)
    assert comparison.answer == "inconclusive"
    assert comparison.reason.startswith("head was not judged: OPENAI_API_KEY is not set")
    for name in ("clarity", "composite"):
        figure = comparison.metrics[name]
        assert (figure.answer, figure.missing, figure.pairs, figure.delta) == ("inconclusive", CASES, 0, None)
    assert comparison.missing == {"head": {"clarity": CASES}}
    text = " ".join(as_text(comparison, width=200).split())
    assert "head was not judged" in text
    assert "addresses" not in text


def test_the_command_ends_with_3_and_says_why_though_it_is_quiet(unjudged, store, capfd):
    base, head = unjudged
    command = ["compare", base.id, head.id, "--store", store.url]
    assert run_command([*command, "--quiet"]) == 3
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "head was not judged: OPENAI_API_KEY is not set" in captured.err
    assert run_command([*command, "--json"]) == 3
    assert json.loads(capfd.readouterr().out)["missing"] == {"head": {"clarity": CASES}}


def without_some(store, made, missing):
    """The run with some scores in error."""
    record = store.new_run(
        id=f"{made.id}-x",
        suite_name="told",
        suite=made.record.suite,
        kind="agent",
        settings=made.record.settings,
        provenance=made.record.provenance,
        attempts_from=made.record.number,
    )
    evaluations = []
    for stored in store.evaluations(made.record):
        evaluation = stored.evaluation
        if stored.position in missing:
            score = msgspec.structs.replace(
                evaluation.scores["told"], status="error", value=None, reason="broken"
            )
            lacking = msgspec.structs.replace(
                evaluation.composite, value=None, status="skipped", parts={"told": None}, bounds=(0.0, 1.0)
            )
            evaluation = msgspec.structs.replace(
                evaluation, scores={"told": score}, passed=None, composite=lacking
            )
        evaluations.append(StoredEvaluation(position=stored.position, evaluation=evaluation))
    store.save(record, evaluations=evaluations)
    return tv.Run(store, record)


@pytest.mark.parametrize(
    ("gain", "missing", "answer"),
    [
        (0.2, 0, "pass"),
        (0.2, 1, "pass"),
        (0.2, 30, "inconclusive"),
        (-0.4, 1, "fail"),
        (-0.4, 30, "inconclusive"),
    ],
)
def test_an_answer_holds_however_what_is_missing_comes_out(store, gain, missing, answer):
    """Of 40 cases that all gain or lose alike, give or take a little."""
    values = [0.5 + 0.01 * (i % 5) for i in range(40)]
    base = run_of(store, values)
    head = run_of(store, [value + gain + 0.005 * (i % 2) for i, value in enumerate(values)])
    figure = tv.compare(base, without_some(store, head, set(range(missing)))).metrics["told"]
    assert (figure.answer, figure.missing, figure.pairs) == (answer, missing, 40 - missing)
    assert figure.delta == pytest.approx(gain, abs=0.006)


def test_attempts_that_head_should_have_and_has_not_are_missing_from_it(store, tmp_path):
    made = told_suite(20)
    lines = [json.dumps({"case": case.id, "output": "0.6"}) for case in made]
    for name, kept in (("base", lines), ("head", lines[:8])):
        (tmp_path / name).write_text("\n".join(kept))
    base = tv.evaluate(made, outputs=tmp_path / "base", store=store)
    head = tv.evaluate(made, outputs=tmp_path / "head", store=store)
    comparison = tv.compare(base, head)
    assert comparison.answer == "inconclusive"
    assert comparison.metrics["told"].missing == 12
    assert comparison.missing == {"head": {"attempts": 12}}
    assert any("12 attempts are missing in head" in line for line in comparison.warnings)
    fewer = tv.evaluate(made.filter(id={f"q{i}" for i in range(8)}), outputs=tmp_path / "head", store=store)
    assert tv.compare(base, fewer).missing == {}, "cases that are no part of its suite are not missing"
