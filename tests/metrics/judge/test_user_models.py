"""Two user models as a factor: a scripted provider plays both, and each behaves as is known."""

import json
import re
from collections import Counter

import numpy as np
import pytest
from scipy import stats

import trivium as tv
from tests.judge_server import JudgeServer
from tests.metrics.judge.asked import GPT, MINI, served
from trivium.errors import OutputsError
from trivium.reports.comparison import render_markdown as comparison_markdown
from trivium.reports.document.markdown import markdown
from trivium.reports.html.overview import sections
from trivium.reports.summary import render_markdown
from trivium.runs.pipeline import NoProgress
from trivium.store.export.tables import attempt_rows, score_rows

CASES = range(8)
SETTINGS = {
    "judge": {"models": [GPT], "on_failure": "skip"},
    "metrics": ["success"],
    "success": {"regex": "done"},
    "user": {"model": [GPT, MINI], "turns": 2},
}


def cases(numbers=CASES):
    return [{"id": str(number), "user": {"goal": f"Goal {number}."}} for number in numbers]


def plays(question):
    """Both users say one thing: who they are, and the number of the case."""
    number = re.search(r"goal: Goal (\d+)\.", question.prompt)[1]
    over = "turn 1, user: " in question.prompt
    return {"reason": "so", "done": over, "message": "" if over else f"{question.model} {number}"}


def agent(messages):
    """Serves one of the users in every case, the other in every second case."""
    name, number = messages[-1]["content"].split()
    return "done" if name == "gpt-4o" or int(number) % 2 else "no"


@pytest.fixture
def server(monkeypatch):
    with served(JudgeServer(answer=plays), monkeypatch) as serving:
        yield serving


def held(run):
    return {attempt.case: attempt.messages[0].content for attempt in run.attempts()}


def test_each_case_is_held_with_each_user_model(server, tmp_path):
    run = tv.evaluate(tv.Suite.load(cases(), **SETTINGS), agent=agent, store=tmp_path / "a.db")
    assert held(run) == {
        f"{number}@{model}": f"{model.removeprefix('openai:')} {number}"
        for number in CASES
        for model in (GPT, MINI)
    }
    summary = run.summary()
    assert summary.pass_rate.value == 0.75
    assert summary.pass_rate.groups == len(CASES)
    slices = run.slices("user")
    assert {one.value: one.pass_rate.mean for one in slices.slices} == {GPT: 1.0, MINI: 0.5}
    exported = {row["case"] for row in score_rows(run.store, run.record)}
    assert exported == set(held(run))
    assert [question.body["seed"] for question in server.requests]


class Stops(NoProgress):
    """Ends the run once, after some attempts."""

    run = ""

    def begin(self, *, run, total, already):
        self.run, self.already = run, already

    def advance(self, *, done, failed):
        raise OutputsError("", "stopped")


def test_a_run_is_resumed_and_repeated_by_seed(server, tmp_path):
    suite, store = tv.Suite.load(cases(range(6)), **SETTINGS), tmp_path / "a.db"
    suite, stops, goes_on = suite.with_settings(limits={"attempts_at_once": 1}), Stops(), Stops()
    with pytest.raises(OutputsError):
        tv.evaluate(suite, agent=agent, store=store, progress=stops)
    goes_on.advance = lambda **_: None
    run = tv.evaluate(suite, agent=agent, store=store, resume=stops.run, progress=goes_on)
    assert 0 < goes_on.already < 12
    assert run.summary().attempts == 12
    sent = len(server.requests)
    again = tv.evaluate(suite, agent=agent, store=store)
    assert len(server.requests) == sent
    assert held(again) == held(run)


def test_a_single_user_model_of_the_suite_is_as_that_of_each_case(server, tmp_path):
    of_suite = tv.Suite.load(cases(), **SETTINGS | {"user": {"model": [MINI], "turns": 2}})
    own = [case | {"user": case["user"] | {"model": MINI, "turns": 2}} for case in cases()]
    of_cases = tv.Suite.load(own, **SETTINGS | {"user": None})
    assert of_suite.digest == of_cases.digest
    run = tv.evaluate(of_suite, agent=agent, store=tmp_path / "a.db")
    assert json.dumps(held(run)) == json.dumps({str(number): f"gpt-4o-mini {number}" for number in CASES})


