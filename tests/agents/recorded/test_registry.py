import json
from math import comb

import pytest

from tests.goldens import data
from trivium.agents.recorded import open_recorded
from trivium.errors import InputError, OutputsError
from trivium.suites.settings import Limits
from trivium.suites.suite import Suite

CALL = {"id": "c1", "type": "function", "function": {"name": "book_seat", "arguments": '{"row": 3}'}}


def trajectory(task, trial, reward=1.0, finished=True):
    return {
        "task_id": task,
        "trial": trial,
        "reward": reward,
        "info": {
            "task": {"instruction": "Book a seat.", "actions": [{"name": "book_seat", "kwargs": {"row": 3}}]},
            "reward_info": {"reward": reward} if finished else None,
        },
        "traj": [
            {"role": "system", "content": "rules"},
            {"role": "user", "content": "a seat please"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "ok"},
            {"role": "assistant", "content": f"Booked for task {task}."},
        ],
    }


@pytest.fixture
def tau(tmp_path):
    path = tmp_path / "trips.json"
    path.write_text(json.dumps([trajectory(0, 0), trajectory(0, 1, 0.0, finished=False), trajectory(3, 0)]))
    return f"tau-bench:{path}"


def run_folder(root, name, *, review=None, trace=None):
    folder = root / name
    folder.mkdir(parents=True)
    started = [
        {"tool_name": "fetch", "success": True, "duration": 0.5, "timestamp": 10.5, "agent_id": "manager"},
        {"tool_name": "write", "success": True, "duration": 1.0, "timestamp": 12.0, "agent_id": "manager"},
    ]
    stored = {
        "execution_id": name,
        "agent_interactions": [],
        "tool_calls": started,
        "coordination_events": [],
    }
    (folder / "trace.json").write_text(json.dumps(stored) if trace is None else trace)
    if review is not None:
        (folder / "review.json").write_text(review)


def paper(root, name, *reviews):
    folder = root / "dev" / "reviews"
    folder.mkdir(parents=True, exist_ok=True)
    content = {"id": name, "title": "T", "abstract": "A", "reviews": [{"comments": text} for text in reviews]}
    (folder / f"{name}.json").write_text(json.dumps(content))


def test_a_file_of_trajectories_is_suite_and_outputs_at_once(tau):
    pairs = list(open_recorded(tau, Suite.load(tau)))
    assert [(case.id, attempt.case, attempt.repeat) for case, attempt in pairs] == [
        ("0", "0", 0),
        ("0", "0", 1),
        ("3", "3", 0),
    ]
    attempt = pairs[1][1]
    assert (attempt.output, attempt.reward, attempt.usage, attempt.seconds) == (
        "Booked for task 0.",
        0.0,
        None,
        None,
    )
    assert attempt.metadata == {"finished": False}
    assert [span.name for span in attempt.trace.tool_calls] == ["book_seat"]


def test_trajectories_of_other_tasks_are_a_mistake(tau, tmp_path):
    suite = Suite.load(tau).filter(where=lambda case: case.id == "3")
    with pytest.raises(OutputsError, match=r'\[0\]: the suite has no case "0"') as caught:
        open_recorded(tau, suite)
    assert len(caught.value.problems) == 2


def test_a_duplicate_trial_is_a_mistake(tmp_path):
    path = tmp_path / "twice.json"
    path.write_text(json.dumps([trajectory(0, 0), trajectory(0, 0)]))
    source = f"tau-bench:{path}"
    with pytest.raises(OutputsError, match=r"\[1\]: duplicate of \[0\]: case \"0\", repeat 0"):
        open_recorded(source, Suite.load(source))


def test_a_folder_of_runs_is_suite_and_outputs_at_once(tmp_path):
    run_folder(tmp_path, "a", review=json.dumps({"review": {"comments": "A fine paper.", "impact": "3"}}))
    run_folder(tmp_path, "b", review=json.dumps({"verdict": "good"}))
    run_folder(tmp_path, "c")
    run_folder(tmp_path, "d", review="{broken")
    run_folder(tmp_path, "e", trace='{"execution_id": 3, "tool_calls": 7, "agent_interactions": 5}')
    source = f"agents-eval:{tmp_path}"
    recorded = open_recorded(source, Suite.load(source))
    a, b, c, d, e = (attempt for _, attempt in recorded)
    assert len(recorded) == 5
    assert (a.output, b.output, c.output) == ("A fine paper.", {"verdict": "good"}, None)
    assert a.seconds == pytest.approx(2.0)  # from the start of the first call, 10.0
    assert (c.failed, len(c.trace.tool_calls)) == (False, 2)
    assert d.error.startswith("the review cannot be read")
    assert e.trace is None
    assert e.flags == ("trace_left_out",)
    assert not e.failed


