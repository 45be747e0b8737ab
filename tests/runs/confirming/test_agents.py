"""Which agents are asked again: as their runs name them or the user does, if they are of that version."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

import trivium as tv
from tests.agents.adapters.test_http import serving
from tests.judge_server.faults import ANSWER, failure
from tests.runs.judging.suites import provider
from tests.runs.judging.suites import suite as judged_suite
from tests.runs.suites import told_suite
from trivium.agents.attempt import AgentResponse, ResourcesExhausted
from trivium.errors import AgentError, InputError
from trivium.runs.confirming.agents import agent_of, base_agent_if_known
from trivium.runs.run import Run
from trivium.store.records import Provenance
from trivium.store.store import Store
from trivium.suites.agent_settings import AgentSettings

AGENT = """
def answer(question):
    return "0" if question in {broken!r} else "1"
"""


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "stored" / "store.db")) as opened:
        yield opened


def git(folder, *words):
    identity = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with an agent, in whose folder everything happens."""
    monkeypatch.delenv("GIT_DIR")
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("app.py").write_text(AGENT.format(broken=[]))
    git(folder, "init", "--initial-branch=main")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "first")
    return folder


def changed(folder):
    """The next commit breaks a case."""
    (folder / "app.py").write_text(AGENT.format(broken=["q1"]))
    git(folder, "commit", "-am", "second")


def asked(comparison):
    return comparison.confirmed.base.attempts > 0, comparison.confirmed.head.attempts > 0


def test_head_is_asked_by_the_agent_that_it_names_and_base_only_if_it_is_of_that_version(store, repository):
    base = tv.evaluate(told_suite(12), agent="app.py:answer", store=store)
    changed(repository)
    head = tv.evaluate(told_suite(12), agent="app.py:answer", store=store)
    git(repository, "worktree", "add", "../before", "HEAD~1")

    assert asked(tv.confirm(base, head, calls=8, policy="proof")) == (False, True)
    comparison = tv.confirm(base, head, calls=16, policy="proof", base_agent="../before/app.py:answer")
    assert asked(comparison) == (True, True)
    for run in comparison.confirmed.runs:
        assert store.run(run).provenance.fingerprint in {each.provenance.fingerprint for each in (base, head)}


def test_another_version_than_that_of_the_run_is_refused(store, repository):
    base = tv.evaluate(told_suite(12), agent="app.py:answer", store=store)
    changed(repository)
    head = tv.evaluate(told_suite(12), agent="app.py:answer", store=store)

    with pytest.raises(
        InputError, match=f"is not the version that run {base.id} was made with.*--base-agent"
    ):
        tv.confirm(base, head, calls=8, policy="proof", base_agent="app.py:answer")
    (repository / "prompt.txt").write_text("Answer.")
    with pytest.raises(InputError, match=f"is not the version that run {head.id} was made with"):
        tv.confirm(base, head, calls=8, policy="proof")
    assert not store.confirm_runs("told")


def test_a_named_version_is_that_of_the_run(store):
    def run(output, version=None):
        return tv.evaluate(told_suite(4), agent=lambda _: output, store=store, version=version)

    head, nameless = run("0", "v2"), run("0.2")

    assert agent_of(head, lambda _: "0", option="--agent", version="v2").version == Provenance(version="v2")
    for each, version, words in (
        (head, "v3", f"run {head.id} is of version v2, not of v3"),
        (nameless, "v2", f"run {nameless.id} is of no named version, not of v2"),
    ):
        with pytest.raises(InputError, match=words):
            agent_of(each, lambda _: "0", option="--agent", version=version)


