"""Each expectation of a case is compared with the end of a world as docs/definitions/worlds.md says."""

import sqlite3
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import trivium as tv
from trivium.agents.attempt import StateCheck, WorldRecord
from trivium.agents.worlds import checks
from trivium.agents.worlds.checks import End, ended, forbidden_calls
from trivium.agents.worlds.state import NOTHING, at_path
from trivium.metrics.metric import MetricInput, Score
from trivium.metrics.text.state import StateMatch, success_by_state
from trivium.suites.case import Case, ExpectedState, ExpectedTool, Forbidden
from trivium.traces.trace import Span, Trace, TraceProblem

BEFORE = {"a": 1, "b": {"c": [1, 2]}, "d": None}
AFTER = {"a": 2, "b": {"c": [1, 2]}, "e": True}


def case(**expect: Any) -> Case:
    return Case(id="1", input=None, expect=tv.Expect(**expect))


def one(end: End, **expect: Any) -> StateCheck:
    (check,) = ended("w", case(**expect), end).checks
    return check


def state(**fields: Any) -> dict[str, ExpectedState]:
    return {"state": ExpectedState(**fields)}


def never(**fields: Any) -> dict[str, Forbidden]:
    return {"never": Forbidden(**fields)}


@pytest.mark.parametrize(
    ("expect", "ok", "reason"),
    [
        (state(equals=AFTER), True, None),
        (state(equals=AFTER | {"e": 1}), False, "it is {"),
        (state(subset={"b": {"c": [1, 2]}}), True, None),
        (state(subset={"b": {"c": [1]}}), False, "it is [1,2]"),
        (state(subset={"a": {"c": 1}}), False, "it is nothing"),
        (state(subset={"b": {}}), False, "it is {"),
        (state(values={"b.c[--1]": 2}), False, "it is nothing"),
        (state(values={"d": None}), True, None),
        (state(values={"a": None}), False, "it is 2"),
        (never(changes=("*",)), False, "a: 1 → 2, d: null → nothing, e: nothing → true"),
        (never(changes=("",)), False, "a: 1 → 2"),
        (never(changes=("b",)), True, None),
        (never(changes=("nowhere",)), True, None),
        (never(changes=("d",)), False, "it was null and is nothing"),
        (never(changes=("e",)), False, "it was nothing and is true"),
        (never(values={"a": 2.0}), False, "it is 2"),
        (never(values={"e": 1}), True, None),
        (never(values={"d": None}), False, "it is nothing"),
    ],
)
def test_the_copy_of_the_state_is_compared(expect: Any, ok: bool, reason: str | None) -> None:
    check = one(End(None, BEFORE, AFTER), **expect)
    assert check.ok is ok
    assert check.reason is None if reason is None else (check.reason or "").startswith(reason)


def test_a_change_names_three_and_counts_the_others() -> None:
    end = End(None, {}, {str(n): n for n in range(1200)})
    check = one(end, **never(changes=("*",)))
    named = ", ".join(f"{n}: nothing → {n}" for n in range(3))
    assert check.reason == f"{named} and 1,197 more"
    three = one(End(None, {}, {str(n): n for n in range(3)}), **never(changes=("*",)))
    assert three.reason == named


def cannot(calls: Any) -> Any:
    raise ValueError("no such order")


@pytest.mark.parametrize(
    ("replay", "after", "ok", "reason"),
    [
        (lambda calls: {"made": [each.name for each in calls]}, {"made": ["x", "y"]}, True, None),
        (lambda calls: {"made": []}, {"made": ["x"]}, False, "expected → found: made[0]: nothing → "),
        (cannot, {}, None, "the expected calls cannot be made: ValueError: no such order"),
        (None, {}, None, "the world has no tools"),
    ],
)
def test_the_state_after_expected_calls(replay: Any, after: Any, ok: Any, reason: str | None) -> None:
    calls = (ExpectedTool(name="x"), ExpectedTool(name="y"))
    check = one(End(None, {}, after, replay=replay), **state(after=calls))
    assert (check.what, check.ok) == ("the state after x, y", ok)
    assert (check.reason or "").startswith(reason or "")
    assert (check.reason is None) == (reason is None)