STRICT = {"excellent": "good", "failed": "failed"}
"""What the second judge says where the first says these."""
VALUES = {"excellent": 1.0, "good": 0.8, "failed": 0.0}


def plays_and_judges(question):
    """Also two judges, of whom one gives a level less where the agent was of use."""
    if "You play a user" in question.prompt:
        return plays(question)
    level = "excellent" if "turn 1, assistant: done" in question.prompt else "failed"
    if question.model == "gpt-4o-mini":
        level = STRICT[level]
    return {"goal_reached": {"evidence": [], "level": level, "reason": "so", "confidence": 5}}


def test_the_shares_of_the_spread_are_those_that_were_planted(monkeypatch, tmp_path):
    def answers(messages):
        """Of use to one user in every case, to the other in the first attempt at every second one."""
        name, number = messages[-1]["content"].split()
        counts[name, number] += 1
        first = counts[name, number] == 1
        return "done" if name == "gpt-4o" or (int(number) % 2 and first) else "no"

    counts = Counter()
    settings = SETTINGS | {
        "metrics": ["success", "goal_reached"],
        "judge": {"models": [GPT, MINI], "panel": True, "on_failure": "skip"},
        "repeats": 2,
        "seed": 3,
        "limits": {"attempts_at_once": 1},
    }
    with served(JudgeServer(answer=plays_and_judges), monkeypatch):
        run = tv.evaluate(tv.Suite.load(cases(), **settings), agent=answers, store=tmp_path / "a.db")
    spread = run.summary().spread
    used = np.ones((len(CASES), 2, 2))  # by case, user and attempt
    used[:, 1] = [[number % 2, 0] for number in CASES]

    found = spread["pass_rate"]
    of_cell, of_case, of_user = used.mean(2), used.mean((1, 2)), used.mean((0, 2))
    crossed = of_cell - of_case[:, None] - of_user + used.mean()
    ms_case, ms_user = 4 * of_case.var(ddof=1), 16 * of_user.var(ddof=1)
    ms_crossed, ms_within = 2 * (crossed**2).sum() / 7, used.var(axis=2, ddof=1).mean()
    truth = {
        "case": (ms_case - ms_crossed) / 4,
        "user": (ms_user - ms_crossed) / 16,
        "case × user": (ms_crossed - ms_within) / 2,
        "attempt": ms_within,
    }
    assert truth["case"] == pytest.approx(0)
    above = sum(max(0.0, variance) for variance in truth.values())
    for part in found.parts[:4]:
        assert part.variance == pytest.approx(max(0.0, truth[part.part]), abs=1e-12)
        assert part.share == pytest.approx(max(0.0, truth[part.part]) / above, abs=1e-12)
    assert [part.reason for part in found.parts[4:]] == [
        "no two judges scored one attempt (judge.panel): the agent's part includes it"
    ] * 2

    found = spread["goal_reached"]
    assert (found.users, found.judges, found.cases, found.attempts) == ((GPT, MINI), (GPT, MINI), 8, 32)
    within = 0.2 * used  # how far the judges are apart, by attempt
    parts = {part.part: part.variance for part in found.parts}
    assert parts["judge"] + parts["judgement"] == pytest.approx((within**2).mean() / 2)
    both_users = np.prod([0.2 * used[:, user].mean() for user in (0, 1)])
    assert parts["judge"] == pytest.approx(both_users / 2)


def test_a_report_says_where_the_spread_comes_from_and_what_is_not_measured(server, tmp_path):
    run = tv.evaluate(tv.Suite.load(cases(), **SETTINGS), agent=agent, store=tmp_path / "a.db")
    (section,) = (one for one in sections(run.summary(), {}) if one.key == "spread")
    for shown in (str(run.summary()), render_markdown(run.summary()), markdown([section])):
        text = " ".join(shown.replace("\\", "").split())
        assert "where the spread comes from" in text.lower()
        assert "agent's own attempts" in text
        assert "no case was held twice with one user model (repeats: 2)" in text
        assert "judges and single judgements: no judge took part" in text
    alone = tv.evaluate(
        tv.Suite.load(cases(), **SETTINGS | {"user": {"model": [MINI], "turns": 2}}), agent=agent
    )
    assert alone.summary().spread == {}
    assert "spread" not in str(alone.summary())


