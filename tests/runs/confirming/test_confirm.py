"""A comparison is decided by asking the agents again, where that tells most."""

import logging

import msgspec
import pytest

import trivium as tv
from tests.runs.suites import Says, told_suite
from trivium.errors import AgentError, ComparisonError, InputError, StoreError
from trivium.runs.comparing.earlier_runs import confirming_runs
from trivium.runs.run import Run
from trivium.store.records import Confirms
from trivium.store.store import Store
from trivium.suites.settings import DecideSettings

BROKEN = ("q3", "q7", "q9")
GOOD = Says(dict.fromkeys((f"q{i}" for i in range(60)), 1))


class Repeats(Says):
    """Answers by a table; a list has the answer of each attempt, the last one for all further ones."""

    def __call__(self, question, *, repeat):
        self.asked.append((question, repeat))
        answer = self.answers.get(question, 1)
        if isinstance(answer, list):
            answer = answer[min(repeat, len(answer) - 1)]
        if isinstance(answer, Exception):
            raise answer
        return str(answer)


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


def evaluated(store, agent, *, count=60, **settings):
    run = tv.evaluate(told_suite(count, **settings), agent=agent, store=store)
    agent.asked.clear()
    return run


@pytest.fixture
def agents():
    return Repeats({}), Repeats(dict.fromkeys(BROKEN, 0))


@pytest.fixture
def runs(store, agents):
    return tuple(evaluated(store, agent) for agent in agents)


def test_cases_that_broke_are_found_and_named_with_few_calls(store, agents, runs):
    comparison = tv.confirm(*runs, calls=120, agent=agents[1], base_agent=agents[0])
    made = comparison.confirmed
    broke = {move.case for move in comparison.moved_cases.changes if move.state == "broke"}

    assert broke == set(BROKEN)
    assert (made.base.attempts, made.head.attempts) == tuple(len(each.asked) for each in agents)
    assert made.base.attempts + made.head.attempts <= 40
    assert {store.run(run).kind for run in made.runs} == {"confirm"}
    assert comparison == tv.compare(*runs)


def test_what_is_asked_about_decides_when_to_stop_and_the_answer(store, agents, runs):
    these = tv.confirm(*runs, calls=200, agent=agents[1], base_agent=agents[0], about="these")
    made = sum(len(agent.asked) for agent in agents)
    others = tv.confirm(*runs, calls=200, agent=agents[1], base_agent=agents[0], about="like-these")

    assert (these.answer, these.confirmed.end) == ("fail", "decided")
    assert these.probability > 0.95
    assert made <= 40
    assert sum(len(agent.asked) for agent in agents) == made  # only more cases would tell
    assert others.probability < 0.95
    assert others.decide.about == "like-these"


def test_no_attempt_is_made_twice_and_none_has_the_number_of_an_earlier_one(agents, runs):
    for _ in range(3):
        tv.confirm(*runs, calls=17, agent=agents[1], base_agent=agents[0], policy="proof")

    for agent in agents:
        assert len(set(agent.asked)) == len(agent.asked)
        assert min(repeat for _, repeat in agent.asked) == 1


@pytest.mark.parametrize("calls", [1, 3, 10, 23])
def test_the_calls_are_used_up_and_no_more_are_made(agents, runs, calls):
    tv.confirm(*runs, calls=calls, agent=agents[1], base_agent=agents[0], policy="proof", margin=0.001)

    assert sum(len(agent.asked) for agent in agents) == calls


def test_what_is_decided_asks_nothing(store, agents, runs):
    tv.confirm(*runs, calls=200, agent=agents[1], base_agent=agents[0])
    before = len(store.runs())
    for agent in agents:
        agent.asked.clear()
    again = tv.confirm(*runs, calls=200, agent=agents[1], base_agent=agents[0])

    assert [agent.asked for agent in agents] == [[], []]
    assert len(store.runs()) == before
    assert again.confirmed is not None


