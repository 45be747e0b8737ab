"""Recorded outputs are judged only until the gates are decided."""

import json

import msgspec
import pytest

import trivium as tv
from tests.runs.judging.suites import provider, suite
from trivium.cli.main import run_command
from trivium.errors import InputError, OutputsError
from trivium.runs.pipeline import NoProgress
from trivium.runs.summarize import summarise
from trivium.runs.until_decided.gates import Gates, values_of
from trivium.runs.until_decided.order import place_of
from trivium.store.store import Store

CASES, AT_ONCE = 200, 4


def judged(at_least=0.35, **keys):
    """Judges give 1 to 5 of 5 points at random: the mean is about 0.6."""
    settings = {"until_decided": True, "gates": {"clarity": {"at_least": at_least}}, **keys}
    return suite(CASES, metrics=("clarity",), concurrency=AT_ONCE).with_settings(
        **settings, limits={"attempts_at_once": 1}
    )


def outputs(count=CASES, *, repeats=1):
    return [
        {"case": f"c{index}", "repeat": repeat, "output": f"Review {index}.{repeat}. It is sound."}
        for index in range(count)
        for repeat in range(repeats)
    ]


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


@pytest.mark.parametrize(("at_least", "answer"), [(0.35, "pass"), (0.9, "fail")])
def test_the_judge_is_asked_until_the_gate_is_decided(monkeypatch, store, at_least, answer):
    with provider(monkeypatch) as server:
        run = tv.evaluate(judged(at_least), outputs=outputs(), store=store)
    summary = run.summary()
    assert summary.gates[0].answer == answer
    asked = server.counts["requests"]
    assert asked == summary.attempts == summary.cases == run.record.due <= CASES / 2
    assert summary.missing == 0
    scored = f"{summary.cases} of {CASES} cases were scored, in random order, until all gates were decided"
    assert summary.warnings[0].startswith(scored)
    assert msgspec.to_builtins(summarise(store, store.run(run.id))) == msgspec.to_builtins(summary)


def test_what_is_in_flight_at_the_decision_is_about_what_the_judge_takes_at_once(monkeypatch, store):
    with provider(monkeypatch) as server:
        run = tv.evaluate(judged(), outputs=outputs(), store=store)
    settings = run.record.settings
    gates = Gates(settings, [1] * CASES)
    needed = 0
    for each in sorted(run.evaluations(), key=lambda one: place_of(run.id, one.case)):
        if gates.decided:
            break
        gates.bet([values_of([each], settings)])
        needed += 1
    assert needed <= server.counts["requests"] <= needed + AT_ONCE


def test_the_judge_is_asked_until_the_comparison_is_decided(monkeypatch, store):
    with provider(monkeypatch) as server:
        base = tv.evaluate(judged(margin=0.5, until_decided=False), outputs=outputs(), store=store)
        whole = server.counts["requests"]
        after = [one | {"output": f"{one['output']} And more."} for one in outputs()]
        head = tv.evaluate(
            judged(margin=0.5), outputs=after, store=store, against=base.id, against_metric="clarity"
        )
    asked = server.counts["requests"] - whole
    assert whole == CASES
    assert asked == head.summary().attempts < CASES / 2
    compared = tv.compare(base, head)
    assert (compared.answer, compared.decided_by) == ("pass", ("clarity",))
    assert compared.metrics["clarity"].method == "betting, valid at every look"


def test_without_a_judge_a_comparison_saves_nothing(store):
    cases = [{"id": "a", "input": "?", "references": ["Review"]}]
    base = tv.evaluate(cases, outputs=[{"case": "a", "output": "b"}], metrics=["jaccard"], store=store)
    with pytest.raises(InputError, match="an agent or a judge whose calls are saved"):
        tv.evaluate(
            cases,
            outputs=[{"case": "a", "output": "b"}],
            metrics=["jaccard"],
            until_decided=True,
            against=base.id,
            store=store,
        )


def test_repeats_are_scored_whole(monkeypatch, store):
    with provider(monkeypatch):
        run = tv.evaluate(judged(repeats=2), outputs=outputs(repeats=2), store=store)
    attempts = [(each.case, each.repeat) for each in run.attempts()]
    assert {case for case, repeat in attempts if repeat == 0} == {case for case, repeat in attempts if repeat}
    assert len(attempts) < CASES


class Stops(NoProgress):
    """Ends the run once, after some attempts."""

    run, done = "", 0

    def begin(self, *, run, total, already):
        self.run = run

    def advance(self, *, done, failed):
        self.done += done
        if self.done >= 5:
            raise OutputsError("", "stopped")


def test_an_interrupted_run_asks_nothing_twice(monkeypatch, store):
    stops = Stops()
    with provider(monkeypatch) as server:
        with pytest.raises(OutputsError, match="stopped"):
            tv.evaluate(judged(), outputs=outputs(), store=store, progress=stops)
        run = tv.evaluate(judged(), outputs=outputs(), store=store, resume=stops.run)
    assert run.summary().gates[0].answer == "pass"
    assert server.counts["requests"] <= run.summary().attempts + AT_ONCE


def test_outputs_of_only_some_cases_are_refused(monkeypatch, store):
    """Which they are might depend on how good they are."""
    what = "until_decided needs every output; 3 of 200 cases lack one \\(first: c197\\)"
    with provider(monkeypatch) as server, pytest.raises(OutputsError, match=what):
        tv.evaluate(judged(), outputs=outputs(CASES - 3), store=store)
    assert not server.counts["requests"]


def test_without_a_judge_nothing_would_be_saved(store):
    """Scores that cost nothing are all computed."""
    run = tv.evaluate(
        [{"id": f"c{index}", "input": "?", "references": ["Review"]} for index in range(CASES)],
        outputs=outputs(),
        metrics=["jaccard"],
        gates={"jaccard": {"at_least": 0.01}},
        until_decided=True,
        store=store,
    )
    assert run.summary().cases == CASES
    assert run.summary().gates[0].method is None


def test_the_command_asks_for_a_judge(tmp_path, capsys):
    (tmp_path / "cases.jsonl").write_text(json.dumps({"id": "a", "input": "?", "references": ["b"]}))
    (tmp_path / "outputs.jsonl").write_text(json.dumps({"case": "a", "output": "b"}))
    given = ["score", str(tmp_path / "cases.jsonl"), "--outputs", str(tmp_path / "outputs.jsonl")]
    assert run_command([*given, "--until-decided"]) == 2
    assert "--until-decided saves judgements, and this suite has no judge" in capsys.readouterr().err
