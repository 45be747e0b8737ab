"""Whether the turns of a conversation went as expected."""

import msgspec
import pytest

import trivium as tv
from trivium.agents.attempt import Attempt, ChatMessage
from trivium.metrics.metric import MetricInput, Skip
from trivium.metrics.turns import TurnSuccess
from trivium.suites.case import Case, Expect, ExpectedTool, ExpectTurn
from trivium.suites.settings import ToolSettings
from trivium.traces.trace import Span, Trace

REPLIES = {1: "Which number?", 2: "It arrives tomorrow.", 3: "Bye"}
CALL = Span(id="a", kind="tool", name="find", input={"number": "42"}, attributes={"turn": 2})


def scored(expected, *, spans=(CALL,), match="names", messages=None):
    case = Case(id="c", input="chat", expect=Expect(turns=expected))
    replies = [ChatMessage(role="assistant", content=text, turn=turn) for turn, text in REPLIES.items()]
    trace = None if spans is None else Trace(spans=tuple(spans))
    held = tuple(replies if messages is None else messages)
    attempt = Attempt(case="c", output="Bye", trace=trace, messages=held)
    return TurnSuccess(tools=ToolSettings(match=match)).score(MetricInput(case, attempt))


FIND = ExpectTurn(tools=(ExpectedTool(name="find"),))
NO_CALL = ExpectTurn(tools=())


@pytest.mark.parametrize(
    ("expected", "value", "reason"),
    [
        ({"2": ExpectTurn(contains=("tomorrow",))}, 1.0, None),
        ({"2": ExpectTurn(contains=("tomorrow", "today"))}, 0.0, 'turn 2: "today" is not in the reply'),
        (
            {"1": ExpectTurn(lacks=("tomorrow",)), "2": ExpectTurn(lacks=("TOMORROW",))},
            0.5,
            'turn 2: "TOMORROW" is in the reply',
        ),
        ({"2": FIND}, 1.0, None),
        ({"3": FIND}, 0.0, "turn 3: find was not called as expected"),
        ({"3": NO_CALL}, 1.0, None),
        ({"2": NO_CALL}, 0.0, "turn 2: find was called, and no call is expected"),
        (
            {"4": ExpectTurn(contains=("x",)), "1": ExpectTurn()},
            0.5,
            "turn 4: the conversation has no such turn, or no reply in it",
        ),
    ],
)
def test_the_share_of_turns_that_went_as_expected(expected, value, reason):
    score = scored(expected)
    assert (score.value, score.reason) == (value, reason)
    assert set(score.detail["turns"]) == set(expected)


@pytest.mark.parametrize(("arguments", "value"), [({"number": "42"}, 1.0), ({"number": "7"}, 0.0)])
def test_arguments_count_where_the_suite_says_so(arguments, value):
    expected = {"2": ExpectTurn(tools=(ExpectedTool(name="find", arguments=arguments),))}
    assert scored(expected, match="arguments").value == value


def test_the_order_of_calls_counts_where_the_suite_says_so():
    spans = [Span(id=name, kind="tool", name=name, attributes={"turn": 1}) for name in ("a", "b")]
    expected = {"1": ExpectTurn(tools=(ExpectedTool(name="b"), ExpectedTool(name="a")))}
    assert scored(expected, spans=spans).value == 1.0
    wrong = scored(expected, spans=spans, match="ordered")
    assert wrong.reason == "turn 1: the tools were called in another order"
    assert wrong.detail["turns"]["1"] == {"met": False, "missed": ["the tools were called in another order"]}
    in_order = {"1": ExpectTurn(tools=(ExpectedTool(name="a"), ExpectedTool(name="b")))}
    right = scored(in_order, spans=spans, match="ordered")
    assert (right.value, right.reason, right.detail) == (1.0, None, {"turns": {"1": {"met": True}}})


def test_a_call_that_is_not_expected_counts_only_where_none_is_and_one_without_a_turn_nowhere():
    spans = [CALL, Span(id="b", kind="tool", name="pay", attributes={"turn": 2})]
    assert scored({"2": FIND}, spans=spans).value == 1.0
    lost = Span(id="b", kind="tool", name="pay", attributes={"turn": "first"})
    assert scored({"1": NO_CALL, "2": FIND}, spans=[CALL, lost]).value == 1.0


def test_several_replies_and_reasons_of_a_turn_are_told_apart():
    said = [ChatMessage(role="assistant", content=text, turn=1) for text in ("one", "two")]
    score = scored({"1": ExpectTurn(contains=("one", "two", "onetwo", "three"))}, messages=said)
    assert score.reason == 'turn 1: "onetwo" is not in the reply; turn 1: "three" is not in the reply'


