"""Mocked tools answer what was recorded, and fail at the stated rates with the stored seed."""

import json
import math

import pytest

import trivium as tv
from trivium.agents.worlds.mocks import NotRecorded, ToolError, ToolTimeout
from trivium.errors import InputError, SuiteError
from trivium.store.store import Store

HERE = "tests.agents.worlds.test_mocks"


def span(place, name, arguments, result, *, ok=True):
    times = {"start": float(place), "end": place + 0.5}
    return {
        "id": f"s{place}",
        "kind": "tool",
        "name": name,
        "input": arguments,
        "output": result,
        "ok": ok,
    } | times


SPANS = [
    span(0, "price", {"of": "tea", "size": 1}, {"euro": 3}),
    span(1, "price", {"of": "tea", "size": 1}, {"euro": 4}),
    span(2, "price", {"of": "coffee", "size": 2}, {"euro": 5}),
    span(3, "pay", {}, "the card was refused", ok=False),
]


@pytest.fixture
def recorded(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"trace_id": "t", "spans": SPANS}))
    return path


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


def attempts(cases, agent, store, **settings):
    suite = tv.Suite.load(cases, **settings)
    return list(tv.evaluate(suite, agent=agent, store=store).attempts())


def test_results_follow_one_another_and_the_last_is_repeated(recorded):
    price = tv.mock_tools(recorded)["price"]
    assert [price(of="tea", size=1.0) for _ in range(3)] == [{"euro": 3}, {"euro": 4}, {"euro": 4}]


def test_a_result_belongs_to_who_asked(recorded):
    tools = tv.mock_tools(recorded)
    tools["price"](of="coffee", size=2)["euro"] = 0
    assert tools["price"](of="coffee", size=2) == {"euro": 5}


def test_what_was_not_recorded_is_an_error_that_says_so(recorded):
    with pytest.raises(NotRecorded) as caught:
        tv.mock_tools(recorded)["price"](of="cocoa", size=2)
    assert str(caught.value) == (
        'no call of price with {"of":"cocoa","size":2} was recorded; the nearest one has '
        '{"of":"coffee","size":2} (match: nearest takes it)'
    )


@pytest.mark.parametrize(
    ("arguments", "euro"),
    [({"of": "coffe", "size": 2}, 5), ({"of": "coffee"}, 5), ({"of": "tee", "size": 1}, 3), ({}, 3)],
)
def test_the_nearest_call_has_most_in_common(recorded, arguments, euro):
    assert tv.mock_tools(recorded, match="nearest")["price"](**arguments) == {"euro": euro}


def test_a_recorded_failure_is_raised(recorded):
    with pytest.raises(ToolError, match="the card was refused"):
        tv.mock_tools(recorded)["pay"]()


def test_functions_and_written_calls_answer_too():
    tools = tv.mock_tools(
        {"name": "price", "arguments": {"of": "tea"}, "result": 3},
        {"name": "price", "arguments": {"of": "ink"}, "error": "sold out"},
        functions={"pay": lambda euro: euro > 0},
    )
    assert (tools["price"](of="tea"), tools["pay"](3)) == (3, True)
    with pytest.raises(ToolError, match="sold out"):
        tools["price"](of="ink")


RATES = {"timeout": 0.1, "error": 0.2, "shape": 0.05}


def _outcomes(seed, calls=4_000):
    tools = tv.mock_tools({"name": "price", "result": {"euro": 3, "of": "tea"}}, faults=RATES, seed=seed)
    found = []
    for _ in range(calls):
        try:
            found.append("right" if tools["price"]() == {"euro": 3, "of": "tea"} else "shape")
        except ToolTimeout:
            found.append("timeout")
        except ToolError:
            found.append("error")
    return found


def test_faults_come_at_their_rates_and_again_with_the_same_seed():
    """Within four standard errors of a share of 4,000 calls."""
    found = _outcomes(7)
    for fault, rate in RATES.items():
        share = found.count(fault) / len(found)
        assert abs(share - rate) < 4 * math.sqrt(rate * (1 - rate) / len(found))
    assert _outcomes(7, 200) == found[:200]
    assert _outcomes(8, 200) != found[:200]


def test_a_wrong_shape_is_never_the_right_one():
    for result in (None, "text", 3, [], {}, {"a": 1}, [1, 2]):
        tools = tv.mock_tools({"name": "t", "result": result}, faults={"shape": 1})
        for _ in range(20):
            assert tools["t"]() != result


def ask(message, world):
    answers = []
    for _ in range(5):
        try:
            answers.append(world.price(of="tea", size=1))
        except (ToolError, ToolTimeout, NotRecorded) as error:
            answers.append(str(error))
    return json.dumps(answers)


