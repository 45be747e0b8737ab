"""A world is made afresh for each attempt, its end is compared, and what it left is cleaned up."""

import copy
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import trivium as tv
from tests.agents.adapters.test_http import serving
from tests.agents.worlds.runs import attempts, case, refund, run, scores
from tests.agents.worlds.shop import Shop
from trivium.agents.attempt import AgentFailure
from trivium.agents.worlds.making import lost_worlds
from trivium.agents.worlds.sharing import SharedStates
from trivium.cli.main import run_command
from trivium.errors import AgentError, InputError, SuiteError
from trivium.store.store import Store
from trivium.suites.agent_settings import AgentSettings
from trivium.suites.case import Case

HERE = "tests.agents.worlds.shop"


REFUNDED = {"values": {"orders.0.status": "refunded", "orders.1.status": "delivered"}}


def test_fifty_attempts_at_once_leave_what_one_at_a_time_leaves(store):
    """Each attempt waits until all have changed their state, so that a shared one would show."""
    everyone = threading.Barrier(50)

    def together(message, world, repeat):
        assert world.status("0") == "delivered"
        world.refund("0")
        everyone.wait(30)
        assert world.status("1") == "delivered"
        return "done"

    settings = {"repeats": 50, "limits": {"attempts_at_once": 50, "seconds": 60}}
    suite = tv.Suite.load([case(state=REFUNDED)], **settings)
    at_once = tv.evaluate(suite, agent=together, world=Shop, store=store)
    alone = tv.evaluate(
        suite.with_settings(limits={"attempts_at_once": 1}), agent=refund, world=Shop, store=store
    )
    assert [each.world for each in attempts(at_once)] == [each.world for each in attempts(alone)]
    assert [score.value for score in scores(at_once)] == [1.0] * 50


def test_the_change_and_the_calls_are_kept_with_the_attempt(store):
    made = run([case(state=REFUNDED)], refund, world=Shop, store=store)
    (attempt,) = attempts(made)
    assert [change.shown for change in attempt.world.changes] == ['orders.0.status: "delivered" → "refunded"']
    assert [(span.name, span.input) for span in attempt.trace.tool_calls] == [("refund", {"order": "0"})]


EXPECTED = [
    ({"state": {"values": {"orders.0.status": "refunded"}}}, 1.0),
    ({"state": {"values": {"orders.0.status": "delivered"}}}, 0.0),
    ({"state": {"values": {"orders.9": None}}}, 1.0),
    ({"state": {"values": {"orders.0": None}}}, 0.0),
    ({"state": {"subset": {"orders": {"0": {"status": "refunded"}}}}}, 1.0),
    ({"state": {"subset": {"orders": {"0": {"status": "refunded"}, "9": {}}}}}, 0.5),
    ({"state": {"equals": {"orders": {}}}}, 0.0),
    ({"state": {"function": f"{HERE}:all_refunded"}}, 0.0),
    ({"state": {"function": f"{HERE}:asserts"}}, 0.0),
    ({"state": {"function": f"{HERE}:raises"}}, None),
    ({"state": {"function": f"{HERE}:returns_none"}}, None),
    ({"state": {"function": f"{HERE}:nowhere"}}, None),
    ({"state": {"query": {"SELECT 1": 1}}}, None),
    ({"never": {"tools": ["refund"]}}, 0.0),
    ({"never": {"tools": ["ref*"]}}, 0.0),
    ({"never": {"tools": ["status", {"name": "refund", "arguments": {"order": "1"}}]}}, 1.0),
    ({"never": {"tools": [{"name": "refund", "arguments": {"order": "0"}}]}}, 0.0),
    ({"never": {"changes": "orders.1"}}, 1.0),
    ({"never": {"changes": ["orders.0.status", "orders.1"]}}, 0.5),
    ({"never": {"changes": "*"}}, 0.0),
    ({"never": {"values": {"orders.0.status": "refunded"}}}, 0.0),
    ({"never": {"values": {"orders.0.status": "lost"}}}, 1.0),
    ({"never": {"function": f"{HERE}:all_refunded"}}, 0.0),
]


