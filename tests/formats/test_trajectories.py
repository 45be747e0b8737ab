import json

import pytest

from tests.goldens import data
from trivium.agents.recorded import open_recorded
from trivium.errors import SuiteError
from trivium.formats.agents_eval import run_folders
from trivium.formats.tau_bench import changes_state
from trivium.suites.settings import SuccessRule
from trivium.suites.suite import Suite
from trivium.traces.readers.collection import read_path


def trajectory(task_id, trial, *, tools=(), called=(), **task):
    calls = [
        {"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": "{}"}}]}
        for name in called
    ]
    actions = [{"name": name, "kwargs": {"id": 1}} for name in tools]
    info = {"task": {"instruction": f"Do {task_id}.", "actions": actions, **task}}
    return {
        "task_id": task_id,
        "trial": trial,
        "reward": 1.0,
        "info": info,
        "traj": [{"role": "user"}, "?", *calls],
    }


@pytest.fixture
def tasks(tmp_path):
    path = tmp_path / "air.json"
    path.write_text(
        json.dumps(
            [
                trajectory(
                    0,
                    0,
                    tools=["get_user", "book_flight"],
                    called=["list_all", "send_certificate"],
                    outputs=["9"],
                ),
                trajectory(1, 0),
                trajectory(0, 1, tools=["get_user", "book_flight"], called=["think"], outputs=["9"]),
            ]
        )
    )
    return path


def test_each_task_is_a_case_and_each_trial_a_repeat(tasks):
    suite = Suite.load(f"tau-bench:{tasks}")
    assert [case.id for case in suite] == ["0", "1"]
    assert suite.settings.repeats == 2
    assert suite.settings.success == SuccessRule(reward=1.0)
    assert suite.settings.tools.read_only == ("get_user", "list_all", "think")
    assert suite.settings.metrics[0] == "action_match"
    case = suite.case("0")
    assert case.input == "Do 0."
    assert [(tool.name, tool.arguments, tool.reads) for tool in case.expect.tools] == [
        ("get_user", {"id": 1}, True),
        ("book_flight", {"id": 1}, False),
    ]
    assert case.metadata == {"outputs": ["9"]}
    assert suite.case("1").expect.tools == ()


def test_a_suite_file_may_add_to_what_the_source_says(tasks):
    (tasks.parent / "s.yaml").write_text("tau-bench: air.json\nmetrics: [success]\ntools: {ignore: [think]}")
    suite = Suite.load(tasks.parent / "s.yaml")
    assert suite.settings.metrics == ("success",)
    assert suite.settings.tools.ignore == ("think",)
    assert suite.settings.tools.read_only == ("get_user", "list_all", "think")
    assert suite.settings.repeats == 2


@pytest.mark.parametrize(
    ("tool", "changes_nothing"),
    [("get_user_details", True), ("think", True), ("book_reservation", False), ("cancel_reservation", False),
     ("update_reservation_flights", False), ("send_certificate", False), ("transfer_to_human_agents", True),
     ("booking_list", True), ("modify_user_address", False), ("return_delivered_order_items", False)],
)  # fmt: skip
def test_the_first_word_of_a_tool_says_whether_it_changes_state(tool, changes_nothing):
    assert changes_state(tool) is not changes_nothing


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({}, "expected a list of trajectories"),
        ([3], "[0]: found the number 3, expected a mapping"),
        ([{"task_id": None}], "[0].task_id: found nothing (null), expected a whole number or text"),
        ([{"task_id": 0, "info": {}}], '[0].info: "task" is missing'),
        (
            [{"task_id": 0, "info": {"task": {"instruction": "x", "actions": [{}]}}}],
            '[0].info.task.actions[0]: "name" is missing',
        ),
        (
            [{"task_id": 0, "info": {"task": {"instruction": "x"}}, "traj": 1}],
            "[0].traj: found the number 1, expected a list",
        ),
        ([], "holds no case"),
    ],
)
def test_a_file_of_something_else_says_what_is_wrong(tmp_path, raw, message):
    (tmp_path / "t.json").write_text(json.dumps(raw))
    with pytest.raises(SuiteError) as caught:
        Suite.load(f"tau-bench:{tmp_path / 't.json'}")
    assert message in str(caught.value)


