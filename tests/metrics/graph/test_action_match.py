"""Action match: exactly the expected changes, no more and no less."""

import csv
import json
from collections import Counter

import msgspec
import pytest

from tests.goldens import data
from tests.traces.samples import calls, tool
from trivium.agents.attempt import Attempt
from trivium.formats.tau_bench import changes_state, read_suite, read_trajectories
from trivium.metrics.graph.trajectories import path_agreement
from trivium.metrics.registry import build_metrics
from trivium.metrics.scoring import score, score_attempts
from trivium.suites.case import Expect, ExpectedTool
from trivium.suites.settings import Settings, ToolSettings
from trivium.traces.trace import Trace

BOOK = ExpectedTool(name="book", arguments={"id": 7})
LOOK = ExpectedTool(name="look", arguments={"id": 7}, reads=True)


def match(*spans, expected=(BOOK, LOOK), **settings):
    return score("action_match", trace=Trace(spans=spans), expect=Expect(tools=expected), **settings)


def test_reads_are_free():
    assert match(tool("1", "book", input={"id": 7})).value == 1.0
    assert match(tool("1", "book", input={"id": 7}), tool("2", "look"), tool("3", "look")).value == 1.0


@pytest.mark.parametrize(
    "spans",
    [
        [],
        [tool("1", "book", input={"id": 8})],
        [tool("1", "book", input={"id": 7}), tool("2", "book", input={"id": 7})],
        [tool("1", "book", input={"id": 7}), tool("2", "cancel")],
        [tool("1", "book", input={"id": 7}, ok=False)],
        [tool("1", "book", input={"id": 7}, ok=None)],
    ],
)
def test_anything_missing_extra_or_failed_does_not_match(spans):
    assert match(*spans).value == 0.0


def test_a_failed_try_before_the_right_one_does_not_hurt():
    assert (
        match(tool("1", "book", input={"id": 9}, ok=False), tool("2", "book", input={"id": 7})).value == 1.0
    )


def test_the_suite_may_say_what_only_reads_and_the_case_outweighs_it():
    spans = (tool("1", "book", input={"id": 7}), tool("2", "search"))
    reading = ToolSettings(read_only=("search", "book"))
    assert match(*spans).value == 0.0
    assert match(*spans, tools=reading, expected=(ExpectedTool(name="book", reads=False),)).value == 1.0
    assert match(*spans, tools=reading).value == 1.0  # nothing is left to compare
    wrong = tool("1", "book", input={"id": 8})
    assert match(wrong, tools=reading, expected=(msgspec.structs.replace(BOOK, reads=False),)).value == 0.0
    assert match(wrong, tools=reading, expected=(BOOK,)).value == 1.0


def test_details_list_what_is_missing_and_what_is_extra():
    detail = match(tool("1", "book", input={"id": 8})).detail
    assert detail["missing"] == [{"name": "book", "arguments": {"id": 7}}]
    assert detail["extra"] == [{"name": "book", "arguments": {"id": 8}}]
    assert (detail["precision"], detail["recall"]) == (0.0, 0.0)
    assert "left_out" not in detail


def test_a_long_list_is_counted_beyond_its_first_hundred():
    detail = score("action_match", trace=calls(*["x"] * 130), expect=Expect(tools=())).detail
    assert (len(detail["extra"]), detail["left_out"]) == (100, 30)


def test_nothing_expected_and_nothing_changed_match():
    assert match(expected=()).value == 1.0
    assert match(expected=(LOOK,)).value == 1.0


def test_the_real_trajectories_give_their_published_figures():
    folder = data("traces/tau-bench")
    path = folder / "gpt-4o-airline_tasks_00-32.json"
    found, cases = read_trajectories(path), {case.id: case for case in read_suite(path).cases}
    summary = json.loads((folder / "summary.json").read_text())
    tools = {span.name for trajectory in found for span in trajectory.trace.tool_calls}
    settings = ToolSettings(read_only=tuple(name for name in tools if not changes_state(name)))
    pairs = []
    for trajectory in found:
        case = cases[trajectory.case]
        pairs.append((case, Attempt(case=case.id, repeat=trajectory.repeat, trace=trajectory.trace)))
    names = ["action_match", "tool_selection"]
    scored = score_attempts(build_metrics(names, Settings(tools=settings)), pairs)
    ordered = score_attempts(
        build_metrics(["tool_recall"], Settings(tools=ToolSettings(match="ordered"))), pairs
    )
    with (folder / "per_trajectory.csv").open() as rows:
        for row, scores, lcs in zip(csv.DictReader(rows), scored, ordered, strict=True):
            by_name, writes = scores["tool_selection"].detail, scores["action_match"]
            assert by_name["precision"] == pytest.approx(float(row["name_precision"]), abs=6e-5)
            assert by_name["recall"] == pytest.approx(float(row["name_recall"]), abs=6e-5)
            assert by_name["f1"] == pytest.approx(float(row["name_f1"]), abs=6e-5)
            assert writes.detail["precision"] == pytest.approx(float(row["write_precision"]), abs=6e-5)
            assert writes.detail["recall"] == pytest.approx(float(row["write_recall"]), abs=6e-5)
            assert writes.value == float(row["write_exact"])
            assert lcs["tool_recall"].value == pytest.approx(float(row["lcs_recall"]), abs=6e-5)
    agreement = Counter(
        f"{int(scores['action_match'].value)}{int(trajectory.reward)}"
        for scores, trajectory in zip(scored, found, strict=True)
    )
    assert agreement == summary["write_exact_vs_reward"]
    with (folder / "per_task.csv").open() as rows:
        for row in csv.DictReader(rows):
            sequences = [
                [call.name for call in t.trace.tool_calls] for t in found if t.case == row["task_id"]
            ]
            alike = path_agreement(sequences)
            assert alike.value == pytest.approx(float(row["trial_convergence"]), abs=6e-5)
            assert alike.detail["distinct_paths"] == int(row["distinct_paths"])