def test_each_expectation_is_compared_with_the_end(store):
    cases = [case(place, **expect) for place, (expect, _) in enumerate(EXPECTED)]
    made = run(cases, lambda message, world: world.refund("0"), world=Shop, store=store)
    found = [(score.value, score.reason) for score in scores(made)]
    wrong = [each for each, (_, value) in zip(found, EXPECTED, strict=True) if each[0] != value]
    assert wrong == []
    unknown = [
        score.reason for score, (_, value) in zip(scores(made), EXPECTED, strict=True) if value is None
    ]
    assert [why.partition(": ")[2] for why in unknown] == [
        "the function raised KeyError: 'no such key'",
        "the function returned NoneType, expected True, False or a text",
        f'{HERE}:nowhere: {HERE} has no "nowhere".',
        "a query needs a SQLite world: world: {sqlite: FILE}",
    ]
    assert all(score.missing for score in scores(made) if score.value is None)


def test_a_value_at_a_path_of_dots_and_places(store):
    state = {"a.b": {"c": [{"d": 1}, {"d": 2}]}, "list": [[1, 2]]}
    expected = {"a.b.c[1].d": 2, "a.b.c[0]": {"d": 1.0}, "list[0][-1]": 2, "list[5]": None}
    made = run([case(state={"values": expected})], lambda message: "done", world={"json": state}, store=store)
    assert [score.value for score in scores(made)] == [1.0]


def test_a_database_is_copied_compared_and_asked(store, bookings):
    before = bookings.read_bytes()

    def book(message, world):
        world.state.execute("UPDATE seats SET guest = ? WHERE letter = 'A'", (message,))
        world.state.execute("INSERT INTO notes VALUES ('window')")
        return "booked"

    expected = {
        "values": {"seats.1,A.guest": "0", "notes.1.text": "window"},
        "query": {
            "SELECT count(*) FROM seats WHERE guest IS NOT NULL": 2,
            "SELECT letter, guest FROM seats": [["A", "0"], ["B", "Ann"]],
            "SELECT letter FROM seats WHERE guest = 'Ann'": [{"letter": "B"}],
            "SELECT guest IS NULL FROM seats WHERE letter = 'A'": False,
        },
    }
    never = {"query": {"SELECT count(*) FROM notes": 0}, "changes": "seats.1,B"}
    made = run([case(state=expected, never=never)], book, world={"sqlite": str(bookings)}, store=store)
    assert [(score.value, score.reason) for score in scores(made)] == [(1.0, None)]
    assert bookings.read_bytes() == before


@pytest.mark.parametrize("query", ["DELETE FROM seats", "SELECT nothing FROM nowhere", "SELECT 1; SELECT 2"])
def test_a_query_that_fails_is_unknown_and_changes_nothing(store, bookings, query):
    made = run(
        [case(state={"query": {query: 1}})], lambda message: "x", world={"sqlite": str(bookings)}, store=store
    )
    (score,) = scores(made)
    assert score.value is None
    assert "the query failed" in score.reason


def test_a_folder_is_copied_and_compared(store, tmp_path):
    folder = tmp_path / "site"
    (folder / "pages").mkdir(parents=True)
    (folder / "pages/index.txt").write_text("welcome")
    (folder / "logo.png").write_bytes(b"\xff\xfe")

    def edit(message, world):
        (world.path / "pages/index.txt").write_text("hello")
        (world.path / "logo.png").unlink()
        (world.path / "away").symlink_to("/etc/passwd")
        return "done"

    expected = {"values": {"pages/index.txt": "hello", "logo.png": None}}
    made = run([case(state=expected)], edit, world={"folder": str(folder)}, store=store)
    assert [score.value for score in scores(made)] == [1.0]
    (attempt,) = attempts(made)
    assert [change.path for change in attempt.world.changes] == ["logo.png", "pages/index.txt", "away"]
    assert attempt.world.changes[-1].after == "<link to /etc/passwd>"
    assert (folder / "pages/index.txt").read_text() == "welcome"


SETS = """import json, os, pathlib, sys
path = pathlib.Path(os.environ["TRIVIUM_WORLD"])
state = json.loads(path.read_text())
state["asked"].append(sys.stdin.read())
path.write_text(json.dumps(state) if state["asked"] != ["1"] else "{")
print("done")
"""