def test_broken_json_is_placed(tmp_path):
    (tmp_path / "t.json").write_text("[\n1,]")
    # Python 3.13 names the comma, earlier ones what stands behind it.
    with pytest.raises(SuiteError, match="t.json: line 2, column [23]: broken JSON"):
        Suite.load(f"tau-bench:{tmp_path / 't.json'}")


def test_the_airline_sample_has_33_tasks_of_4_trials():
    path = data("traces/tau-bench/gpt-4o-airline_tasks_00-32.json")
    suite = Suite.load(f"tau-bench:{path}")
    assert (len(suite), suite.settings.repeats) == (33, 4)
    expected = [len(case.expect.tools) for case in suite]
    assert sum(expected) / len(expected) == pytest.approx(3.09, abs=0.005)


@pytest.fixture
def runs(tmp_path):
    for name, paper in (("mas/b", "12.5"), ("mas/a", "unknown"), ("c", None)):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "trace.json").write_text("{}")
        if paper:
            (folder / "metadata.json").write_text(json.dumps({"paper_id": paper, "cli_args": None}))
    (tmp_path / "runs" / "without_trace" / "d").mkdir(parents=True)
    return tmp_path / "runs"


def test_each_run_with_a_trace_is_a_case(runs):
    suite = Suite.load(f"agents-eval:{runs}")
    assert [(case.id, case.input) for case in suite] == [
        ("c", "Review a paper."), ("mas/a", "Review a paper."), ("mas/b", "Review the paper 12.5.")
    ]  # fmt: skip
    assert suite.case("mas/b").metadata == {"paper_id": "12.5"}
    assert [case.id for case in Suite.load(f"agents-eval:{runs / 'mas'}")] == ["a", "b"]
    assert [case.id for case in Suite.load(f"agents-eval:{runs / 'mas' / 'b'}")] == ["b"]
    assert run_folders(runs)["mas/a"] == runs / "mas" / "a"


def test_runs_with_claude_code_beside_them_are_read_too(runs):
    """Their events are all of their trace; one that could not start left an empty file."""
    stream = next(data("traces/agents-eval/cc").glob("*165254*/stream.jsonl")).read_bytes()
    for name, content in (("team", stream), ("empty", b"")):
        (runs / "cc" / name).mkdir(parents=True)
        (runs / "cc" / name / "stream.jsonl").write_bytes(content)
    suite = Suite.load(f"agents-eval:{runs}")
    assert [case.id for case in suite] == ["c", "cc/team", "mas/a", "mas/b"]
    alone = runs / "cc" / "team"
    ((case, attempt),) = open_recorded(f"agents-eval:{alone}", Suite.load(f"agents-eval:{alone}"))
    found, (trace,) = read_path(alone)
    assert (case.id, found) == ("team", "claude-code")
    assert attempt.trace.tool_calls == trace.tool_calls != ()


def test_broken_metadata_is_named(runs):
    (runs / "c" / "metadata.json").write_text("{")
    with pytest.raises(SuiteError, match=r"c/metadata\.json: line 1, column 2: broken JSON"):
        Suite.load(f"agents-eval:{runs}")


@pytest.mark.parametrize(
    ("below", "message"), [("no", "there is no such folder"), ("c/trace.json", "is not a folder"),
                        ("without_trace", "holds no run: expected folders with a trace.json")]
)  # fmt: skip
def test_a_folder_without_runs_is_an_error(runs, below, message):
    with pytest.raises(SuiteError, match=message):
        Suite.load(f"agents-eval:{runs / below}")


def test_the_sample_has_the_runs_that_are_expected_of_it():
    expected = json.loads(data("traces/agents-eval/expected.json").read_text())
    suite = Suite.load(f"agents-eval:{data('traces/agents-eval')}")
    assert [case.id for case in suite] == [
        name for name in sorted(expected) if name.startswith("mas/") or expected[name]["events"]
    ]