def test_what_was_not_recorded_is_not_scored():
    with pytest.raises(Skip, match="expects nothing of a single turn"):
        scored({})
    with pytest.raises(Skip, match="messages of the conversation were not recorded"):
        scored({"1": ExpectTurn(contains=("x",))}, messages=())
    with pytest.raises(Skip, match="no trace was recorded"):
        scored({"1": ExpectTurn(tools=())}, spans=None)


CASES = [
    {"id": name, "turns": ["Hi", {"user": name, "expect": {"contains": "yes"}}]}
    for name in ("good", "bad", "dead")
]


def agent(messages):
    if messages[-1]["content"] == "dead":
        raise ValueError("it broke")
    return "yes" if messages[-1]["content"] == "good" else "no"


def reasons(run):
    return {each.case: each.scores["success"].reason for each in run.evaluations()}


def test_a_conversation_succeeds_if_each_turn_went_as_expected_and_is_one_observation():
    run = tv.evaluate(CASES, agent=agent)
    summary = run.summary()
    assert summary.metrics["success"].mean == pytest.approx(1 / 3)
    assert (summary.metrics["turn_success"].n, summary.attempts) == (2, 3)
    assert reasons(run)["bad"] == 'turn 2: "yes" is not in the reply'
    assert reasons(run)["dead"] == "the attempt failed: turn 2: ValueError: it broke"
    assert "every turn of a conversation" in str(run.summary())


LONG = "word " * 21
MIXED = [
    *CASES[:2],
    {"id": "short", "input": [{"role": "user", "content": "good"}], "references": ["yes"]},
    {"id": "wrong", "input": [{"role": "user", "content": "x"}], "references": ["yes"]},
]


@pytest.mark.parametrize("more", ["", "long"])
def test_the_order_of_cases_does_not_change_what_success_is(more):
    """Turns decide where a case has them; of the others all references are short, or one is long."""
    cases = {
        "": MIXED,
        "long": [*MIXED, {"id": "long", "input": [{"role": "user", "content": "x"}], "references": [LONG]}],
    }[more]
    found = []
    for ordered in (cases, cases[::-1]):
        run = tv.evaluate(ordered, agent=agent, metrics=["success"])
        found.append({each.case: each.scores["success"].value for each in run.evaluations()})
    assert found[0] == found[1]
    others = {"": {"short": 1, "wrong": 0}, "long": {"short": 1, "wrong": 0, "long": 0}}
    assert found[0] == {"good": 1, "bad": 0} | others[more]


def test_turns_decide_in_place_of_another_rule_or_alone():
    agents = {"agent": agent, "metrics": ["success"]}
    beside = tv.evaluate(MIXED, success={"turns": True, "regex": "^no"}, **agents)
    alone = tv.evaluate(MIXED, success={"turns": True}, **agents)
    values = [[each.scores["success"].value for each in run.evaluations()] for run in (beside, alone)]
    assert values == [[1, 0, 0, 1], [1, 0, None, None]]


def test_a_rule_of_the_suite_comes_first():
    run = tv.evaluate(CASES[:1], agent=agent, success={"regex": "^no"})
    assert run.summary().metrics["success"].mean == 0.0


def test_many_conversations_at_once_equal_one_at_a_time():
    cases = [
        {"id": str(number), "turns": [f"{number}.{turn}" for turn in range(1 + number % 4)]}
        for number in range(50)
    ]

    def echo(messages):
        return {"output": " ".join(each["content"] for each in messages), "seconds": len(messages)}

    def held(at_once):
        suite = tv.Suite.load(cases).with_settings(limits={"attempts_at_once": at_once}, metrics=["time"])
        run = tv.evaluate(suite, agent=echo)
        return [(attempt.case, attempt.messages, attempt.seconds) for attempt in run.attempts()]

    assert held(50) == held(1)


def test_attempts_that_are_exported_and_scored_again_keep_their_score(tmp_path):
    run = tv.evaluate(CASES, agent=agent)
    path = tmp_path / "attempts.jsonl"
    path.write_bytes(b"\n".join(msgspec.json.encode(attempt) for attempt in run.attempts()))
    again = tv.evaluate(CASES, outputs=path)
    assert list(again.attempts()) == list(run.attempts())
    assert again.summary().metrics["turn_success"].mean == run.summary().metrics["turn_success"].mean
