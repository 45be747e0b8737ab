"""Scores mean something: what makes an output or a trace worse lowers the scores that should fall, no others.

Every change goes through the whole of scoring (``score_attempts``, the composite) with all metrics at once.
"""

import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from tests.goldens import data
from trivium.agents.attempt import Attempt
from trivium.agents.recorded import open_recorded
from trivium.metrics.evaluation import evaluation
from trivium.metrics.registry import build_metrics
from trivium.metrics.scoring import score_attempts
from trivium.suites.case import Case, Expect, ExpectedTool
from trivium.suites.settings import Settings, ToolSettings
from trivium.suites.suite import Suite
from trivium.traces.native import native_trace
from trivium.traces.trace import Trace

OWN_PAPERS = Path(__file__).parents[1] / "examples" / "paper_review" / "papers"
TEXT = ("cosine", "jaccard", "edit", "similarity")
TRACE = (
    "path_convergence",
    "tool_selection",
    "tool_recall",
    "tool_success",
    "tool_efficiency",
    "action_match",
)
TRACE += ("communication_overhead", "centrality", "coordination_quality", "task_balance")
SETTINGS = Settings(
    similarity={"cosine": 0.6, "jaccard": 0.4}, tools=ToolSettings(read_only=("get_paper", "search", "look"))
)
METRICS = build_metrics([*TEXT, "success", "time", *TRACE], SETTINGS)


def values(case: Case, attempt: Attempt, metrics=METRICS) -> dict[str, float | None]:
    """Every score of an attempt, and its composite."""
    (scores,) = score_attempts(metrics, [(case, attempt)])
    folded = evaluation(attempt, scores, SETTINGS).composite
    return {name: score.value for name, score in scores.items()} | {"composite": folded.value}


def falls(before: dict, after: dict, *names: str) -> None:
    """The named scores fall, and no other changes."""
    for name in names:
        assert after[name] < before[name] - 1e-9, name
    others = set(before) - set(names)
    assert {name: after[name] for name in others} == {name: before[name] for name in others}


# Texts


@pytest.fixture(params=["own", "PeerRead"])
def reviews(request) -> dict[str, list[str]]:
    """The reviews of each paper, those written for the example and real ones."""
    folder = OWN_PAPERS if request.param == "own" else data("peerread/acl_2017")
    return {case.id: list(case.references) for case in Suite.load(f"peerread:{folder}") if case.references}