def test_a_suite_mocks_tools_with_the_seed_that_its_run_stores(recorded, store):
    cases = [{"id": str(n), "input": "x"} for n in range(8)]
    world = {"mocks": {"calls": str(recorded), "faults": {"error": 0.5}}}
    first = attempts(cases, ask, store, world=world, seed=1)
    again = attempts(cases, ask, store, world=world, seed=1, limits={"attempts_at_once": 1})
    other = attempts(cases, ask, store, world=world, seed=2)
    assert [each.output for each in first] == [each.output for each in again]
    assert [each.output for each in first] != [each.output for each in other]
    own = {**world, "mocks": {**world["mocks"], "seed": 5}}
    assert [each.output for each in attempts(cases, ask, store, world=own, seed=1)] == [
        each.output for each in attempts(cases, ask, store, world=own, seed=2)
    ]
    for attempt in first:
        assert sum(attempt.world.mocked.values()) == 5
        noted = [each.attributes.get("fault") for each in attempt.trace.tool_calls]
        assert noted.count("error") == attempt.world.mocked.get("error", 0)


def buy(what):
    return f"bought {what}"


FUNCTIONS = [buy]


def test_mocks_stand_beside_the_tools_of_a_world(recorded, store):
    class Shop:
        def __init__(self):
            self.sold = []

        def price(self, of, size):
            return "never asked"

        def sell(self, what):
            self.sold.append(what)

    def agent(message, world):
        world.sell(world.price(of="coffee", size=2)["euro"])
        return world.buy("ink")

    world = {"mocks": {"calls": [str(recorded)], "functions": f"{HERE}:FUNCTIONS"}, "factory": f"{HERE}:Shop"}
    globals()["Shop"] = Shop
    case = {"id": "a", "input": "x", "expect": {"state": {"values": {"sold": [5]}}}}
    (attempt,) = attempts([case], agent, store, world=world)
    assert attempt.output == "bought ink"
    assert [check.ok for check in attempt.world.checks] == [True]
    assert attempt.world.mocked == {"recorded": 1}


async def _coroutine(message, world):
    return await world.call_async("price", of="cocoa", size=9)


def test_an_attempt_that_asks_for_more_fails_and_says_so_once(recorded, store):
    (attempt,) = attempts(
        [{"id": "a", "input": "x"}],
        _coroutine,
        store,
        world={"mocks": {"calls": str(recorded), "latency": 0.01}},
    )
    assert attempt.error.startswith('NotRecorded: no call of price with {"of":"cocoa","size":9} was recorded')
    assert attempt.world.mocked == {"not recorded": 1}
    assert "tries" not in attempt.metadata


WRONG = [
    ({"calls": "nowhere.json"}, 'world.mocks.calls: there is no file "nowhere.json"'),
    (
        {"faults": {"error": 0.7, "timeout": 0.6}},
        "world.mocks.faults: the shares sum to 1.3, expected at most 1",
    ),
    ({"faults": {"slow": 0.1}}, 'unknown key "slow"'),
    ({"match": "exact"}, "world.mocks.match"),
    ({"functions": "x"}, 'world.mocks.functions: found the text "x", expected package.module:name'),
]


@pytest.mark.parametrize(("mocks", "message"), WRONG, ids=lambda each: str(each)[:24])
def test_a_mistake_in_mocks_is_a_sentence(mocks, message):
    with pytest.raises(SuiteError) as caught:
        tv.Suite.load([{"id": "a", "input": "x"}], world={"mocks": mocks})
    assert message in str(caught.value)


def test_a_mistake_in_python_is_a_sentence(tmp_path):
    (tmp_path / "empty.json").write_text('{"trace_id": "t", "spans": []}')
    with pytest.raises(InputError, match="holds no call of a tool that could be answered"):
        tv.mock_tools(tmp_path / "empty.json")
    with pytest.raises(InputError, match='match: found the text "exact", expected "nearest" or "strict"'):
        tv.mock_tools(match="exact")
    with pytest.raises(InputError, match="faults"):
        tv.mock_tools(faults={"error": 2})
    with pytest.raises(InputError, match="latency: found the number -1"):
        tv.mock_tools(latency=-1)
    with pytest.raises(
        InputError, match="a recorded call is malformed: Object missing required field `name`"
    ):
        tv.mock_tools({"result": 3})


@pytest.mark.parametrize(("given", "ok"), [("tea", False), ("coffee", True)])
def test_a_call_of_a_mock_is_compared_with_what_may_never_be_called(store, given, ok):
    def world():
        return tv.World({}, tools=tv.mock_tools({"name": "price", "arguments": {"of": given}, "result": 3}))

    never = {"tools": [{"name": "price", "arguments": {"of": "tea"}}]}
    suite = tv.Suite.load([{"id": "a", "input": "q", "expect": {"never": never}}], metrics=["state_match"])
    run = tv.evaluate(suite, agent=lambda _, world: world.price(of=given), world=world, store=store)
    (attempt,) = run.attempts()
    assert [check.ok for check in attempt.world.calls] == [ok]
