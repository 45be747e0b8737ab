"""A state is looked at after calls and turns, and a turn is tried again with the state before it."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

import trivium as tv
from tests.agents.worlds.runs import case, run, scores
from tests.agents.worlds.shop import Shop
from trivium.agents.worlds import watch
from trivium.runs.run import Run
from trivium.store.store import Store

HERE = "tests.agents.worlds.shop"


TALK = {
    "id": "talk",
    "turns": ["Return shoe 1.", "And shoe 2."],
    "expect": {"state": {"equals": {"returned": [1, 2]}}},
}


def test_a_world_lasts_as_long_as_a_conversation():
    def clerk(messages, *, world):
        number = int(messages[-1]["content"][-2])
        world.state["returned"].append(number)
        return f"Returned {len(world.state['returned'])}."

    suite = tv.Suite.load([TALK, TALK | {"id": "again"}]).with_settings(world={"json": {"returned": []}})
    run = tv.evaluate(suite, agent=clerk, metrics=["success", "state_match"])
    assert [attempt.output for attempt in run.attempts()] == ["Returned 2.", "Returned 2."]
    assert run.summary().metrics["success"].mean == 1.0


def test_a_world_that_cannot_be_made_fails_the_conversation_and_the_agent_is_not_to_blame():
    def broken():
        raise ValueError("no shop")

    suite = tv.Suite.load([TALK])
    (attempt,) = tv.evaluate(suite, agent=lambda messages: "ok", world=broken).attempts()
    assert "no shop" in attempt.error
    assert "world_failed" in attempt.flags


def moves(message, world):
    """Refunds what it is told to, takes back what follows a minus, and looks at what follows a question."""
    for step in message.split():
        match step[0]:
            case "-":
                world.state.orders[step[1:]]["status"] = "delivered"
            case "?":
                world.status(step[1:])
            case _:
                world.refund(step)
    return "done"


BY = 'after call 1, refund with {"order":"0"}'
UNDONE = [
    ({"changes": "orders.0"}, f'status: "delivered" → "refunded" ({BY})'),
    ({"values": {"orders.0.status": "refunded"}}, f'it is "refunded" ({BY})'),
    ({"function": f"{HERE}:first_refunded"}, f"the function returned True ({BY})"),
    ({"changes": "orders.1"}, None),
    ({"values": {"orders.0.status": "lost"}}, None),
]


@pytest.mark.parametrize(("never", "why"), UNDONE, ids=lambda each: str(each)[:30])
def test_what_must_never_be_so_is_looked_at_after_each_call(store, never, why):
    """The agent makes up for its change within the call after the one that broke it."""
    cases = [case(0, never=never) | {"input": "0 -0 ?0"}]
    (score,) = scores(run(cases, moves, world=Shop, store=store))
    assert (score.value, (score.reason or "").partition(": ")[2]) == ((0.0, why) if why else (1.0, ""))


def test_what_is_so_at_the_start_may_end(store):
    """The order is delivered when the agent first looks; it must not be so at the end, or again."""
    never = {"never": {"values": {"orders.0.status": "delivered"}}}
    once, again = (
        scores(run([case(0, **never) | {"input": steps}], moves, world=Shop, store=store))[0]
        for steps in ("?0 0", "?0 0 -0 ?0 0")
    )
    assert (once.value, again.value) == (1.0, 0.0)
    assert 'it is "delivered" (after call 3, status with {"order":"0"})' in again.reason


def test_a_forbidden_query_is_asked_after_each_call(store, bookings):
    world = {"sqlite": str(bookings), "tools": f"{HERE}:GUESTS"}

    def agent(message, world):
        for guest in ("Bob", None):
            world.seat(guest)
        return "done"

    never = {"query": {"SELECT count(*) FROM seats WHERE guest = 'Bob'": 1}, "changes": "seats.1,A"}
    (score,) = scores(run([case(never=never)], agent, world=world, store=store))
    assert score.value == 0
    assert score.reason.count('(after call 1, seat with {"guest":"Bob"})') == 2


def test_what_calls_at_once_leave_is_looked_at_when_all_have_ended(store):
    """Half-way through the first call the state is not sound, and the second one ends then."""
    half, seen = threading.Event(), threading.Event()

    class Purse:
        def __init__(self):
            self.left, self.right = 5, 5

        def move(self):
            self.left -= 1
            half.set()
            assert seen.wait(10)
            self.right += 1

        def look(self):
            return self.left

    def agent(message, world):
        thread = threading.Thread(target=world.move)
        thread.start()
        assert half.wait(10)
        world.look()
        seen.set()
        thread.join()
        return "done"

    made = run([case(never={"values": {"left": 4, "right": 5}})], agent, world=Purse, store=store)
    assert scores(made)[0].reason == "never left = 4: it is 4 (after call 1, move with {})"
    assert scores(made)[0].value == 0.5


def test_a_large_state_is_not_copied_without_end(store, monkeypatch):
    monkeypatch.setattr(watch, "MOST_COPIED", 400)  # its copy has more than 100 bytes
    (first, last) = (
        run([case(0, never={"changes": "orders.2"}) | {"input": given}], moves, world=Shop, store=store)
        for given in ("2 -2 ?0 ?0 ?0 ?0", "?0 ?0 ?0 ?0 ?0 2 -2")
    )
    assert [scores(each)[0].value for each in (first, last)] == [0.0, 1.0]
    (check,) = next(last.attempts()).world.checks
    assert check.reason == "the state is large, and was not looked at after the last calls of tools (2)"


OPENS = """import json, os, pathlib, sys
asked = json.load(sys.stdin)[-1]["content"]
pathlib.Path(os.environ["TRIVIUM_WORLD"]).write_text(json.dumps({"open": "open" in asked}))
print("done")
"""


@pytest.mark.parametrize("kind", ["function", "command"])
def test_each_turn_of_a_conversation_is_looked_at_and_named(kind):
    def clerk(messages, *, world):
        world.state["open"] = "open" in messages[-1]["content"]
        return "done"

    never = {"never": {"values": {"open": True}}}
    talk = {"id": "a", "turns": ["look", "open it", "close it"], "expect": never}
    agent = clerk if kind == "function" else [sys.executable, "-c", OPENS]
    (attempt,) = tv.evaluate([talk], agent=agent, world={"json": {"open": False}}).attempts()
    assert [check.reason for check in attempt.world.checks] == ["it is true (after turn 2)"]


def test_a_forbidden_call_of_a_conversation_is_told_with_its_turn():
    def clerk(messages, *, world):
        return world.refund("0") if "now" in messages[-1]["content"] else "when?"

    talk = {"id": "a", "turns": ["Pay back.", "Do it now."], "expect": {"never": {"tools": ["refund"]}}}
    (evaluation,) = tv.evaluate([talk], agent=clerk, world=Shop).evaluations()
    assert evaluation.scores["state_match"].reason == (
        'never refund: it was called with {"order":"0"} in turn 2'
    )


@pytest.mark.parametrize("kind", ["object", "json", "folder"])
def test_a_turn_that_is_tried_again_begins_with_the_state_before_it(store, tmp_path, kind):
    """A try that did nothing is repeated by itself; after one that was at work all begins in a new world."""
    (tmp_path / "empty").mkdir()
    world = {"object": Shop, "json": {"json": {"done": []}}, "folder": {"folder": str(tmp_path / "empty")}}
    asked = []

    def at_work(world, number):
        if kind == "object":
            world.refund(str(number))
        elif kind == "json":
            world.state["done"].append(number)
        else:
            (world.path / str(number)).write_text("x")

    def clerk(messages, *, world):
        turn = len(messages) // 2 + 1
        asked.append(turn)
        if asked.count(2) == 1 and turn == 2:
            raise ConnectionError("lost before anything was done")
        at_work(world, turn % 3)
        if asked.count(2) == 2 and turn == 2:
            raise ConnectionError("lost when all was done")
        return "done"

    suite = tv.Suite.load([{"id": "a", "turns": ["one", "two"]}], limits={"retries": 2})
    (attempt,) = tv.evaluate(suite, agent=clerk, world=world[kind], store=store).attempts()
    assert asked == [1, 2, 2, 1, 2]
    assert attempt.metadata["tries"] == 2
    assert len(attempt.world.changes) == 2


def test_a_conversation_does_not_begin_again_without_end(store):
    asked = []

    def clerk(messages, *, world):
        asked.append(len(messages))
        world.refund("0")
        if len(messages) > 1:
            raise ConnectionError("lost")
        return "done"

    suite = tv.Suite.load([{"id": "a", "turns": ["one", "two"]}], limits={"retries": 2})
    (attempt,) = tv.evaluate(suite, agent=clerk, world=Shop, store=store).attempts()
    assert asked == [1, 3] * 3
    assert attempt.error == "turn 2: ConnectionError: lost (tried 3 times)"
    assert attempt.metadata["tries"] == 3
    assert len(attempt.world.changes) == 1


DIES = """import os, pathlib, signal, sys, time
from trivium.store.store import Store
HERE = pathlib.Path(__file__).parent


