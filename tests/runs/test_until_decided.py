"""Runs that ask only until their gates are decided."""

import random
import signal

import msgspec
import numpy as np
import pytest

import trivium as tv
from trivium.cli.main import run_command
from trivium.errors import SuiteError
from trivium.runs.pipeline import NoProgress
from trivium.runs.summarize import summarise
from trivium.runs.until_decided.gates import Gates
from trivium.runs.until_decided.order import place_of
from trivium.suites.settings import Gate, Settings


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'store.db'}"


def suite_of(count=300, *, per_group=1, **keys):
    cases = [
        {"id": f"c{i}", "input": f"q{i}", "references": ["yes"], "group": f"g{i // per_group}"}
        for i in range(count)
    ]
    base = {"name": "asked", "metrics": ["success"], "success": {"exact": True}, "until_decided": True}
    return base | {"cases": cases, "gates": {"success": {"at_least": 0.7}}} | keys


def right(share):
    """An agent that is right about a share of the questions, always the same ones."""
    return lambda question: "yes" if random.Random(question).random() < share else "no"


@pytest.mark.parametrize(("share", "answer"), [(0.97, "pass"), (0.3, "fail")])
def test_it_stops_when_the_gate_is_decided(url, share, answer):
    run = tv.evaluate(suite_of(), agent=right(share), store=url)
    summary = run.summary()
    gate = summary.gates[0]
    assert (gate.answer, gate.method) == (answer, "betting, valid at every look")
    assert summary.cases == summary.attempts == summary.total_tests == run.record.due < 120
    assert summary.missing == 0
    low, high = gate.ci95
    assert low >= 0.7 if answer == "pass" else high < 0.7
    assert (
        f"{summary.cases} of 300 cases were asked, in random order, until all gates were"
        in summary.warnings[0]
    )


def test_what_is_not_decided_is_said(url):
    summary = tv.evaluate(suite_of(60), agent=right(0.75), store=url).summary()
    assert summary.cases == 60
    assert summary.gates[0].proof == "inconclusive"
    assert "60 of 60 cases were asked, in random order, and not all gates are decided" in summary.warnings[0]


def test_the_stored_run_gives_the_same_summary(url):
    run = tv.evaluate(suite_of(per_group=3), agent=right(0.95), store=url)
    with tv.Store(url) as store:
        again = summarise(store, store.run(run.id))
    assert msgspec.to_builtins(again) == msgspec.to_builtins(run.summary())