def test_what_only_more_cases_would_tell_asks_nothing_and_says_so(store, agents, caplog):
    broken = Repeats({f"q{i}": 0 for i in range(3)})
    runs = [evaluated(store, agent, repeats=8) for agent in (agents[0], broken)]
    with caplog.at_level(logging.WARNING):
        comparison = tv.confirm(*runs, calls=50, agent=broken, base_agent=agents[0])

    assert (agents[0].asked, broken.asked) == ([], [])
    assert comparison.confirmed is None
    assert "nothing is asked again: more attempts at these cases would hardly tell more" in caplog.text


def test_unchanged_outputs_and_proofs_ask_nothing(store, agents):
    worst = Repeats({f"q{i}": 0 for i in range(60)})
    for other, policy in ((Repeats({}), "balanced"), (worst, "balanced"), (worst, "proof")):
        runs = [evaluated(store, agent) for agent in (agents[0], other)]
        tv.confirm(*runs, calls=50, agent=other, base_agent=agents[0], policy=policy)
        assert (agents[0].asked, other.asked) == ([], [])


def test_what_the_model_is_sure_of_is_asked_once_if_the_comparison_is_not(store, agents):
    other = Repeats({"q1": 0})
    runs = [evaluated(store, agent, count=120) for agent in (agents[0], other)]
    before = tv.compare(*runs)
    comparison = tv.confirm(*runs, calls=100, agent=other, base_agent=agents[0])

    assert 0.05 < before.probability < 0.95
    assert len(agents[0].asked) + len(other.asked) == 20
    assert comparison.confirmed.end in {"decided", "cases"}


def test_only_head_is_asked_without_the_agent_of_base_and_that_is_said(agents, runs, caplog):
    with caplog.at_level(logging.WARNING):
        comparison = tv.confirm(*runs, calls=12, agent=agents[1], policy="proof")

    assert agents[0].asked == []
    assert comparison.confirmed.base.attempts == 0
    assert any("only head was asked again" in each for each in comparison.warnings)
    assert "base is not asked again" in caplog.text


def test_failed_attempts_count_as_the_suite_says(agents, runs):
    agents[1].answers["q3"] = [0, RuntimeError("no"), 1]
    comparison = tv.confirm(*runs, calls=60, agent=agents[1], base_agent=agents[0], policy="proof")
    (moved,) = (move for move in comparison.moved_cases.changes if move.case == "q3")

    assert comparison.confirmed.head.failed == 1
    assert moved.head_attempts > 1


def test_an_agent_that_fails_at_every_attempt_decides_nothing(store, agents, runs):
    broken = Repeats({f"q{i}": RuntimeError("no key") for i in range(60)})
    for _ in range(2):
        with pytest.raises(AgentError, match=r"all of the first \d+ attempts failed.*no key"):
            tv.confirm(*runs, calls=60, agent=broken, base_agent=agents[0])

    assert len(broken.asked) < 60
    assert not any(move.state == "broke" for move in tv.compare(*runs).moved_cases.changes)
    comparison = tv.confirm(*runs, calls=60, agent=agents[1], base_agent=agents[0])
    assert comparison.confirmed.head.failed == 0


def test_an_agent_that_failed_in_the_run_too_is_not_broken(store, agents):
    failing = Repeats(dict.fromkeys(BROKEN, RuntimeError("no")))
    runs = evaluated(store, agents[0], count=10), evaluated(store, failing, count=10)
    comparison = tv.confirm(*runs, calls=40, agent=failing, base_agent=agents[0])

    assert {move.case for move in comparison.moved_cases.changes if move.state == "broke"} == set(BROKEN)


def test_cases_that_only_one_run_has_are_not_asked(store, agents):
    runs = evaluated(store, agents[0], count=30), evaluated(store, agents[1], count=20)
    tv.confirm(*runs, calls=100, agent=agents[1], base_agent=agents[0], policy="proof")

    assert {case for agent in agents for case, _ in agent.asked} <= {f"q{i}" for i in range(20)}