@pytest.fixture
def seats() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.executescript("CREATE TABLE s (n, free); INSERT INTO s VALUES ('A', 1), ('B', 0)")
    yield connection
    connection.close()


ROWS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500) SELECT i FROM n"
ALL = "SELECT n, free FROM s ORDER BY n"


@pytest.mark.parametrize(
    ("query", "wanted", "equal"),
    [
        ("SELECT free FROM s WHERE n = 'A'", True, True),
        ("SELECT free FROM s WHERE n = 'A'", False, False),
        ("SELECT free FROM s WHERE n = 'B'", False, True),
        ("SELECT 2", True, False),
        ("SELECT 'x'", True, False),
        ("SELECT 1", [[True]], True),
        ("SELECT n FROM s WHERE n = 'Z'", None, True),
        ("SELECT n FROM s WHERE n = 'Z'", [], True),
        ("SELECT n FROM s", None, False),
        ("SELECT n FROM s", "A", False),
        (ALL, [["A", True], ["B", False]], True),
        (ALL, [["A", True]], False),
        (ALL, [["A", True], ["B", True]], False),
        (ALL, [{"n": "A", "free": True}, {"n": "B", "free": 0}], True),
        (ALL, [{"n": "A", "free": True}, {"n": "B"}], False),
        (ALL, [{"n": "A", "free": True}, {"n": "B", "free": True}], False),
        (ROWS, [[n] for n in range(1, 1501)], True),
        (ROWS, [[n] for n in range(1, 1001)], False),
        (ROWS, [[n] for n in range(1, 1500)], False),
    ],
)
def test_a_query_is_compared_as_sqlite_compares(seats: Any, query: str, wanted: Any, equal: bool) -> None:
    end = End(seats, {}, {}, database=seats)
    expected = one(end, **state(query={query: wanted}))
    forbidden = one(end, **never(query={query: wanted}))
    assert (expected.ok, forbidden.ok) == (equal, not equal)
    assert ((expected.reason is None), (forbidden.reason is None)) == (equal, not equal)


def test_a_query_ends_and_leaves_the_connection_as_it_was(seats: Any, monkeypatch: Any) -> None:
    seats.row_factory = sqlite3.Row
    monkeypatch.setattr(checks, "QUERY_STEPS", 1_000_000)
    end = End(seats, {}, {}, database=seats)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT count(*) FROM n"
    for query, why in ((endless, "interrupted"), ("DELETE FROM s", "readonly"), ("SELECT nope", "nope")):
        check = one(end, **state(query={query: 1}))
        assert check.ok is None
        assert why in (check.reason or "")
    assert one(end, **state(query={"SELECT count(*) FROM s": 2})).ok
    seats.execute("INSERT INTO s VALUES ('C', 1)")
    assert isinstance(seats.execute("SELECT 1").fetchone(), sqlite3.Row)
    seats.execute(
        f"SELECT count(*) FROM ({endless.replace('SELECT i FROM n', 'SELECT i + 1 FROM n LIMIT 200000')})"
    )


@pytest.mark.parametrize(
    ("answer", "expected", "forbidden"),
    [
        (True, True, False),
        (False, False, True),
        ("wrong", False, False),
        (1, None, None),
        (None, None, None),
        (AssertionError("wrong"), False, False),
        (ValueError("broken"), None, None),
    ],
)
def test_what_a_function_returns(answer: Any, expected: Any, forbidden: Any, monkeypatch: Any) -> None:
    given = []

    def function(state: Any, case: Case) -> Any:
        given.append((state, case.id))
        if isinstance(answer, Exception):
            raise answer
        return answer

    module = ModuleType("functions_of_checks")
    module.answers = function  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    end, spec = End("the state", {}, {}), "functions_of_checks:answers"
    found = [one(end, **state(function=spec)), one(end, **never(function=spec))]
    assert [check.ok for check in found] == [expected, forbidden]
    assert [check.reason is None for check in found] == [bool(check.ok) for check in found]
    assert [check.what for check in found] == [spec, f"never {spec}"]
    assert given == [("the state", "1")] * 2