def test_a_command_gets_a_file_and_may_break_it(store, tmp_path):
    (tmp_path / "start.json").write_text('{"asked": []}')
    suite = {
        "world": {"json": str(tmp_path / "start.json")},
        "cases": [case(0, state={"values": {"asked": ["0"]}}), case(1, state={"values": {"asked": ["1"]}})],
    }
    made = tv.evaluate(suite, agent=[sys.executable, "-c", SETS], store=store)
    good, broken = scores(made)
    assert (good.value, broken.value) == (1.0, 0.0)
    assert broken.reason.startswith('asked = ["1"]: the state cannot be compared: DecodeError')


def test_tools_that_are_listed_get_the_state(store):
    def sort(message, world):
        world.move("7", to="billing")
        world.tools["move"]("8", "inbox")
        return "done"

    made = run(
        [case(state={"equals": {"7": "billing", "8": "inbox"}})],
        sort,
        world={"json": {"7": "inbox"}, "tools": f"{HERE}:TOOLS"},
        store=store,
    )
    assert [score.value for score in scores(made)] == [1.0]
    (attempt,) = attempts(made)
    assert attempt.trace.tool_calls[0].input == {"ticket": "7", "to": "billing"}


def test_a_factory_gets_what_it_names_and_cleans_up(store):
    closed = []

    def factory(case, repeat, seed, folder):
        (folder / "file").write_text("x")
        yield {"case": case.id, "repeat": repeat, "seeded": seed > 0}
        assert folder.exists()
        closed.append(repeat)

    made = run(
        [case(state={"subset": {"case": "0", "seeded": True}})],
        lambda message, world: "done",
        world=factory,
        repeats=2,
        store=store,
    )
    assert [score.value for score in scores(made)] == [1.0, 1.0]
    assert sorted(closed) == [0, 1]


def test_coroutine_agents_and_factories(store):
    class Open:
        def __init__(self):
            self.closed = False

        async def add(self, number):
            self.total = number

        def close(self):
            self.closed = True

    opened = []

    async def factory():
        opened.append(Open())
        return tv.World(opened[-1], [opened[-1].add])

    async def agent(message, world):
        await world.add(3)
        return "done"

    made = tv.evaluate(
        [case(state={"values": {"total": 3}}, never={"tools": ["add"]})],
        agent=agent,
        world=factory,
        store=store,
    )
    assert [score.value for score in scores(made)] == [0.5]
    assert [each.closed for each in opened] == [True]


def test_every_try_has_a_world_of_its_own(store):
    tries = []

    def unlucky(message, world):
        tries.append(world.status("0"))
        world.refund("0")
        if len(tries) == 1:
            raise ConnectionError("lost")
        return "done"

    made = run([case(state=REFUNDED)], unlucky, world=Shop, store=store)
    assert tries == ["delivered", "delivered"]
    assert [score.value for score in scores(made)] == [1.0]


def test_a_failed_attempt_keeps_what_it_changed_and_one_that_hangs_is_cleaned_up(store):
    release = threading.Event()
    closed = []

    def factory():
        yield Shop()
        closed.append(1)

    def agent(message, world):
        world.refund("0")
        if message == "0":
            raise ValueError("broken")
        release.wait(30)

    suite = tv.Suite.load([case(0, state=REFUNDED), case(1, state=REFUNDED)], limits={"seconds": 0.5})
    made = tv.evaluate(suite, agent=agent, world=factory, store=store)
    release.set()
    broken, hung = attempts(made)
    assert (broken.error, len(broken.world.changes)) == ("ValueError: broken", 1)
    assert (hung.error, hung.world) == ("no answer within 0.5 s (limits.seconds)", None)
    assert closed == [1, 1]
    assert [score.missing for score in scores(made)] == [True, True]


SHARED = {"orders": {"0": {"status": "delivered"}}, "refunds": []}


def _raises():
    raise RuntimeError("no database")


def _exits():
    sys.exit(3)


class _Unclosable(dict):
    def close(self):
        raise OSError("still in use")


FAILING = [
    (_raises, "was not made: RuntimeError: no database"),
    (_exits, "was not made: it raised SystemExit: 3"),
    (lambda: None, "was not made: the factory returned nothing; expected a state"),
    ({"factory": f"{HERE}:hangs", "seconds": 0.3}, "was not made within 0.3 s (world.seconds)"),
    (f"{HERE}:hangs", "was not made before the attempt's time was over (limits.seconds)"),
    (_Unclosable, "was not closed: OSError: still in use"),
    (lambda: tv.World({}, [3]), "was not made: TypeError: the tool None is int, which cannot be called"),
]