def test_the_metric_that_decides_is_asked_about(store, agents):
    by = DecideSettings(by="told")
    agents[1].answers.update(dict.fromkeys(BROKEN, 0.6))  # passed, but by less
    runs = [evaluated(store, agent, decide=by) for agent in agents]
    comparison = tv.confirm(*runs, calls=30, agent=agents[1], base_agent=agents[0], policy="proof")

    assert comparison.decided_by == ("told",)
    assert comparison.confirmed.head.attempts > 0


def test_gates_and_certificates_of_the_suite_stay_out_of_it(store, agents):
    runs = [evaluated(store, agent, gates={"pass_rate": {"at_least": 0.9}}) for agent in agents]
    comparison = tv.confirm(*runs, calls=10, agent=agents[1], base_agent=agents[0], policy="proof")

    for run in comparison.confirmed.runs:
        summary = Run.load(run, store=store).summary()
        assert summary.gates == ()
        assert summary.warnings[0].endswith("its figures are not those of the suite")
        assert (summary.missing, summary.total_tests) == (0, summary.attempts)


@pytest.mark.parametrize("calls", [0, -3])
def test_a_number_of_calls_below_one_is_refused(agents, runs, calls):
    with pytest.raises(InputError, match=f"calls: found {calls}, expected at least 1"):
        tv.confirm(*runs, calls=calls, agent=agents[1])


def test_runs_that_cannot_be_asked_again_are_refused(store, agents, runs):
    recorded = tv.evaluate(told_suite(60), outputs=[{"case": "q0", "output": "1"}], store=store)
    other = evaluated(store, agents[1], passed={"metric": "told", "at_least": 0.9})
    store.finish(evaluated(store, agents[1]).record, "interrupted", summary=None)
    stopped = store.run().id
    confirming = tv.confirm(*runs, calls=4, agent=agents[1], policy="proof").confirmed.runs[0]

    for base, head, error, words in (
        (runs[0].id, "nowhere", StoreError, 'no run is called "nowhere"'),
        (runs[0], runs[1], InputError, r"does not say how to call its agent again \(Repeats\).*--agent"),
        (runs[0], recorded, InputError, "holds recorded outputs: name the agent of that version"),
        (runs[0], other, ComparisonError, "pass: "),
        (runs[0].id, stopped, InputError, "is not finished: finish it first"),
        (runs[0].id, confirming, InputError, "is of kind confirm"),
    ):
        with pytest.raises(error, match=words):
            tv.confirm(base, head, calls=10, store=store)


def test_a_run_that_stopped_when_it_was_decided_is_refused(store, agents, runs):
    head = tv.evaluate(told_suite(60), agent=agents[1], store=store, until_decided=True, against=runs[0].id)

    with pytest.raises(InputError, match="confirming needs a run without --until-decided"):
        tv.confirm(runs[0], head, calls=10, agent=agents[1])


def test_a_run_that_was_killed_before_its_first_attempt_is_finished(store, agents, runs):
    made = tv.confirm(*runs, calls=60, agent=agents[1], base_agent=agents[0], about="these").confirmed
    of_head = next(run for run in confirming_runs(store, *(run.record for run in runs)).head)
    empty = store.new_run(
        id=store.new_run_id(),
        suite_name=of_head.suite_name,
        suite=of_head.suite,
        kind="confirm",
        settings=of_head.settings,
        provenance=msgspec.structs.replace(
            of_head.provenance, confirms=Confirms(run=runs[1].id, against=runs[0].id, budget="other")
        ),
    )
    store.finish(empty, "interrupted", summary=None)
    for agent in agents:
        agent.asked.clear()
    again = tv.confirm(*runs, calls=60, agent=agents[1], base_agent=agents[0], about="these")

    assert [agent.asked for agent in agents] == [[], []]
    assert store.run(empty.id).state == "done"
    assert again.confirmed.head.attempts == made.head.attempts
