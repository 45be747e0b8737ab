"""A simulated user: a scripted provider plays user and judge, whose behaviour is known."""

import json
import re
from collections import Counter
from functools import partial

import pytest

import trivium as tv
from tests.judge_server import JudgeServer
from tests.metrics.judge.asked import GPT
from tests.metrics.judge.asked import served as served_by
from trivium.suites.case import Case, SimulatedUser
from trivium.suites.rubrics.built_in import user_mistakes

SECRET_REFERENCE = "the answer that no user may see"
NUMBERS = range(50)


def case(number, **user):
    fields = {
        "goal": f"Goal {number}.",
        "persona": "in a hurry",
        "knows": ["the order 42"],
        "turns": 6,
    } | user
    return {
        "id": str(number),
        "user": fields,
        "references": [SECRET_REFERENCE],
        "expect": {"facts": [SECRET_REFERENCE]},
    }


def wanted(number):
    """How many turns the user takes; one in ten never stops."""
    return 6 if number % 10 == 9 else 1 + number % 5


def plays(question):
    """The user who stops after so many turns as its goal says, and the judge who reads the last reply."""
    prompt = question.prompt
    if "You play a user" not in prompt:
        return {
            "goal_reached": {
                "evidence": ["reached it now"] if "reached it now" in prompt else [],
                "level": "excellent" if "reached it now" in prompt else "failed",
                "reason": "so",
                "confidence": 5,
            }
        }
    number = int(re.search(r"goal: Goal (\d+)\.", prompt)[1])
    turns = len(re.findall(r"^turn \d+, user: ", prompt, re.MULTILINE))
    done = turns >= wanted(number) and number % 10 != 9
    return {"reason": "so", "done": done, "message": "" if done else f"{number}, {turns + 1}"}


def agent(messages):
    """Reaches the goal of every third case in its last turn."""
    number, turn = map(int, messages[-1]["content"].split(", "))
    reached = number % 3 == 0 and turn == wanted(number)
    output = "I have reached it now." if reached else "Not yet."
    return {"output": output, "usage": {"input_tokens": 10, "output_tokens": 1, "cost_usd": 0.25}}


@pytest.fixture
def served(monkeypatch):
    return partial(served_by, patch=monkeypatch)


def suite(at_once=16, *, cases=NUMBERS, metrics=("goal_reached",), **judge):
    settings = {
        "metrics": list(metrics),
        "judge": {"models": [GPT], "on_failure": "skip", **judge},
        "limits": {"attempts_at_once": at_once},
    }
    return tv.Suite.load([case(number) for number in cases]).with_settings(**settings)


def held(run):
    return [
        (attempt.case, attempt.messages, attempt.usage, attempt.flags, attempt.error)
        for attempt in run.attempts()
    ]


def test_goals_turns_and_costs_equal_the_truth_and_fifty_at_once_equal_one_at_a_time(served, tmp_path):
    with served(JudgeServer(answer=plays)) as server:
        run = tv.evaluate(suite(50), agent=agent, store=tmp_path / "a.db")
        asked = [question for question in server.requests if "You play a user" in question.prompt]
        alone = tv.evaluate(suite(1), agent=agent, store=tmp_path / "b.db")
    assert held(run) == held(alone)
    for attempt in run.attempts():
        number = int(attempt.case)
        assert attempt.error is None
        assert attempt.messages[-1].turn == wanted(number)
        assert attempt.usage.cost_usd == 0.25 * wanted(number)
        assert ("user_did_not_stop" in attempt.flags) == (number % 10 == 9)
    reached = sum(number % 3 == 0 for number in NUMBERS)
    assert run.summary().metrics["goal_reached"].mean == pytest.approx(reached / len(NUMBERS))
    assert len(asked) == sum(wanted(number) + 1 for number in NUMBERS)
    assert not any(SECRET_REFERENCE in question.prompt for question in asked)
    assert run.summary().spent.dimensions["simulated_user"].requests == len(asked)


def test_a_run_with_the_same_seed_asks_nothing_again_and_another_seed_does(served, tmp_path):
    with served(JudgeServer(answer=plays)) as server:
        first = tv.evaluate(suite(cases=range(5)), agent=agent, store=tmp_path / "a.db")
        sent = len(server.requests)
        again = tv.evaluate(suite(cases=range(5)), agent=agent, store=tmp_path / "a.db")
        assert len(server.requests) == sent
        assert held(again) == held(first)
        tv.evaluate(suite(cases=range(5)), agent=agent, store=tmp_path / "a.db", seed=7)
    seeds = Counter(question.body["seed"] for question in server.requests[sent:])
    assert seeds.total() >= sum(wanted(number) + 1 for number in range(5))