def test_groups_and_repeats_are_asked_whole(url):
    run = tv.evaluate(suite_of(120, per_group=4, repeats=2, group="group"), agent=right(0.95), store=url)
    asked = {}
    for score in run.attempts():
        asked.setdefault(int(score.case[1:]) // 4, []).append(score.repeat)
    assert 3 < len(asked) < 30
    assert all(sorted(repeats) == [0, 0, 0, 0, 1, 1, 1, 1] for repeats in asked.values())


def test_each_run_has_an_order_of_its_own(url):
    first, second = (
        {each.case for each in tv.evaluate(suite_of(), agent=right(1), store=url).attempts()} for _ in "ab"
    )
    assert first != second
    places = np.array(
        [[int(place_of(f"run {run}", f"g{group}")[0]) for group in range(40)] for run in range(300)]
    )
    assert np.abs(places.mean(axis=0) - 127.5).max() < 5 * 74 / np.sqrt(300)


class Stops(NoProgress):
    """Presses Ctrl-C once, after some attempts."""

    run = ""
    done = 0

    def begin(self, *, run, total, already):
        self.run = run

    def advance(self, *, done, failed):
        self.done += done
        if self.done >= 8:
            self.done = -1_000_000
            signal.raise_signal(signal.SIGINT)


def test_an_interrupted_run_goes_on_in_its_order(url):
    gates = {"success": {"at_least": 0.8}}
    suite, stops = suite_of(gates=gates, limits={"attempts_at_once": 2}), Stops()
    with pytest.raises(KeyboardInterrupt):
        tv.evaluate(suite, agent=right(0.93), store=url, progress=stops)
    with tv.Store(url) as store:
        before = {attempt.attempt.case for attempt in store.attempts(store.run(stops.run))}
    assert len(before) >= 8
    whole = tv.evaluate(suite, agent=right(0.93), store=url, resume=stops.run)
    cases = [each.case for each in whole.attempts()]
    assert before <= set(cases)  # on a busy machine Ctrl-C may come when all are asked
    order = sorted((f"c{i}" for i in range(300)), key=lambda case: place_of(whole.id, f"g{case[1:]}"))
    assert sorted(cases) == sorted(order[: len(cases)])
    assert whole.summary().gates[0].answer == "pass"


def test_a_missing_score_counts_as_its_worst_and_its_best():
    settings = Settings(gates={"a": Gate(at_least=0.5), "b": Gate(at_most=0.5)}, until_decided=True)
    gates = Gates(settings, [1] * 100)
    for _ in range(100):
        gates.bet([{"a": (0.0, 1.0), "b": (0.0, 1.0)}])
    assert [gates.answer("a", "at_least"), gates.answer("b", "at_most")] == ["inconclusive"] * 2
    assert gates.interval("a") == (0.0, 1.0)


def test_what_fails_counts_as_0_and_unscored_cases_say_nothing(url):
    def broken(question):
        raise ValueError("no")

    gates = {"success": {"at_least": 0.5}}
    summary = tv.evaluate(suite_of(gates=gates), agent=broken, store=url).summary()
    assert summary.gates[0].answer == "fail"
    assert summary.cases < 60
    nothing = Gates(Settings(gates={"a": Gate(at_least=0.5)}), [1])
    nothing.bet([{}])
    assert (nothing.answer("a", "at_least"), nothing.interval("a")) == ("inconclusive", None)


def test_a_gate_that_ignores_missing_scores_is_decided_without_them(url):
    suite = suite_of(gates={"jaccard": {"at_least": 0.5, "missing": "ignore"}}, metrics=["jaccard"])
    assert tv.evaluate(suite, agent=lambda question: "yes", store=url).summary().gates[0].answer == "pass"


def test_all_gates_have_to_be_decided(url):
    one = {"success": {"at_least": 0.2}}
    more = one | {"pass_rate": {"at_least": 0.6, "at_most": 0.99}, "composite": {"at_least": 0.1}}
    few, many = (
        tv.evaluate(
            suite_of(gates=gates, limits={"attempts_at_once": 1}), agent=right(0.8), store=url
        ).summary()
        for gates in (one, more)
    )
    assert [gate.answer for gate in many.gates] == ["pass"] * 4
    assert few.cases < many.cases < 300


def test_little_is_asked_in_vain(url):
    """About what is in flight at the decision; groups count in their order, not as they arrive."""
    asked = []

    def agent(question):
        asked.append(question)
        return "yes"

    decided = tv.evaluate(suite_of(2000, limits={"attempts_at_once": 1}), agent=agent, store=url).summary()
    least = len(asked)
    assert least == decided.attempts < 40
    more = tv.evaluate(suite_of(2000, limits={"attempts_at_once": 8}), agent=agent, store=url).summary()
    assert least <= more.attempts <= least + 8 * 8


def test_wrong_decisions_are_rare():
    """At the limit itself either answer is wrong; ICC 0.3, groups of 1 to 6."""
    rng = np.random.default_rng(3)
    worlds, wrong = 200, 0
    settings = Settings(gates={"a": Gate(at_least=0.8)}, until_decided=True)
    for _ in range(worlds):
        sizes = rng.integers(1, 7, 80)
        gates = Gates(settings, sizes.tolist())
        for size in sizes:
            own = rng.beta(0.8 * 7 / 3, 0.2 * 7 / 3)
            gates.bet([{"a": (value, value)} for value in (rng.random(size) < own).astype(float).tolist()])
            if gates.decided:
                wrong += 1
                break
    assert wrong <= 0.05 * worlds + 2.6 * np.sqrt(worlds * 0.05 * 0.95)


@pytest.mark.parametrize(
    ("gates", "said"),
    [
        ({}, "until_decided needs a gate to decide"),
        ({"pass@2": {"at_least": 0.5}}, "pass@2"),
    ],
)
def test_what_cannot_be_decided_is_refused(url, gates, said):
    with pytest.raises(SuiteError, match=said):
        tv.evaluate(suite_of(gates=gates), agent=right(1), store=url)


def test_cases_that_were_not_asked_are_in_no_slice_and_no_comparison(url):
    cases = [
        {"id": f"c{i}", "input": f"q{i}", "references": ["yes"], "tags": ["even" if i % 2 == 0 else "odd"]}
        for i in range(300)
    ]
    whole = tv.evaluate(suite_of(until_decided=False) | {"cases": cases}, agent=right(0.97), store=url)
    part = tv.evaluate(suite_of() | {"cases": cases}, agent=right(0.97), store=url)
    asked = part.summary().cases
    assert asked < 100
    slices = part.slices("tag")
    assert sum(each.attempts for each in slices.slices) == asked
    for base, head, word in ((whole, part, "head"), (part, whole, "base")):
        compared = tv.compare(base, head)
        assert compared.missing == {}
        assert compared.metrics["pass_rate"].pairs == asked
        assert any(
            f"{word} asked cases at most until its gates were decided" in each for each in compared.warnings
        )


def test_recorded_outputs_are_all_scored(url):
    outputs = [{"case": f"c{i}", "output": "yes"} for i in range(300)]
    summary = tv.evaluate(suite_of(), outputs=outputs, store=url).summary()
    assert summary.cases == 300
    assert summary.gates[0].method is None


def test_the_command_asks_until_it_is_decided(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "always.py").write_text("def yes(question):\n    return 'yes'\n")
    suite = suite_of()
    del suite["until_decided"]
    (tmp_path / "suite.json").write_bytes(msgspec.json.encode(suite))
    assert run_command(["run", "suite.json", "--agent", "always.py:yes", "--until-decided"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "of 300 cases were asked, in random order, until all gates were decided" in said
    assert run_command(["run", "suite.json", "--agent", "always.py:yes"]) == 0
    assert "300 attempts of 300 cases" in capsys.readouterr().out
