"""What a function records becomes the trace of its attempt."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

import trivium as tv


@tv.trace.tool
def search(query):
    if query == "boom":
        raise ValueError("no such thing")
    return query


@tv.trace.agent
def sync_agent(question):
    with ThreadPoolExecutor(2) as pool:
        return pool.submit(tv.trace.carried(search), question).result()


@tv.trace.agent
async def async_agent(question):
    await asyncio.sleep(0)
    return search(question)


def evaluated(agent, *questions, tmp_path):
    cases = [tv.Case(id=str(number), input=question) for number, question in enumerate(questions)]
    suite = tv.Suite(cases=cases, name="recorded")
    run = tv.evaluate(suite, agent=agent, metrics=["tool_success"], store=f"sqlite:///{tmp_path}/s.db")
    return {attempt.case: attempt for attempt in run.attempts()}


@pytest.mark.parametrize("agent", [sync_agent, async_agent])
def test_each_attempt_has_the_trace_of_its_own_call(agent, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    attempts = evaluated(agent, *"abcdefgh", tmp_path=tmp_path)
    for attempt in attempts.values():
        (call,) = attempt.trace.tool_calls
        assert call.input == {"query": attempt.output}
        assert call.agent == agent.__name__
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("agent", [sync_agent, async_agent])
def test_a_failed_attempt_keeps_what_happened_before(agent, tmp_path):
    attempt = evaluated(agent, "boom", tmp_path=tmp_path)["0"]
    assert attempt.error == "ValueError: no such thing"
    assert attempt.trace.tool_calls[0].ok is False


def test_an_agent_that_hands_back_a_trace_is_taken_at_its_word(tmp_path):
    def agent(question):
        search("x")
        return {"output": question, "trace": {"spans": [{"id": "1", "kind": "tool", "name": "own"}]}}

    attempt = evaluated(agent, "a", tmp_path=tmp_path)["0"]
    assert [call.name for call in attempt.trace.tool_calls] == ["own"]


def test_an_agent_that_records_nothing_has_no_trace(tmp_path):
    assert evaluated(str.upper, "a", tmp_path=tmp_path)["0"].trace is None