@pytest.mark.parametrize(("broken", "ok"), [(True, False), (False, None)])
@pytest.mark.parametrize(
    "expect",
    [state(values={"a": 1}), state(equals={}), never(changes=("*",)), never(values={"a": 1})],
)
def test_a_state_that_cannot_be_compared(expect: Any, broken: bool, ok: Any) -> None:
    end = End(None, {}, NOTHING, problem="it is no JSON", broken=broken)
    check = one(end, **expect)
    assert (check.ok, check.reason) == (ok, "the state cannot be compared: it is no JSON")


@pytest.mark.parametrize("kind", [{"query": {"SELECT 1": 1}}, {"function": "builtins:print"}])
def test_neither_query_nor_function_holds_in_what_the_agent_broke(seats: Any, kind: Any) -> None:
    end = End(None, {}, NOTHING, problem="it is no database", broken=True, database=seats)
    assert [one(end, **state(**kind)).ok, one(end, **never(**kind)).ok] == [False, False]


@pytest.mark.parametrize(
    ("never", "reason"),
    [
        ("pay", 'it was called with {"euro":5} in turn 2'),
        ("p*", 'it was called with {"euro":5} in turn 2'),
        ("PAY", None),
        (ExpectedTool(name="pay", arguments={"euro": 5.0}), 'it was called with {"euro":5} in turn 2'),
        (ExpectedTool(name="pay", arguments={"euro": 6}), None),
        (ExpectedTool(name="pay", arguments={"cent": 5}), None),
        (ExpectedTool(name="ask", arguments={"x": 1}), None),
        (ExpectedTool(name="ask"), 'it was called with "text"'),
    ],
)
def test_calls_never_to_make(never: Any, reason: str | None) -> None:
    (check,) = forbidden_calls([never], [("ask", "text", 0), ("pay", {"euro": 5}, 2)])
    assert (check.ok, check.reason) == (reason is None, reason)


def test_places_in_lists() -> None:
    found = [at_path([1, [2, 3]], path) for path in ("[0]", "[1][-1]", "[-2]", "[2]", "[-3]", "[--1]", "x")]
    assert found[:3] == [1, 3, 1]
    assert found[3:] == [NOTHING] * 4


HOLDS, FAILS, UNKNOWN = (
    StateCheck(what=what, ok=ok, reason=None if ok else f"why {what}")
    for what, ok in (("h", True), ("f", False), ("u", None))
)


def both(expect: Any, **attempt: Any) -> tuple[Score, Score | None]:
    metric_input = MetricInput(case(**expect), tv.Attempt(case="1", output="x", **attempt))
    return StateMatch().score_or_skip(metric_input), success_by_state(StateMatch(), metric_input)


def recorded(*found: StateCheck, calls: Any = None) -> WorldRecord:
    return WorldRecord(world="w", checks=found, calls=calls)


SOME = state(values={"a": 1})