def agent(messages, world, case):
    turn = len(messages) // 2 + 1
    with (HERE / "turns.log").open("a") as log:
        log.write(f"{case.id} {turn}\\n")
    assert sorted(os.listdir(world.path)) == list(map(str, range(1, turn)))
    (world.path / str(turn)).write_text("x")
    if (case.id, turn) == ("2", 2) and not (HERE / "died").exists():
        (HERE / "died").touch()
        with Store(str(HERE / "store.db"), create=False) as store:
            while len(list(store.attempt_keys(store.runs()[0]))) < 2:
                time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    return {"output": "ok", "usage": {"input_tokens": 10 ** turn, "output_tokens": 1}}
"""


def test_a_conversation_that_is_killed_begins_again_and_nothing_else_does(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "talk.py").write_text(DIES)
    cases = [
        {"id": str(n), "turns": ["a", "b", "c"], "expect": {"state": {"values": {"3": "x"}}}}
        for n in range(4)
    ]
    suite = {"world": {"folder": "empty"}, "agent": "talk.py:agent", "cases": cases}
    (tmp_path / "suite.json").write_text(json.dumps(suite | {"limits": {"attempts_at_once": 1}}))
    command = [sys.executable, "-m", "trivium", "run", "suite.json", "--store", "store.db", "--quiet"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    killed = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert list(tmp_path.glob("trivium-worlds-*"))
    with Store(str(tmp_path / "store.db"), create=False) as opened:
        (before,) = opened.runs()
    again = [*command, "--resume", before.id]
    resumed = subprocess.run(again, cwd=tmp_path, env=environment, check=False, capture_output=True)
    assert resumed.returncode == 0, resumed.stderr
    turns = [tuple(line.split()) for line in (tmp_path / "turns.log").read_text().splitlines()]
    held = [[(str(n), turn) for turn in "123"] for n in range(4)]
    assert turns == [*held[0], *held[1], *held[2][:2], *held[2], *held[3]]
    assert not list(tmp_path.glob("trivium-worlds-*"))
    with Store(str(tmp_path / "store.db"), create=False) as opened:
        summary = Run(opened, opened.run(before.id)).summary()
        assert (summary.attempts, summary.passed, summary.agent.input_tokens) == (4, 4, 4 * 1110)