@pytest.mark.parametrize(("factory", "why"), FAILING, ids=[why[:24] for _, why in FAILING])
def test_a_world_that_fails_is_no_failure_of_the_agent(store, factory, why):
    suite = tv.Suite.load(
        [case(0, state={"values": {"a": 1}}), {"id": "free", "input": "x"}],
        metrics=["success", "time", "state_match"],
        limits={"seconds": 0.6},
    )
    made = tv.evaluate(suite, agent=lambda message, world: "done", world=factory, store=store)
    due, free = made.evaluations()
    assert why in due.scores["state_match"].reason
    assert {name: score.status for name, score in due.scores.items()} == {
        "success": "error", "time": "error", "state_match": "error",
    }  # fmt: skip
    assert (free.scores["state_match"].status, free.failed, free.passed) == ("skipped", None, None)
    summary = made.summary()
    assert (summary.failed, summary.passed, summary.errors["attempts"]) == (0, 0, 0)
    assert summary.errors["scores"]


OPEN = {"a": {"kept": []}}
SHARING = [
    lambda case: SHARED,
    lambda case: SHARED.copy(),
    lambda case: {"kept": [SHARED["refunds"]]},
    lambda case: case.metadata["start"],
]


@pytest.mark.parametrize("factory", SHARING)
def test_a_shared_state_is_found_and_named(store, factory):
    cases = [case(n, state={"subset": {}}) | {"metadata": {"start": {}}} for n in range(2)]
    made = tv.evaluate(cases, agent=lambda message, world: "done", world=factory, store=store)
    reasons = [score.reason for score in scores(made) if score.status == "error"]
    told = [why for why in reasons if "the factory gave case" in why]  # another one may be told of it, too
    assert told
    assert "it must make a new one each time" in told[0]


def test_of_two_at_once_both_are_told(tmp_path):
    """The first one has the state already when the second gets it."""
    shared, first, second = SharedStates(), Case(id="a", input=""), Case(id="b", input="")
    claim = shared.claim("a", OPEN, first)
    with pytest.raises(AgentFailure, match=r"gave b the same list \(b\) that a got: it must make"):
        shared.claim("b", {"b": OPEN["a"]["kept"]}, second)
    assert claim.spoiled == "b got the same list (b)"
    shared.release(claim)
    folder = shared.claim("a", tmp_path, first)
    with pytest.raises(AgentFailure, match="gave b the same folder that a got"):
        shared.claim("b", Path(tmp_path), second)
    shared.release(folder)
    shared.claim("b", Path(tmp_path), second)
    for number in range(100):  # what is closed is forgotten after a while
        shared.release(shared.claim(str(number), {}, first))
    shared.claim("c", OPEN, first)


def test_fresh_copies_and_what_is_only_read_are_not_shared(store):
    from types import MappingProxyType

    catalogue = MappingProxyType({"prices": {"0": 3}})
    lock = threading.Lock()

    def factory():
        made = Shop()
        made.catalogue, made.lock, made.names = catalogue, lock, ("a", "b")
        made.more = copy.deepcopy(SHARED)
        return made

    made = run([case(0, state=REFUNDED), case(1)], refund, world=factory, repeats=3, store=store)
    assert [score.value for score in scores(made)][:3] == [1.0] * 3


def test_what_worlds_leave_open_is_said(store, caplog):
    kept = []

    def leaky():
        kept.append(os.open(os.devnull, os.O_RDONLY))
        return {}

    run([case(n) for n in range(40)], lambda message, world: "x", world=leaky, store=store)
    for each in kept:
        os.close(each)
    assert "leaves file handles open: 4" in caplog.text
    assert "does the factory close what it opens" in caplog.text
    caplog.clear()
    run([case(n) for n in range(40)], lambda message, world: "x", world=dict, store=store)
    assert "open" not in caplog.text