def test_one_agent_behind_both_runs_is_not_taken_for_that_of_base(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("one.py").write_text(AGENT.format(broken=[]))
    Path("two.py").write_text(AGENT.format(broken=["q1"]))
    one, again, two = (
        tv.evaluate(told_suite(4), agent=f"{name}.py:answer", store=store) for name in ("one", "one", "two")
    )

    assert "one.py:answer is the agent of both runs" in base_agent_if_known(one, again)
    assert base_agent_if_known(one, two).named == "one.py:answer"


@pytest.mark.parametrize("given", [None, "cmd"])
def test_commands(store, tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    script = "import sys; print(int(sys.stdin.read() not in %r))"
    Path("before.py").write_text(script % [])
    Path("after.py").write_text(script % ["q1"])
    names = [f"cmd:{sys.executable} {name}.py" for name in ("before", "after")]
    runs = [tv.evaluate(told_suite(8), agent=name, store=store) for name in names]
    agents = {"agent": names[1], "base_agent": names[0]} if given else {}
    comparison = tv.confirm(*runs, calls=12, policy="proof", **agents)

    assert asked(comparison) == (True, True)
    assert [move.case for move in comparison.moved_cases.changes if move.state == "broke"] == ["q1"]


def test_addresses(store):
    def answer(handler, body):
        handler.reply(200, json.dumps(0 if json.loads(body)["input"] == "q1" else 1))

    with serving(lambda handler, _: handler.reply(200, "1")) as before, serving(answer) as after:
        runs = [tv.evaluate(told_suite(8), agent=each.url, store=store) for each in (before, after)]
        comparison = tv.confirm(*runs, calls=12, policy="proof")

    assert asked(comparison) == (True, True)


def test_headers_come_from_the_suite_file_because_no_run_stores_them(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEY", "key-of-the-agent")
    seen = []

    def answer(handler, _):
        seen.append(handler.headers["X-Key"])
        handler.reply(200, "1")

    with serving(answer) as server:
        settings = AgentSettings(url=server.url, headers={"X-Key": "${KEY}"})
        suite = told_suite(8, agent=settings)
        base = tv.evaluate(suite, agent=lambda _: "1", store=store)
        head = tv.evaluate(suite, store=store)
        keys = {"url": server.url, "headers": settings.headers}
        Path("suite.json").write_text(
            json.dumps({"name": "told", "cases": [{"id": "a", "input": "a"}], "agent": keys})
        )
        with pytest.raises(InputError, match="does not store the headers of its agent: give the suite file"):
            tv.confirm(base, head, calls=4, policy="proof")
        seen.clear()
        comparison = tv.confirm(base, head, calls=4, policy="proof", agent="suite.json")

    assert asked(comparison) == (False, True)
    assert set(seen) == {"key-of-the-agent"}


def test_an_agent_that_is_not_there_is_refused_before_anything_is_asked(store):
    calls = []

    def head(question):
        calls.append(question)
        return "0" if question == "q1" else "1"

    runs = [tv.evaluate(told_suite(8), agent=agent, store=store) for agent in (lambda _: "1", head)]
    calls.clear()
    with pytest.raises(AgentError, match=r"there is no file nowhere\.py"):
        tv.confirm(*runs, calls=4, agent=head, base_agent="nowhere.py:answer", policy="proof")
    assert calls == []


def test_a_suite_file_without_an_agent_names_none(store, tmp_path):
    path = tmp_path / "suite.json"
    path.write_text(json.dumps({"name": "told", "cases": [{"id": "a", "input": "a"}]}))
    run = tv.evaluate(told_suite(4), agent=lambda _: "1", store=store)

    with pytest.raises(InputError, match="names no agent; --agent needs one"):
        agent_of(run, str(path), option="--agent")


def test_what_is_not_finished_goes_on_with_the_same_agents(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("before.py").write_text(AGENT.format(broken=[]))
    Path("after.py").write_text(AGENT.format(broken=["q1"]))
    Path("other.py").write_text(AGENT.format(broken=["q1"]))
    names = [f"{name}.py:answer" for name in ("before", "after")]
    runs = [tv.evaluate(told_suite(12), agent=name, store=store) for name in names]
    how = {"calls": 12, "policy": "proof", "margin": 0.001}
    made = tv.confirm(*runs, **how).confirmed
    for run in made.runs:
        store.finish(store.run(run), "interrupted", summary=None)

    with pytest.raises(InputError, match=r"of after\.py:answer is not finished: go on with the same agent"):
        tv.confirm(*runs, **how, agent="other.py:answer")
    Path("before.py").unlink()
    with pytest.raises(InputError, match="was begun with base's agent and is not finished: name that agent"):
        tv.confirm(*runs, **how)
    Path("before.py").write_text(AGENT.format(broken=[]))
    assert tv.confirm(*runs, **how).confirmed.runs == made.runs


def test_judges_judge_what_is_asked_again(store, monkeypatch):
    suite = judged_suite(8, metrics=("clarity",)).with_settings(
        passed={"metric": "clarity", "at_least": 0.9}, decide={"by": "clarity"}
    )

    def before(prompt, *, repeat):
        return f"Review {repeat}. {prompt} It is sound."

    def after(prompt, *, repeat):
        return f"Another review {repeat}. {prompt} It may be sound."

    with provider(monkeypatch) as server:
        runs = [tv.evaluate(suite, agent=agent, store=store) for agent in (before, after)]
        judged = len(server.requests)
        comparison = tv.confirm(*runs, calls=6, agent=after, base_agent=before, policy="proof", margin=0.001)

        assert comparison.decided_by == ("clarity",)
        made = comparison.confirmed
        assert made.base.attempts + made.head.attempts == 6
        assert len(server.requests) == judged + 6
        assert made.head.cost_usd > 0


def test_attempts_without_a_judgement_are_paid_for_and_decide_nothing(store, monkeypatch):
    """The judge fails at every second attempt that is made to confirm."""
    suite = judged_suite(8, metrics=("clarity",), on_failure="skip").with_settings(
        passed={"metric": "clarity", "at_least": 0.1}
    )

    def plan(question):
        return ANSWER if question.number < 16 or question.number % 2 else failure(402, message="no credits")

    def agent(word):
        return lambda prompt, *, repeat: f"{word} {repeat}. {prompt} It is sound."

    agents = agent("Before"), agent("After")
    with provider(monkeypatch, plan=plan):
        runs = [tv.evaluate(suite, agent=each, store=store) for each in agents]
        comparison = tv.confirm(
            *runs, calls=10, agent=agents[1], base_agent=agents[0], policy="proof", margin=0.001
        )

    made = comparison.confirmed
    with_verdict = [
        evaluation.passed is not None
        for run in made.runs
        for evaluation in Run.load(run, store=store).evaluations()
    ]
    assert made.base.attempts + made.head.attempts == len(with_verdict) <= 10
    assert 0 < sum(with_verdict) < len(with_verdict)
    assert made.end in {"calls", "nothing"}


class Crowded:
    """An agent for which the machine has no room at the first three further attempts."""

    name = "crowded"

    def __init__(self, broken=()):
        self.broken, self.refused = broken, 0

    async def call(self, request):
        await asyncio.sleep(0)
        if request.repeat and self.refused < 3:
            self.refused += 1
            raise ResourcesExhausted("no process is left")
        return AgentResponse(output="0" if request.case.id in self.broken else "1")

    async def close(self):
        pass


def test_an_attempt_for_which_there_is_no_room_is_made_later(store):
    agents = Crowded(), Crowded(broken=["q1"])
    runs = [tv.evaluate(told_suite(12), agent=agent, store=store) for agent in agents]
    comparison = tv.confirm(
        *runs, calls=16, agent=agents[1], base_agent=agents[0], policy="proof", margin=0.001
    )

    made = comparison.confirmed
    assert made.base.attempts + made.head.attempts == 16
    assert (made.base.failed, made.head.failed) == (0, 0)
    assert [agent.refused for agent in agents] == [3, 3]