def test_runs_that_are_no_cases_are_a_mistake(tmp_path):
    run_folder(tmp_path, "a")
    source = f"agents-eval:{tmp_path}"
    with pytest.raises(OutputsError, match='the suite has no case "a"'):
        open_recorded(source, Suite(name="other", cases=[{"id": "x", "input": ""}]))


def test_each_review_is_held_against_the_other_reviews_of_its_paper(tmp_path):
    paper(tmp_path, "1", "first", "second", "third")
    paper(tmp_path, "2", "alone")
    source = f"peerread:{tmp_path}"
    pairs = list(open_recorded(source, Suite.load(source), leave_one_out=True))
    assert [(case.id, attempt.repeat, attempt.output, case.references) for case, attempt in pairs] == [
        ("1", 0, "first", ("second", "third")),
        ("1", 1, "second", ("first", "third")),
        ("1", 2, "third", ("first", "second")),
    ]


def test_people_need_company(tmp_path):
    paper(tmp_path, "2", "alone")
    source = f"peerread:{tmp_path}"
    with pytest.raises(OutputsError, match="no paper of the suite has two reviews"):
        open_recorded(source, Suite.load(source), leave_one_out=True)


def test_people_s_outputs_are_not_taken_for_an_agent_s(tmp_path, tau):
    paper(tmp_path, "1", "first", "second")
    with pytest.raises(OutputsError, match="--leave-one-out"):
        open_recorded(f"peerread:{tmp_path}", Suite.load(f"peerread:{tmp_path}"))
    with pytest.raises(OutputsError, match="peerread has"):
        open_recorded(tau, Suite.load(tau), leave_one_out=True)


def test_a_misspelt_prefix_names_the_nearest(tau):
    with pytest.raises(InputError, match='Did you mean "tau-bench"'):
        open_recorded(tau.replace("tau-bench", "tau_bench"), Suite.load(tau))


def test_the_output_limit_holds_for_every_source(tau, tmp_path):
    paper(tmp_path / "p", "1", "first one", "second")
    run_folder(tmp_path / "r", "a", review=json.dumps({"review": {"comments": "A fine paper."}}))
    for source in (tau, f"agents-eval:{tmp_path / 'r'}", f"peerread:{tmp_path / 'p'}"):
        suite = Suite.load(source).with_settings(limits=Limits(output_bytes=8))
        pairs = open_recorded(source, suite, leave_one_out=source.startswith("peerread"))
        assert next(iter(pairs))[1].error == "the output is larger than 8 bytes (limits.output_bytes)"


def test_the_real_trajectories_keep_their_published_success_rates():
    source = f"tau-bench:{data('traces/tau-bench/gpt-4o-airline_tasks_00-32.json')}"
    suite = Suite.load(source)
    wins = dict.fromkeys((case.id for case in suite), 0)
    for case, attempt in open_recorded(source, suite):
        wins[case.id] += attempt.reward == 1.0
    rates = [sum(comb(c, k) / comb(4, k) for c in wins.values()) / len(wins) for k in (1, 2, 3, 4)]
    assert [round(rate, 3) for rate in rates] == [0.303, 0.167, 0.129, 0.121]


def test_the_real_runs_last_as_long_as_was_worked_out_by_hand():
    folder = data("traces/agents-eval")
    source = f"agents-eval:{folder}"
    expected = json.loads((folder / "expected.json").read_text())
    pairs = [pair for pair in open_recorded(source, Suite.load(source)) if pair[0].id.startswith("mas/")]
    assert len(pairs) == 24
    for case, attempt in pairs:
        assert attempt.seconds == pytest.approx(expected[case.id]["true_duration"], abs=1e-6)
        assert len(attempt.trace.tool_calls) == expected[case.id]["tool_calls"]


def test_seventeen_of_the_real_reviews_have_another_beside_them():
    source = f"peerread:{data('peerread/acl_2017')}"
    assert len(open_recorded(source, Suite.load(source), leave_one_out=True)) == 17