def test_all_folders_of_a_run_are_in_one_that_is_removed(store, tmp_path):
    """Twenty worlds are made at once; the fixture sees what is left."""
    (tmp_path / "empty").mkdir()
    roots = set()

    def agent(message, world):
        roots.add(world.path.parents[1])
        return "done"

    world = {"folder": str(tmp_path / "empty")}
    suite = tv.Suite.load([case(n) for n in range(20)], world=world, limits={"attempts_at_once": 20})
    tv.evaluate(suite, agent=agent, store=store)
    assert len(roots) == 1


KILLED = """import sys, time, trivium as tv
def agent(message, world):
    (world.path / "here").write_text("x")
    print(world.path, flush=True)
    time.sleep(60)
tv.evaluate([{"id": "a", "input": "x"}], agent=agent, world={"folder": sys.argv[1]}, store=sys.argv[2])
"""


@pytest.mark.parametrize("by", ["the next run", "doctor"])
def test_what_a_killed_run_left_is_removed(tmp_path, monkeypatch, capsys, by):
    (tmp_path / "empty").mkdir()
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    arguments = [sys.executable, "-c", KILLED, str(tmp_path / "empty"), str(tmp_path / "killed.db")]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path)
    left = Path(process.stdout.readline().strip())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert left.exists()
    assert list(lost_worlds()) == []
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert len(list(lost_worlds())) == 1
    if by == "doctor":
        assert run_command(["doctor", "--store", str(tmp_path / "none.db")]) == 0
        assert "removed 1 temporary folders that killed runs left" in capsys.readouterr().out
    else:
        with Store(str(tmp_path / "store.db")) as store:
            run([case()], lambda message, world: "x", world=dict, store=store)
    assert not left.exists()
    assert list(lost_worlds()) == []


WRONG = [
    ({}, "world: names no state; expected one of factory, json, sqlite, folder"),
    ({"json": {}, "folder": "x"}, "world: names json and folder; expected one of"),
    ({"folder": "nowhere"}, 'world.folder: there is no folder "nowhere"'),
    ({"sqlite": "nowhere.db"}, 'world.sqlite: there is no file "nowhere.db"'),
    ({"json": "nowhere.json"}, "world.json: nowhere.json: "),
    ({"json": 3}, "world.json: found the number 3, expected a mapping, a list or a file"),
    (
        {"factory": "shop"},
        'world.factory: found the text "shop", expected package.module:name or file.py:name',
    ),
    (
        {"json": {}, "tools": "x"},
        'world.tools: found the text "x", expected package.module:name or file.py:name',
    ),
    ({"jsn": {}}, 'world: unknown key "jsn". Did you mean "json"?'),
    ({"json": {}, "seconds": 0}, "world.seconds"),
    ("shop", 'world: found the text "shop", expected package.module:name or file.py:name'),
]


@pytest.mark.parametrize(("world", "message"), WRONG, ids=lambda each: str(each)[:30])
def test_a_mistake_in_a_world_is_a_sentence(world, message):
    with pytest.raises(SuiteError) as caught:
        tv.Suite.load([case()], world=world)
    assert message in str(caught.value)


def _needs(what):
    return {}


UNLOADABLE = [
    ("nowhere:shop", lambda m, world: "x", 'there is no module "nowhere"'),
    (f"{HERE}:Shp", lambda m, world: "x", f'{HERE} has no "Shp". Did you mean "Shop"?'),
    (_needs, lambda m, world: "x", "needs what, which Trivium does not provide; where its signature names"),
    ({"json": {}, "tools": f"{HERE}:NO_TOOLS"}, lambda m, world: "x", "is int, expected a list of functions"),
    (None, lambda m, world: "x", "takes a world, and the suite has none"),
]


@pytest.mark.parametrize(
    ("world", "agent", "message"), UNLOADABLE, ids=lambda each: getattr(each, "__name__", str(each))[:24]
)
def test_what_cannot_be_loaded_is_refused_before_anything_is_stored(store, world, agent, message):
    with pytest.raises((AgentError, InputError)) as caught:
        run([case()], agent, world=world, store=store)
    assert message in str(caught.value)
    assert store.runs() == []


