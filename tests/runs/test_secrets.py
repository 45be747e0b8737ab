"""Tests that a secret in an agent's output is scored as it is, and never stored, shown or exported."""

import json
from pathlib import Path

import pytest

import trivium as tv
from trivium.agents.attempt import AgentFailure, Attempt
from trivium.agents.response import SECRETS_MASKED, masked, secret_flags
from trivium.cli.main import run_command
from trivium.metrics.judge.pairwise import Pair
from trivium.metrics.judge.prompts.context import build_context
from trivium.metrics.metric import Metric, MetricInput
from trivium.metrics.registry import REGISTERED
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.traces.trace import Span, Trace

OWN, OTHER = "my-own-key-9876543210", "ghp_abcdefghijklmnopqrst123456"


@tv.metric("tests.saw")
class Saw(Metric):
    """Whether the metric saw the secret, in the output and in the trace; it quotes both."""

    tier = "text"

    def score(self, metric_input):
        attempt = metric_input.attempt
        said = attempt.text if attempt.trace is None else attempt.text + str(attempt.trace.spans)
        return self.ok(
            float(OTHER in said), raw=f"saw {said}", detail={"said": [said]}, reason=f"it said {said}"
        )


del REGISTERED["tests.saw"]  # suites name it by its path
SAW = f"{Saw.__module__}:{Saw.__name__}"


@pytest.fixture(autouse=True)
def _a_leaking_agent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", OWN)
    Path("leaking_agent.py").write_text(
        "import os\n"
        "def ask(question):\n"
        "    key = os.environ['OPENAI_API_KEY']\n"
        "    span = {'id': 's', 'kind': 'tool', 'name': 'env', 'input': {'password': 'hunter2'},\n"
        f"            'output': '{OTHER}'}}\n"
        "    trace = {'trace_id': 't', 'spans': [span]}\n"
        "    output = [f'key {key}', {'password': 'hunter2'}]\n"
        "    return {'output': output, 'trace': trace, 'metadata': {'seen': key}}\n"
    )
    suite = {
        "name": "s",
        "metrics": ["jaccard", "time"],
        "cases": [{"id": "c", "input": "?", "references": ["key"]}],
    }
    Path("suite.json").write_text(json.dumps(suite))


def test_an_agent_that_is_asked(capsys):
    store = ["--store", "s.db"]
    assert run_command(["run", "suite.json", "--agent", "leaking_agent:ask", "--html", "r.html", *store]) == 0
    assert run_command(["export", "--what", "attempts", "--output", "a.jsonl", *store]) == 0
    printed = capsys.readouterr()
    everything = [
        printed.out,
        printed.err,
        *(path.read_text(errors="replace") for path in Path().glob("[ars].*")),
    ]
    assert len(everything) >= 5
    for secret in (OWN, OTHER, "hunter2"):
        assert not any(secret in text for text in everything)
    with Store("s.db", read_only=True) as opened:
        (stored,) = opened.attempts(opened.run())
    assert stored.attempt.output == ["key [masked]", {"password": "[masked]"}]
    assert stored.attempt.flags == (SECRETS_MASKED,)
    assert stored.attempt.trace.spans[0].output == "[masked]"


def test_outputs_that_were_recorded_elsewhere():
    Path("o.jsonl").write_text(json.dumps({"case": "c", "output": f"it is {OTHER}"}) + "\n")
    assert run_command(["score", "suite.json", "--outputs", "o.jsonl", "--store", "s.db", "--quiet"]) == 0
    with Store("s.db", read_only=True) as opened:
        (stored,) = opened.attempts(opened.run())
    assert stored.attempt.output == "it is [masked]"
    assert stored.attempt.flags == (SECRETS_MASKED,)


def _stored_score(store, run_id=None):
    """The one score of a run, after a look at everything that the store holds."""
    with Store(store, read_only=True) as opened:
        run = opened.run(run_id) if run_id else opened.run()
        (attempt,) = opened.attempts(run)
        (evaluation,) = opened.evaluations(run)
    assert OTHER not in f"{attempt}{evaluation}"
    assert SECRETS_MASKED in attempt.attempt.flags
    return evaluation.evaluation.scores["tests.saw"]


def _cases(**case):
    return {"name": "s", "metrics": [SAW], "cases": [{"id": "c", "input": "?", **case}]}


def _by_evaluate():
    return tv.evaluate(tv.Suite.load(_cases()), agent=lambda question: f"it is {OTHER}", store="s.db")


def _by_score():
    Path("o.jsonl").write_text(json.dumps({"case": "c", "output": f"it is {OTHER}"}) + "\n")
    Path("saw.json").write_text(json.dumps(_cases()))
    assert run_command(["score", "saw.json", "--outputs", "o.jsonl", "--store", "s.db"]) == 0


def _by_traces():
    span = Span(id="a", kind="agent", name="it", ok=True, output=f"it is {OTHER}")
    tv.score_traces(Trace(trace_id="t", spans=(span,)), metrics=[SAW], store="s.db")


def _by_monitor():
    with tv.Monitor({"name": "s", "metrics": [SAW]}, sample_rate=1, store="s.db") as monitor:
        monitor.record(input="?", output=f"it is {OTHER}")
        monitor.flush(scored=True)


@pytest.mark.parametrize(
    "enter",
    [_by_evaluate, _by_score, _by_traces, _by_monitor],
    ids=lambda each: each.__name__,
)
def test_scores_are_computed_on_what_the_agent_wrote(enter):
    enter()
    score = _stored_score("s.db")
    assert score.value == 1.0
    assert "it is [masked]" in score.raw
    assert "it is [masked]" in score.detail["said"][0]
    assert "it is [masked]" in score.reason


def test_the_attempts_of_a_store_are_scored_again_as_they_are_stored():
    first = _by_evaluate()
    again = tv.evaluate(tv.Suite.load(_cases()), attempts_of=first.id, store="s.db")
    assert _stored_score("s.db", again.id).value == 0.0


def test_a_judge_is_sent_no_secret():
    trace = Trace(spans=(Span(id="a", kind="tool", name="env", output=OTHER),))
    attempt = Attempt(
        case="c", output=f"it is {OTHER}", trace=trace, flags=secret_flags(f"it is {OTHER}", {}, trace)
    )
    case = Case(id="c", input="?")
    for shown in (MetricInput(case, attempt), Pair(case, attempt, second=attempt)):
        assert OTHER not in str(build_context(shown, excerpt_chars=10_000))
    assert masked(attempt).output == "it is [masked]"


def test_the_trace_of_an_attempt_that_failed_is_masked_too():
    def fails(question):
        raise AgentFailure("no", trace=Trace(spans=(Span(id="a", kind="tool", name="env", output=OTHER),)))

    tv.evaluate(tv.Suite.load(_cases()), agent=fails, store="s.db")
    with Store("s.db", read_only=True) as opened:
        (stored,) = opened.attempts(opened.run())
    assert stored.attempt.trace.spans[0].output == "[masked]"