def compared(tmp_path, base, head, *, models=(GPT, MINI), number=24):
    settings = SETTINGS | {"user": {"model": list(models), "turns": 2}}
    suite = tv.Suite.load(cases(range(number)), **settings)
    store = tmp_path / "a.db"
    runs = [
        tv.evaluate(suite, agent=one, store=store, version=name) for name, one in (("a", base), ("b", head))
    ]
    return tv.compare(*runs)


def helps(who):
    """An agent that is of use to a user in the cases that ``who`` names for it."""

    def answers(messages):
        name, number = messages[-1]["content"].split()
        return "done" if int(number) % 12 in who[name] else "no"

    return answers


TWELVE = range(12)


def test_a_difference_that_another_user_would_change_by_more_says_so(server, tmp_path):
    base = helps({"gpt-4o": range(6), "gpt-4o-mini": range(6)})
    head = helps({"gpt-4o": range(10), "gpt-4o-mini": range(3)})
    comparison = compared(tmp_path, base, head)
    found = comparison.another_user
    assert found.users == pytest.approx({GPT: 4 / 12, MINI: -3 / 12})
    each = np.array([[number in range(6, 10), -(number in range(3, 6))] for number in TWELVE] * 2, float)
    apart = each[:, 0] - each[:, 1]
    assert found.p == pytest.approx(stats.ttest_1samp(apart, 0).pvalue)
    assert found.deviation == pytest.approx(np.sqrt((apart.mean() ** 2 - apart.var(ddof=1) / 24) / 2))
    assert (found.delta, found.larger, found.cases) == (pytest.approx(1 / 24), True, 24)
    told = "The difference is smaller than what another user model would change: +0.042, with a standard "
    for text in (str(comparison), comparison_markdown(comparison)):
        assert told in " ".join(text.replace("\\", "").split())


@pytest.mark.parametrize(
    ("who", "why"),
    [
        ({"gpt-4o": range(10), "gpt-4o-mini": range(10)}, "both like it"),
        ({"gpt-4o": range(12), "gpt-4o-mini": range(9)}, "it is larger than that"),
        ({"gpt-4o": range(7), "gpt-4o-mini": range(6)}, "it may be chance"),
    ],
)
def test_a_difference_that_holds_for_both_users_or_may_be_chance_does_not_say_so(server, tmp_path, who, why):
    base = helps({"gpt-4o": range(6), "gpt-4o-mini": range(6)})
    comparison = compared(tmp_path, base, helps(who))
    assert not comparison.another_user.larger, why
    assert "another user model" not in str(comparison)


def test_with_one_user_model_nothing_is_said_of_another(server, tmp_path):
    base, head = helps({"gpt-4o": range(6)}), helps({"gpt-4o": range(3)})
    assert compared(tmp_path, base, head, models=[GPT]).another_user is None


def test_of_a_single_case_the_report_says_that_nothing_is_told(server, tmp_path):
    suite = tv.Suite.load(cases([2]), **SETTINGS)
    run = tv.evaluate(suite, agent=agent, store=tmp_path / "a.db")
    parts = run.summary().spread["pass_rate"].parts
    assert {part.variance for part in parts} == {None}
    assert "The run does not tell what the spread of its pass rate comes from." in " ".join(
        str(run.summary()).split()
    )
    other = tv.evaluate(suite, agent=lambda messages: "no", store=tmp_path / "a.db")
    found = tv.compare(run, other).another_user
    assert (found.deviation, found.p, found.larger, found.cases) == (None, None, False, 1)


def test_exported_attempts_give_the_same_spread(server, tmp_path):
    suite, store = tv.Suite.load(cases(), **SETTINGS), tmp_path / "a.db"
    run = tv.evaluate(suite, agent=agent, store=store)
    again = tv.evaluate(suite, outputs=list(attempt_rows(run.store, run.record)), store=store)
    assert again.summary().spread == run.summary().spread