def test_success_is_the_state_and_the_answer(store):
    cases = [
        case(0, state=REFUNDED) | {"references": ["done"]},
        case(1, state=REFUNDED) | {"references": ["done"]},
        case(2, state={"values": {"orders.2.status": "refunded"}}) | {"references": ["sorry"]},
        {"id": "3", "input": "2", "references": ["done"]},
        case(2, never={"changes": "orders.1"}) | {"id": "4"},
    ]
    made = run(cases, refund, world=Shop, store=store)
    assert [score.value for score in scores(made, "success")] == [1.0, 0.0, 0.0, 1.0, 1.0]
    only = run(cases, refund, world=Shop, store=store, success={"state": True})
    assert [score.value for score in scores(only, "success")] == [1.0, 0.0, 1.0, None, 1.0]
    by_text = run(cases, refund, world=Shop, store=store, success={"contains": "any"})
    assert [score.value for score in scores(by_text, "success")] == [1.0, 1.0, 0.0, 1.0, None]


def test_without_a_world_only_calls_in_the_trace_are_known(store):
    trace = {
        "trace_id": "t",
        "spans": [{"id": "a", "kind": "tool", "name": "refund", "input": {"order": "1"}}],
    }
    cases = [case(n, never={"tools": ["refund"]}) for n in range(3)] + [case(3, state=REFUNDED)]
    outputs = [
        {"case": "0", "output": "x", "trace": trace},
        {"case": "1", "output": "x", "trace": trace | {"spans": []}},
        {"case": "2", "output": "x"},
        {"case": "3", "output": "x"},
    ]
    made = tv.evaluate(cases, outputs=outputs, metrics=["state_match"], store=store)
    found = scores(made)
    assert [score.value for score in found] == [0.0, 1.0, None, None]
    assert found[2].missing
    assert "no trace was recorded" in found[2].reason
    assert found[3].reason == "no state was recorded: the suite has no world"


def test_exported_attempts_are_scored_again_as_they_were(store, tmp_path):
    import msgspec

    cases = [case(0, state=REFUNDED), case(1, state=REFUNDED)]
    made = run(cases, refund, world=Shop, store=store)
    outputs = [msgspec.to_builtins(each) for each in attempts(made)]
    again = tv.evaluate(cases, outputs=json.loads(json.dumps(outputs)), metrics=["state_match"], store=store)
    assert [score.value for score in scores(again)] == [score.value for score in scores(made)]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_table_of_attempts_keeps_the_world(store, tmp_path, kind):
    cases = [case(0, state=REFUNDED), case(1, state=REFUNDED)]
    made = run(cases, refund, world=Shop, store=store)
    path = tmp_path / f"attempts.{kind}"
    command = ["export", made.id, "--what", "attempts", "--format", kind, "--output", str(path)]
    assert run_command([*command, "--store", store.url]) == 0
    again = tv.evaluate(cases, outputs=path, metrics=["state_match"], store=store)
    assert [score.value for score in scores(again)] == [score.value for score in scores(made)]


@pytest.mark.parametrize("world", ["json", "folder"])
def test_runs_that_begin_elsewhere_are_not_compared(store, tmp_path, world):
    file = tmp_path / "start" / "start.json"
    file.parent.mkdir()
    found = []
    for text in ("{}", "{}", '{"a": 1}'):
        file.write_text(text)
        place = {"json": str(file)} if world == "json" else {"folder": str(file.parent)}
        found.append(run([case(n) for n in range(3)], lambda m, world: "x", world=place, store=store))
    assert tv.compare(*found[:2]).answer != ""
    with pytest.raises(InputError, match=r"world.start: "):
        tv.compare(*found[1:])


def test_an_endpoint_gets_the_path_of_the_world(store):
    def reply(handler, body):
        asked = json.loads(body)
        Path(asked["world"]).write_text('{"done": true}')
        handler.reply(200, json.dumps(asked))

    with serving(reply) as server:
        for agent in (
            server.url,
            AgentSettings(url=server.url, body={"world": "{world}"}, output="world"),
        ):
            cases = [case(state={"equals": {"done": True}})]
            made = tv.evaluate(cases, agent=agent, world={"json": {"done": False}}, store=store)
            assert [score.value for score in scores(made)] == [1.0]


