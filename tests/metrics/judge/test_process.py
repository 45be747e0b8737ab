"""The process of a real run: a PydanticAI team, recorded by its instrumentation, judged by its digest."""

import re

import pytest

import trivium as tv
from tests.agents.adapters.test_pydantic_ai import team
from tests.judge_server import JudgeServer, fill
from trivium.store.store import Store
from trivium.suites.rubrics.built_in import built_in_rubrics
from trivium.suites.suite import Suite

PROCESS = [each.name for each in built_in_rubrics()["review"].dimensions if "trace" in each.needs]


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """The scores of a team's run, and the prompts that its judge was sent."""
    raw = {
        "name": "team",
        "cases": [
            {
                "id": "1",
                "input": "Review the paper.",
                "references": ["The review."],
                "expect": {"workflow": ["manager", "researcher"]},
            }
        ],
        "metrics": [*PROCESS, "clarity"],
        "similarity": {"jaccard": 1},
        "judge": {"models": "openai:gpt-4o-mini", "together": False},
    }
    path = tmp_path_factory.mktemp("store") / "s.db"

    def answer(question):
        given = fill(question.schema, seed=1, text=question.prompt)
        for each in given.values():  # a judge that is never unsure
            for criterion in each["criteria"].values():
                criterion["score"] = 4
        return given

    with pytest.MonkeyPatch.context() as patch, JudgeServer(answer=answer) as server:
        patch.setenv("OPENAI_BASE_URL", server.openai_url)
        patch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-1234567890")
        with Store(f"sqlite:///{path}") as store:
            run = tv.evaluate(Suite.from_dict(raw), agent=team(), store=store)
            (evaluation,) = run.evaluations()
    said = [question.body["messages"][1]["content"] for question in server.requests]
    prompts = {re.search(r"\nRubric\n\n(\w+): ", text).group(1): text for text in said}
    return evaluation.scores, prompts


def test_the_dimensions_of_the_process_are_scored(judged):
    scores, _ = judged
    assert {name: (scores[name].status, scores[name].value) for name in PROCESS} == dict.fromkeys(
        PROCESS, ("ok", 0.8)
    )


@pytest.mark.parametrize("dimension", PROCESS)
def test_a_judge_of_the_process_sees_what_delegated_agents_did(judged, dimension):
    _, prompts = judged
    trace = re.search(r"(?s)<<<trace (\w+)>>>\n(.*)\n<<<end of trace \1>>>", prompts[dimension]).group(2)
    counts, steps = trace.split("\nsteps:\n")
    assert "agents: manager, researcher" in counts
    assert "tool calls: 5 (search ×2, fetch ×2, delegate ×1)" in counts
    assert "model requests: 6; failed steps: 1; messages: 2" in counts
    steps = [re.sub(r"^\d+\. ", "", line) for line in steps.splitlines()]
    assert 'researcher called fetch({"paper":"wrong"}) FAILED → no such paper' in " ".join(steps)
    assert any(step.startswith('researcher called search({"query":"a"}) → ["a","a"]') for step in steps)
    assert any(step.startswith('manager called delegate({"topic":"lexicons"})') for step in steps)
    assert any(step.startswith("manager → researcher [task_request]") for step in steps)
    assert any(step.startswith("researcher → manager [result_delivery]") for step in steps)


def test_the_expected_workflow_is_shown_and_the_output_is_not(judged):
    _, prompts = judged
    assert "manager → researcher\n<<<end of workflow" in prompts["coordination"]
    assert "The review." not in prompts["planning_rationality"].split("<<<trace")[0]
    assert "<<<trace" not in prompts["clarity"]