def cut(text: str) -> str:
    return text[: len(text) // 2]


def shuffled(text: str) -> str:
    words = text.split()
    random.Random(1).shuffle(words)
    return " ".join(words)


def without_every_third_word(text: str) -> str:
    return " ".join(word for index, word in enumerate(text.split()) if index % 3)


def about_nothing(text: str) -> str:
    return "The weather was fine on Tuesday and nobody went anywhere."


FALL = ("cosine", "jaccard", "edit", "similarity", "success", "composite")


@pytest.mark.parametrize(
    ("worse", "fall"),
    [
        (cut, FALL),
        (without_every_third_word, ("cosine", "edit", "similarity", "composite")),
        (about_nothing, FALL),
        # The words of a text in any order are the same set of words.
        (shuffled, ("cosine", "edit", "similarity", "composite")),
    ],
)
def test_a_spoilt_review_scores_lower_than_it_did(
    reviews: dict[str, list[str]], worse: Callable[[str], str], fall: tuple[str, ...]
) -> None:
    for name, texts in reviews.items():
        whole = texts[0]
        case = Case(id=name, input="Review this paper.", references=(whole,))
        attempt = Attempt(case=name, output=whole, seconds=3.0)
        before = values(case, attempt)
        after = values(case, msgspec.structs.replace(attempt, output=worse(whole)))
        assert before["similarity"] == pytest.approx(1.0)
        for metric in fall:
            assert after[metric] < before[metric], (name, metric)
        assert after["time"] == before["time"]
        assert {after[metric] for metric in TRACE} == {None}, "there is no trace to speak of"
        if worse is shuffled:
            assert after["jaccard"] == 1.0


def test_reviews_of_other_papers_score_lower_than_reviews_of_the_same_paper(reviews):
    together = {name: texts for name, texts in reviews.items() if len(texts) > 1}
    names = list(together)
    right, swapped = [], []
    for name, other in zip(names, [*names[1:], names[0]], strict=True):
        case = Case(id=name, input="Review this paper.", references=tuple(together[name][1:]))
        right.append(values(case, Attempt(case=name, output=together[name][0])))
        swapped.append(values(case, Attempt(case=name, output=together[other][0])))
    mean = {metric: sum(one[metric] for one in right) for metric in ("cosine", "similarity")}
    assert all(sum(one[metric] for one in swapped) < total for metric, total in mean.items())


def test_the_semantic_score_falls_with_the_sense(reviews, minilm_folder):
    (semantic,) = build_metrics(["semantic"], Settings(encoder=str(minilm_folder)))
    texts = [texts[0] for texts in reviews.values()][:3]
    pairs = [
        (Case(id="1", input="", references=(text,)), Attempt(case="1", output=spoilt))
        for text in texts
        for spoilt in (text, cut(text), shuffled(text), about_nothing(text))
    ]
    found = [scores["semantic"].value for scores in score_attempts([semantic], pairs)]
    for whole, half, jumbled, other in zip(*[iter(found)] * 4, strict=True):
        assert whole == 1.0
        assert max(half, jumbled) < 1.0
        assert other < min(half, jumbled)


# Traces

EXPECT = Expect(
    tools=(
        ExpectedTool(name="get_paper", arguments={"id": "1"}),
        ExpectedTool(name="search", arguments={"query": "method"}),
        ExpectedTool(name="submit", arguments={"review": "fine"}),
    ),
    workflow=("manager", "researcher", "analyst", "synthesizer"),
)
TEAM = ("manager", "researcher", "analyst", "synthesizer")
REVIEW = Case(id="1", input="Review this paper.", references=("a fine paper",), expect=EXPECT)


def call(name: str, agent: str, at: float, **arguments: str) -> dict:
    times = {"start": at, "end": at + 0.5}
    return {"id": f"{name}@{at}", "parent": agent, "kind": "tool", "name": name, "input": arguments} | times


def message(sender: str, receiver: str, type_: str, at: float) -> dict:
    return {"sender": sender, "receiver": receiver, "type": type_, "time": at}


def review_trace() -> dict:
    """A review as it should go: each hands the task to the next, and every call is one that was expected."""
    agents = [{"id": name, "kind": "agent", "name": name, "start": 0.0, "end": 9.0} for name in TEAM]
    calls = [
        call("get_paper", "researcher", 1.0, id="1"),
        call("search", "analyst", 3.0, query="method"),
        call("submit", "synthesizer", 5.0, review="fine"),
    ]
    passed_on = [
        message(this, that, "task_request", float(at)) for at, (this, that) in enumerate(pairwise(TEAM))
    ]
    return {"trace_id": "t", "spans": [*agents, *calls], "messages": passed_on}


def scored(trace: dict) -> dict[str, float | None]:
    attempt = Attempt(case="1", output="a fine paper", seconds=2.0, trace=native_trace(trace))
    return values(REVIEW, attempt)


def test_a_review_that_goes_as_it_should_has_full_marks():
    full = scored(review_trace())
    names = {*TRACE, "success"} - {"centrality", "task_balance"}
    assert {name: full[name] for name in names} == dict.fromkeys(names, 1.0)


SELECTION = ("path_convergence", "tool_selection", "tool_efficiency", "composite")


@pytest.mark.parametrize("extra", [1, 3, 10])
def test_useless_calls_lower_selection_and_convergence(extra):
    trace = review_trace()
    # Each agent makes as many of them, so that the balance of their tasks is another question.
    trace["spans"] += [call("look", name, 6 + i / 100) for i in range(extra) for name in TEAM]
    before, after = scored(review_trace()), scored(trace)
    assert after.pop("task_balance") > before.pop("task_balance")
    falls(before, after, *SELECTION)


def test_the_more_useless_calls_the_lower():
    found = []
    for extra in range(6):
        trace = review_trace()
        trace["spans"] += [call("look", "analyst", 6 + i / 100) for i in range(extra)]
        found.append(scored(trace))
    for name in SELECTION:
        series = [one[name] for one in found]
        assert series == sorted(series, reverse=True)
        assert len(set(series)) == 6


@pytest.mark.parametrize("type_", ["handoff", "status_update", "coordination"])
def test_useless_hand_offs_lower_overhead_and_coordination_alone(type_):
    trace = review_trace()
    trace["messages"] += [message("manager", "researcher", type_, 7 + i) for i in range(3)]
    falls(
        scored(review_trace()),
        scored(trace),
        *("communication_overhead", "coordination_quality", "composite"),
    )


def test_an_unexpected_write_fails_the_match_of_actions():
    trace = review_trace()
    trace["spans"].append(call("submit", "synthesizer", 6.0, review="again"))
    before, after = scored(review_trace()), scored(trace)
    before.pop("task_balance"), after.pop("task_balance")
    falls(before, after, "action_match", *SELECTION)


def test_stopping_early_is_not_rewarded():
    trace = review_trace()
    trace["spans"].pop()
    before, after = scored(review_trace()), scored(trace)
    before.pop("task_balance"), after.pop("task_balance")
    falls(
        before,
        after,
        *("path_convergence", "tool_recall", "tool_efficiency", "action_match", "composite"),
    )


def test_useless_calls_lower_the_same_scores_in_real_trajectories():
    source = f"tau-bench:{data('traces/tau-bench/gpt-4o-airline_tasks_00-32.json')}"
    suite = Suite.load(source)
    settings = suite.settings
    metrics = build_metrics(
        ["path_convergence", "tool_selection", "tool_recall", "action_match", "success"], settings
    )
    seen = 0
    for case, attempt in open_recorded(source, suite):
        if attempt.failed or not attempt.trace.tool_calls or not case.expect.tools:
            continue
        seen += 1
        before = values(case, attempt, metrics)
        after = values(case, _with_calls(attempt, "think", 3), metrics)
        assert after["tool_selection"] < before["tool_selection"] or before["tool_selection"] == 0.0
        # As long as fewer calls were made than expected, convergence is about those that are missing.
        too_many = len(attempt.trace.tool_calls) + 3 > len(case.expect.tools) and before["tool_recall"] > 0.0
        assert (after["path_convergence"] < before["path_convergence"]) == too_many
        same = ("tool_recall", "action_match", "success")
        assert [after[name] for name in same] == [before[name] for name in same]
    assert seen > 50


def _with_calls(attempt: Attempt, name: str, count: int) -> Attempt:
    spans: list = msgspec.to_builtins(attempt.trace.spans)
    more = [{"id": f"more-{i}", "kind": "tool", "name": name} for i in range(count)]  # these have no times
    trace: Trace = native_trace({"trace_id": "t", "spans": [*spans, *more]})
    return msgspec.structs.replace(attempt, trace=trace)
