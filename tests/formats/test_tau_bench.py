"""tau-bench: chats become spans, results find their calls, and the real file gives its own counts."""

import csv
import json
from typing import Any

import pytest

import trivium as tv
from tests.goldens import data
from trivium.errors import InputError, TraceError
from trivium.formats.tau_bench import changes_state, read_suite, read_trajectories
from trivium.traces.process.totals import trace_facts
from trivium.traces.readers import read_trace
from trivium.traces.readers.collection import read_trace_file


def call(name: str, arguments: Any, id: str = "c") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def chat(*turns: Any, **fields: Any) -> dict[str, Any]:
    return {"task_id": 3, "trial": 1, "reward": 1.0, "info": {}, "traj": list(turns)} | fields


def chat_message(role: str, content: str | None, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content} | fields


def test_a_chat_becomes_one_run_with_its_requests_calls_and_messages():
    trace = read_trace(
        chat(
            chat_message("system", "policy"),
            chat_message("user", "book it"),
            chat_message("assistant", None, tool_calls=[call("book_flight", '{"id": 7}')]),
            chat_message("tool", "done", tool_call_id="c", name="book_flight"),
            chat_message("assistant", "Booked."),
        )
    )
    assert [(s.kind, s.name, s.parent) for s in trace.spans] == [
        ("agent", "agent", None),
        ("llm", "assistant", "run"),
        ("tool", "book_flight", "run"),
        ("llm", "assistant", "run"),
    ]
    (booking,) = trace.tool_calls
    assert (booking.input, booking.output, booking.ok, booking.agent) == ({"id": 7}, "done", True, "agent")
    assert [(m.sender, m.receiver) for m in trace.messages] == [("user", "agent"), ("agent", "user")]
    assert trace.agents == ("agent",)
    assert trace.agent_messages == ()
    assert trace.seconds is None
    assert trace.problems == ()


def test_results_go_to_the_nearest_call_since_ids_repeat():
    trace = read_trace(
        chat(
            chat_message("assistant", None, tool_calls=[call("a", "{}", "same")]),
            chat_message("tool", "Error: no", tool_call_id="same"),
            chat_message(
                "assistant", None, tool_calls=[call("b", "{}", "same"), call("c", "not json", "other")]
            ),
            chat_message("tool", "of b", tool_call_id="same"),
            chat_message("tool", "of c", tool_call_id="unknown"),
            chat_message("tool", "of nobody", tool_call_id="same"),
            chat_message("assistant", None, tool_calls=[call("d", {"already": "parsed"})]),
            "nonsense",
        )
    )
    assert [(c.name, c.output, c.ok) for c in trace.tool_calls] == [
        ("a", "Error: no", False),
        ("b", "of b", True),
        ("c", "of c", True),
        ("d", None, None),
    ]
    assert trace.tool_calls[2].input == "not json"
    assert trace.tool_calls[3].input == {"already": "parsed"}
    assert sorted(problem.kind for problem in trace.problems) == [
        "incomplete",
        "orphan_result",
        "unfinished",
    ]


def test_trajectories_come_with_their_reward_and_answer(tmp_path):
    path = tmp_path / "runs.json"
    item = chat(chat_message("assistant", "Bye."), info={"reward_info": None}, reward=0)
    trials = [item, chat(reward=None, trial="x"), chat(reward=True), chat(reward=10**400)]
    path.write_text(json.dumps(trials), encoding="utf-8")
    first, second, *others = read_trajectories(path)
    assert [each.reward for each in others] == [1.0, None]
    assert (first.case, first.repeat, first.reward, first.metadata) == ("3", 1, 0.0, {"finished": False})
    assert first.output == "Bye."
    assert (second.repeat, second.reward, second.output) == (0, None, "")


