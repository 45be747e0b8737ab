"""Steps of unsteady_agents.feature."""

import json
from collections import Counter
from pathlib import Path

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from tests.features.world import World
from trivium.store.store import Store

scenarios("unsteady_agents.feature")

AGENTS = {
    "an agent that fails on every third question": (
        "def answer(question):\n"
        "    if int(question) % 3 == 2:\n"
        "        raise ValueError(f'no idea about {question}')\n"
        "    return 'right'\n"
    ),
    "an agent that hangs on one question": (
        "import asyncio\n"
        "async def answer(question):\n"
        "    if question == '1':\n"
        "        await asyncio.Event().wait()\n"
        "    return 'right'\n"
    ),
    "an agent that counts how often it is asked": (
        "def answer(question):\n"
        "    with open('asked.log', 'a') as log:\n"
        "        log.write(question + '\\n')\n"
        "    return 'right'\n"
    ),
    "an agent that is right on every other attempt": (
        "def answer(question, *, repeat):\n    return 'right' if repeat % 2 else 'wrong'\n"
    ),
    "an agent that prints as it works": "def answer(question):\n    print('working')\n    return 'right'\n",
}


def write_suite(count: int, **keys: object) -> None:
    cases = [{"id": f"c{i}", "input": str(i), "references": ["right"]} for i in range(count)]
    suite = {
        "name": "questions",
        "metrics": ["jaccard", "success"],
        "success": {"exact": True},
        "cases": cases,
    }
    Path("suite.json").write_text(json.dumps(suite | keys))


def run(world: World, *words: str) -> None:
    world.call("run", "suite.json", "--agent", "an_agent.py:answer", "--json", *words)


@given(parsers.re(r"(?P<agent>an agent that .*)"))
def an_agent(world: World, agent: str) -> None:
    Path("an_agent.py").write_text(AGENTS[agent])


@given(parsers.parse("a run of it on {count:d} questions that was cut short after {done:d}"))
def cut_short(world: World, count: int, done: int) -> None:
    write_suite(count)
    whole = Path("an_agent.py").read_text()
    # Ctrl-C reaches the command from outside while the third question is being answered.
    Path("an_agent.py").write_text(
        f"{whole}\n"
        "import os, signal, threading\n"
        "full = answer\n"
        "def answer(question):\n"
        f"    if question == '{done}':\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        threading.Event().wait()\n"
        "    return full(question)\n"
    )
    run(world, "--at-once", "1")
    assert world.code == 130
    assert f"{done} attempts are stored with their scores" in world.err
    (listed,) = world.ask("list")
    assert (listed["state"], listed["attempts"], listed["due"]) == ("interrupted", done, count)
    Path("an_agent.py").write_text(whole)


@when(parsers.parse("it is run on {count:d} questions"))
@when(parsers.parse("it is run on {count:d} questions and JSON is asked for"))
def is_run(world: World, count: int) -> None:
    write_suite(count)
    run(world)


@when(parsers.parse("it is run on {count:d} questions with a limit of {seconds:g} seconds"))
def is_run_with_a_limit(world: World, count: int, seconds: float) -> None:
    write_suite(count, limits={"seconds": seconds})
    run(world)


@when(parsers.parse("it is run on {count:d} questions with {repeats:d} repeats"))
def is_run_with_repeats(world: World, count: int, repeats: int) -> None:
    write_suite(count, repeats=repeats)
    run(world)


@when("the run is resumed")
def resume(world: World) -> None:
    run(world, "--at-once", "1", "--resume", world.ask("list")[0]["run"])


@then(parsers.parse("{count:d} attempts are reported as failed, each with its reason"))
def failed(world: World, count: int) -> None:
    assert world.answer["errors"]["attempts"] == count
    assert {one["why"] for one in world.answer["failures"]} == {
        "ValueError: no idea about 2",
        "ValueError: no idea about 5",
    }


@then("the failed ones count as 0 in the pass rate")
def count_as_0(world: World) -> None:
    assert world.answer["pass_rate"]["value"] == pytest.approx(4 / 6)
    assert world.answer["pass_rate"]["n"] == 6


@then("their other scores are left out and counted as skipped")
def left_out(world: World) -> None:
    figure = world.answer["metrics"]["jaccard"]
    assert (figure["mean"], figure["n"], figure["status"]) == (1.0, 4, {"ok": 4, "skipped": 2})


@then(parsers.parse("the attempt that hung says that no answer came within {seconds:g} s"))
def hung(world: World, seconds: float) -> None:
    assert [one["why"] for one in world.answer["failures"]] == [
        f"no answer within {seconds:g} s (limits.seconds)"
    ]


@then(parsers.parse("the other {count:d} attempts passed"))
def others_passed(world: World, count: int) -> None:
    assert world.answer["passed"] == count


@then("each question was answered once")
def answered_once(world: World) -> None:
    assert set(Counter(Path("asked.log").read_text().split()).values()) == {1}


@then(parsers.parse("the run has {count:d} attempts"))
def has_attempts(world: World, count: int) -> None:
    with Store(".trivium/store.db", create=False) as store:
        assert len(list(store.attempt_keys(store.run()))) == count
        assert store.run().state == "done"


@then("pass@2 is 1 and pass^2 is 0")
def pass_at_and_hat(world: World) -> None:
    metrics = world.answer["metrics"]
    assert (metrics["pass@2"]["mean"], metrics["pass^2"]["mean"]) == (1.0, 0.0)


@then("standard output is one JSON document")
def one_document(world: World) -> None:
    assert world.answer["passed"] == 3
    assert "working" in world.err