def test_an_agent_of_pydantic_ai_has_the_world_as_its_dependencies(store):
    pydantic_ai = pytest.importorskip("pydantic_ai")
    from pydantic_ai.models.test import TestModel

    agent = pydantic_ai.Agent(TestModel(), deps_type=tv.World, name="desk")

    @agent.tool
    def give_back(context: pydantic_ai.RunContext[tv.World]) -> str:
        return context.deps.refund("0")

    made = run([case(state=REFUNDED, never={"tools": ["status"]})], agent, world=Shop, store=store)
    assert [score.value for score in scores(made)] == [1.0]
    with pytest.raises(AgentError, match="takes a world, and the suite has none"):
        run([case()], agent, store=store)


def test_hostile_states_are_bounded_masked_and_escaped(store, tmp_path):
    secret = "sk-" + "proj-" + "a1B2" * 12
    loop = []
    loop.append(loop)

    def spoil(message, world):
        world.state["<script>alert(1)</script>"] = f"<img src=x onerror=alert(1)> {secret}"
        world.state["\ud800\0"] = "x" * 10_000
        world.state["loop"] = loop
        world.state["nan"] = float("nan")
        world.state["many"] = {str(n): n for n in range(500)}
        return "done"

    made = run([case(never={"changes": "a"})], spoil, world=dict, store=store)
    (attempt,) = attempts(made)
    assert len(attempt.world.changes) <= 50
    assert len(json.dumps([change.shown for change in attempt.world.changes])) < 20_000
    assert secret not in json.dumps(attempt.world.changes[0].shown)
    page = tmp_path / "page.html"
    assert run_command(["show", made.id, "--store", store.url, "--html", str(page)]) == 0
    text = page.read_text()
    assert not [each for each in ("<script>alert(1)", "<img src=x", secret) if each in text]
    assert "State at the end" in text


def test_a_state_that_is_too_large_is_not_compared(store):
    made = run(
        [case(state={"values": {"0": 0}}), case(1)], lambda m, world: "x",
        world=lambda: {"all": list(range(200_001))}, store=store,
    )  # fmt: skip
    assert scores(made)[0].reason == (
        "0 = 0: the state cannot be compared: it holds more than 200,000 values; "
        "a method snapshot may return less"
    )


def test_an_agent_that_takes_no_world_is_told_of_before_it_is_called(store, caplog):
    calls = []

    def deaf(message):
        calls.append(len(caplog.records))
        return "done"

    command = [sys.executable, "-c", "print('done')"]
    pydantic_ai = pytest.importorskip("pydantic_ai")
    unaware = pydantic_ai.Agent("test", name="desk")
    with serving(lambda handler, body: handler.reply(200, '"done"')) as server:
        endpoint = AgentSettings(url=server.url, body={"q": "{input}"})
        told = [
            (deaf, {"json": {}}, "deaf takes none: it can neither see nor change it"),
            (endpoint, {"json": {}}, "takes none: it can neither see nor change it"),
            (unaware, {"json": {}}, "desk takes none"),
            (server.url, Shop, "in memory only"),
            (command, Shop, "is in memory only, where"),
            (command, {"json": {}}, None),
            (server.url, {"json": {}}, None),
            (refund, Shop, None),
        ]
        for agent, world, words in told:
            caplog.clear()
            run([case(0), case(1)], agent, world=world, store=store)
            found = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
            assert len([each for each in found if words and words in each]) == (words is not None)
            assert words is not None or not found
    assert calls == [1, 1]


@pytest.mark.parametrize(
    ("world", "told"),
    [
        (lambda: SHARED, "is shared|the factory gave case .* that case .* got"),
        ({"factory": f"{HERE}:hangs", "seconds": 0.3}, "was not made within 0.3 s"),
    ],
    ids=["shared", "hangs"],
)
def test_of_fifty_bad_worlds_at_once_each_is_told(store, world, told):
    """Only the first one can have had the shared state for itself, if it was done before another came."""
    suite = tv.Suite.load([case(state={"subset": {}})], repeats=50, limits={"attempts_at_once": 50})
    made = tv.evaluate(suite, agent=lambda message, world: "done", world=world, store=store)
    failed = [score for score in scores(made) if score.status == "error"]
    assert len(failed) >= 49
    assert all(re.search(told, score.reason) for score in failed)
    summary = made.summary()
    assert (summary.attempts, summary.failed, summary.agent.failures) == (50, 0, 0)