@pytest.mark.parametrize("item", [3, {"traj": []}, {"task_id": 1}])
def test_what_is_no_trajectory_is_named(tmp_path, item):
    path = tmp_path / "runs.json"
    path.write_text(json.dumps([chat(), item]), encoding="utf-8")
    with pytest.raises(TraceError, match=r"\[1\]"):
        read_trace_file(path, "tau-bench")


def test_writing_tools_are_recognised_by_name():
    airline = [
        "book_reservation", "cancel_reservation", "send_certificate", "update_reservation_baggages",
        "update_reservation_flights", "update_reservation_passengers",
    ]  # fmt: skip
    retail = [
        "cancel_pending_order", "exchange_delivered_order_items", "modify_pending_order_address",
        "modify_pending_order_items", "modify_pending_order_payment", "modify_user_address",
        "return_delivered_order_items",
    ]  # fmt: skip
    reading = ["get_user_details", "find_user_id_by_email", "list_all_airports", "search_direct_flight",
               "transfer_to_human_agents", "think", "calculate"]  # fmt: skip
    assert all(map(changes_state, airline + retail))
    assert not any(map(changes_state, reading))


def test_the_real_file_gives_the_counts_of_its_summary():
    folder = data("traces/tau-bench")
    summary = json.loads((folder / "summary.json").read_text())
    path = folder / "gpt-4o-airline_tasks_00-32.json"
    found, cases = read_trajectories(path), {case.id: case for case in read_suite(path).cases}
    facts = trace_facts([trajectory.trace for trajectory in found], format="tau-bench")
    assert facts.traces == summary["trajectories"]
    assert sum(facts.tools.values()) == facts.kinds["tool"] == summary["tool_calls"]
    assert facts.failed_tool_spans == summary["failed_calls"]
    assert facts.problems == []
    assert sum(not trajectory.metadata["finished"] for trajectory in found) == summary["unfinished"]
    with (folder / "per_trajectory.csv").open() as rows:
        for row, trajectory in zip(csv.DictReader(rows), found, strict=True):
            calls = trajectory.trace.tool_calls
            writes = [call for call in calls if changes_state(call.name)]
            assert (row["task_id"], int(row["trial"])) == (trajectory.case, trajectory.repeat)
            assert float(row["reward"]) == trajectory.reward
            assert int(row["calls"]) == len(calls)
            assert int(row["failed_calls"]) == sum(call.ok is False for call in calls)
            assert int(row["write_calls"]) == len(writes)
            assert int(row["ok_write_calls"]) == sum(call.ok is True for call in writes)
            assert int(row["expected_calls"]) == len(cases[trajectory.case].expect.tools)


TASKS = {
    "policy": "Only orders of the last 30 days are returned.",
    "state": {"orders": {"1": "delivered", "2": "delivered"}},
    "tools": "tests.formats.test_tau_bench:TOOLS",
    "tasks": [
        {
            "instruction": "You want to return order 1 and hear the amount.",
            "user_id": "ann",
            "actions": [
                {"name": "get_order", "kwargs": {"order": "1"}},
                {"name": "return_order", "kwargs": {"order": "1"}},
            ],
            "outputs": ["12"],
        },
        {"id": "late", "instruction": "You want to return order 2.", "actions": []},
        {
            "task_id": 7,
            "instruction": "Return 2.",
            "actions": [{"name": "return_order", "arguments": {"order": "2"}}],
        },
        {
            "id": "wrong",
            "instruction": "Return 9.",
            "actions": [{"name": "return_order", "arguments": {"order": "9"}}],
        },
    ],
}


def return_order(state: dict, order: str) -> str:
    state["orders"][order] = {"delivered": "returned"}[state["orders"][order]]
    return "done"


TOOLS = [return_order]