@pytest.mark.parametrize(
    ("found", "match", "success", "reasons"),
    [
        ((HOLDS, HOLDS), 1.0, 1.0, (None, None)),
        ((HOLDS, FAILS), 0.5, 0.0, ("f: why f", "f: why f")),
        ((HOLDS, UNKNOWN), None, None, ("u: why u", "u: why u")),
        ((FAILS, UNKNOWN), None, 0.0, ("u: why u", "f: why f")),
        ((FAILS,) * 4, 0.0, 0.0, ("f: why f; f: why f; f: why f; and 1 more",) * 2),
        ((FAILS,) * 3, 0.0, 0.0, ("f: why f; f: why f; f: why f",) * 2),
        ((), None, None, ("the case expects nothing of the state",) * 2),
    ],
)
def test_scores_of_what_was_recorded(found: Any, match: Any, success: Any, reasons: Any) -> None:
    score, by_state = both(SOME, world=recorded(*found))
    assert by_state is not None
    assert (score.value, by_state.value) == (match, success)
    assert (score.reason, by_state.reason) == reasons
    assert score.missing == (UNKNOWN in found)
    assert by_state.missing == (success is None)
    assert by_state.method == (None if success is None else "state")
    if match is not None:
        assert score.detail["holds"] == ["h"] * found.count(HOLDS)
        assert score.detail["fails"] == ["f: why f"] * found.count(FAILS)


def test_a_case_that_expects_nothing_has_no_success_of_its_state() -> None:
    score, by_state = both({}, world=recorded(HOLDS))
    assert (score.status, score.missing, by_state) == ("skipped", False, None)
    assert StateMatch().case_fields == ("expect.state", "expect.never")


@pytest.mark.parametrize(
    "expect",
    [
        SOME,
        *(never(tools=("pay",), **each) for each in ({"changes": ("*",)}, {"values": {"a": 1}})),
        *(never(tools=("pay",), **each) for each in ({"query": {"x": 1}}, {"function": "m:f"})),
        SOME | never(tools=("pay",)),
    ],
)
def test_without_a_record_nothing_is_known_of_the_state(expect: Any) -> None:
    score, by_state = both(expect, trace=Trace(trace_id="t"))
    assert by_state is not None
    assert (score.reason, score.missing) == ("no state was recorded: the suite has no world", False)
    assert (by_state.value, by_state.missing) == (None, True)


def traced(*names: str, turn: Any = 0, problems: Any = ()) -> Trace:
    spans = [Span(id=name, kind="tool", name=name, attributes={"turn": turn}) for name in names]
    return Trace(trace_id="t", spans=tuple(spans), problems=problems)


LOST = (TraceProblem(kind="incomplete", what="a span is missing"),)
NOT_PAID = StateCheck(what="never pay", ok=True)
PAID = StateCheck(what="never pay", ok=False, reason="it was called")
OTHER = StateCheck(what="never sell", ok=True)


@pytest.mark.parametrize(
    ("trace", "calls", "value", "reason"),
    [
        (None, None, None, "never pay: no trace was recorded"),
        (None, (NOT_PAID,), 1.0, None),
        (None, (PAID,), 0.0, "never pay: it was called"),
        (None, (OTHER,), None, "never pay: no trace was recorded"),
        (None, (), None, "never pay: no trace was recorded"),
        (traced("ask"), None, 1.0, None),
        (traced("ask"), (), 1.0, None),
        (traced("ask"), (PAID,), 0.0, "never pay: it was called"),
        (traced("pay", turn=3), (NOT_PAID,), 0.0, "never pay: it was called with null in turn 3"),
        (traced("pay", turn="3"), None, 0.0, "never pay: it was called with null"),
        (traced("pay", problems=LOST), None, 0.0, "never pay: it was called with null"),
        (traced("ask", problems=LOST), None, None, "a span is missing"),
        (traced("ask", problems=LOST), (NOT_PAID, OTHER), 1.0, None),
    ],
)
def test_calls_are_known_from_the_world_or_the_trace(trace: Any, calls: Any, value: Any, reason: Any) -> None:
    score, by_state = both(never(tools=("pay",)), trace=trace, world=recorded(calls=calls))
    assert by_state is not None
    assert (score.value, by_state.value) == (value, value)
    assert (score.reason or "").endswith(reason or "")
    assert (score.reason is None) == (reason is None)
    assert score.missing == (value is None)