def test_a_user_that_cannot_be_asked_says_nothing_about_the_agent(served, tmp_path):
    def broken(question):
        return "no JSON" if "You play a user" in question.prompt else plays(question)

    with served(JudgeServer(answer=broken)):
        run = tv.evaluate(suite(cases=[0], metrics=("goal_reached", "success")), agent=agent)
    (attempt,) = run.attempts()
    assert attempt.error.startswith("turn 1: the simulated user said nothing: gpt-4o answered")
    assert attempt.flags == ("user_failed",)
    (evaluation,) = run.evaluations()
    assert {score.status for score in evaluation.scores.values()} == {"error"}


def test_a_budget_covers_the_user(served):
    with served(JudgeServer(answer=plays)) as server:
        run = tv.evaluate(suite(cases=[4], budget_tokens=50), agent=agent)
    (attempt,) = run.attempts()
    assert "the simulated user said nothing" in attempt.error
    assert not server.requests


def test_without_a_model_the_reason_says_what_is_missing():
    run = tv.evaluate([case(1)], agent=agent, metrics=["success"], success={"regex": "x"})
    (attempt,) = run.attempts()
    assert attempt.error == (
        "turn 1: a simulated user needs a model: name one under judge.models in the suite"
    )


def test_the_agent_does_not_see_the_user_and_the_user_does_not_see_its_tools(served):
    seen = []

    def watching(messages, *, case):
        seen.append(json.dumps([messages, repr(case.user)]))
        return {"output": "Secret sk-ant-api03-abcdefghij0123456789ABCDEFGHIJKL-ab_cd", "trace": None}

    with served(JudgeServer(answer=plays)) as server:
        tv.evaluate(suite(cases=[1]), agent=watching)
    assert not any("Goal" in each for each in seen)
    assert not any("ABCDEFGHIJKL" in question.prompt for question in server.requests)


def test_a_case_has_turns_or_a_user():
    with pytest.raises(ValueError, match="the case has turns and a user: keep one of them"):
        Case(id="a", turns=("x",), user=SimulatedUser(goal="y"))
    assert Case(id="a", user=SimulatedUser(goal="y")).input_shown == "simulated user, whose goal is: y"


MISTAKES = {3: "user_kept_goal", 5: "user_told_what_they_know", 7: "user_ended_in_time"}


def finds(question):
    """A judge who finds the planted mistakes of users, by their goals."""
    if "You play a user" in question.prompt:
        return plays(question)
    number = int(re.search(r"goal: Goal (\d+)\.", question.prompt)[1])
    return {
        name: {
            "evidence": [f"{number}, 1"],
            "level": "mistake" if MISTAKES.get(number) == name else "none",
            "reason": "so",
            "confidence": 5,
        }
        for name in user_mistakes()
    }


def test_attempts_with_a_mistake_of_the_user_are_named_and_left_out(served):
    rule = {"regex": "Not yet", "unless": "user_mistakes"}
    with served(JudgeServer(answer=finds)):
        run = tv.evaluate(suite(cases=range(9), metrics=["success"]), agent=agent, success=rule)
    scores = {each.case: each.scores for each in run.evaluations()}
    left_out = {
        case: each["success"].reason for case, each in scores.items() if each["success"].value is None
    }
    assert left_out == {
        str(number): f"the simulated user made a mistake ({name} is 0): it is left out"
        for number, name in MISTAKES.items()
    }
    summary = run.summary()
    assert (summary.metrics["success"].n, summary.passed + summary.failed) == (6, 6)
    assert summary.metrics["user_kept_goal"].mean == pytest.approx(8 / 9)
    assert [each.scores["user_kept_goal"].detail["evidence"][0]["turn"] for each in run.evaluations()] == [
        1
    ] * 9
    assert "no pass/fail for 3 of 9 attempts" in str(summary)


def test_who_plays_no_user_is_not_judged(served):
    with served(JudgeServer(answer=finds)) as server:
        run = tv.evaluate(
            [{"id": "1", "turns": ["0, 1"]}],
            agent=agent,
            judge={"models": [GPT], "on_failure": "skip"},
            metrics=["success"],
            success={"regex": "reached", "unless": "user_mistakes"},
        )
    assert not server.requests
    assert run.summary().metrics["success"].mean == 1.0