def test_tasks_are_cases_whose_writes_are_made_in_a_world_of_their_own(tmp_path):
    """The agent returns order 1 whatever is asked."""
    (tmp_path / "tasks.json").write_text(json.dumps(TASKS))

    def agent(case, world):
        world.return_order("1")
        return "That is 12 euros."

    run = tv.evaluate(f"tau-bench:{tmp_path / 'tasks.json'}", agent=agent, store=tmp_path / "store.db")
    cases = {case.id: case for case in run.cases()}
    assert list(cases) == ["0", "late", "7", "wrong"]
    assert (cases["0"].input, cases["0"].source) == (TASKS["tasks"][0]["instruction"], TASKS["policy"])
    assert [tool.name for tool in cases["0"].expect.tools] == ["get_order", "return_order"]
    found = {each.case: each.scores["success"] for each in run.evaluations()}
    assert {case: score.value for case, score in found.items()} == {
        "0": 1.0,
        "late": 0.0,
        "7": 0.0,
        "wrong": None,
    }
    assert found["late"].reason == (
        'the state at the start: expected → found: orders.1: "delivered" → "returned"'
    )
    assert found["7"].reason.startswith("the state after return_order: expected → found: orders.1: ")
    assert (
        found["wrong"].reason
        == "the state after return_order: the expected calls cannot be made: KeyError: '9'"
    )


def test_tasks_without_a_state_say_which_calls_are_expected(tmp_path):
    (tmp_path / "tasks.json").write_text(json.dumps(TASKS["tasks"]))
    suite = tv.Suite.load(f"tau-bench:{tmp_path / 'tasks.json'}")
    assert (suite.settings.world, suite.case("late").expect.state) == (None, None)
    assert [tool.reads for tool in suite.case("0").expect.tools] == [True, False]


def test_a_model_may_play_the_user_of_tasks(tmp_path):
    (tmp_path / "tasks.json").write_text(json.dumps(TASKS | {"user": "openai:gpt-4o-mini"}))
    suite = tv.Suite.load(f"tau-bench:{tmp_path / 'tasks.json'}")
    case = suite.case("late")
    assert case.input == [{"role": "system", "content": TASKS["policy"]}]
    assert (case.user.goal, case.user.model) == ("You want to return order 2.", "openai:gpt-4o-mini")
    assert (suite.settings.success.state, suite.settings.success.contains) == (True, None)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"tasks": [{"actions": []}]}, 'tasks[0]: "instruction" is missing'),
        ({"tasks": []}, "holds no case"),
        ({"tasks": TASKS["tasks"], "state": "nowhere.json", "tools": "a:b"}, "world.json: "),
        ({"tasks": [TASKS["tasks"][1]] * 2}, 'duplicate id "late"'),
    ],
)
def test_a_mistake_in_tasks_is_a_sentence(tmp_path, raw, message):
    (tmp_path / "tasks.json").write_text(json.dumps(raw))
    with pytest.raises(InputError) as caught:
        tv.Suite.load(f"tau-bench:{tmp_path / 'tasks.json'}")
    assert message in str(caught.value)


def test_the_state_at_the_end_agrees_with_the_recorded_reward(tmp_path):
    """``write_exact`` was computed by another program; the two exceptions are those of that program, too."""
    folder = data("traces/tau-bench")
    file = f"tau-bench:{folder / 'gpt-4o-airline_tasks_00-32.json'}"
    run = tv.evaluate(file, outputs=file, metrics=["state_match"], store=tmp_path / "store.db")
    pairs = zip(run.attempts(), run.evaluations(), strict=True)
    found = {
        (each.case, each.repeat): (scored.scores["state_match"].value, each.reward) for each, scored in pairs
    }
    with (folder / "per_trajectory.csv").open() as rows:
        known = {
            (row["task_id"], int(row["trial"])): float(row["write_exact"]) for row in csv.DictReader(rows)
        }
    assert {key: value for key, (value, _) in found.items()} == known
    assert len(found) == 132
    assert {key: pair for key, pair in found.items() if pair[0] != pair[1]} == {
        ("2", 1): (1.0, 0.0),  # the right bookings, but the agent did not say what it had to say
        ("5", 1): (0.0, 1.0),  # other calls that led to the same bookings
    }
