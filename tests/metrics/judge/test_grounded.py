"""Answers from documents, judged by the contexts: a scripted judge finds each planted claim."""

import re
from functools import partial

import numpy as np
import pytest

import trivium as tv
from tests.judge_server import JudgeServer
from tests.metrics.judge.asked import judged
from tests.metrics.judge.asked import served as served_by
from trivium.agents.attempt import Attempt
from trivium.agents.contexts import NO_CONTEXTS
from trivium.suites.case import Case
from trivium.suites.settings import JudgeSettings, Settings
from trivium.suites.suite import Suite
from trivium.traces.trace import Span, Trace

CASE = Case(id="1", input="What is known of the sea?")
GROUNDED = ("grounded",)


@pytest.fixture
def served(monkeypatch):
    return partial(served_by, patch=monkeypatch)


def shown(prompt, name):
    """What a prompt shows under a name; None if nothing."""
    found = re.search(rf"(?s)<<<{name} (\w+)>>>\n(.*)\n<<<end of {name} \1>>>", prompt)
    return None if found is None else found[2]


def reads(question):
    """A judge that takes each sentence for a claim, a major one if it says so, and looks it up."""
    documents, output = shown(question.prompt, "contexts"), shown(question.prompt, "output")
    claims = [
        {
            "claim": sentence,
            "quote": sentence if sentence in documents else "",
            "reasoning": "as it stands there" if sentence in documents else "it stands nowhere",
            "importance": "major" if "major" in sentence else "minor",
            "verdict": "supported" if sentence in documents else "not_shown",
        }
        for sentence in output.split("\n")
    ]
    return {"grounded": {"claims": claims, "reason": "looked up", "confidence": 5}}


def planted(rng):
    """Documents, an answer, the claims in it that no document supports, and the share that they do."""
    facts = [f"Fact {rng.integers(10**9)} is {rng.choice(['major', 'minor'])}." for _ in range(9)]
    order = rng.permutation(9)
    stated, unsupported = [facts[i] for i in order[:4]], [facts[i] for i in order[6:]]
    documents = [{"id": str(i), "text": f"Here: {facts[i]} So it is."} for i in order[:6]]
    claims = list(rng.permutation([*stated, *unsupported]))
    weights = [2 if "major" in claim else 1 for claim in claims]
    found = sum(w for w, claim in zip(weights, claims, strict=True) if claim in stated)
    return documents, "\n".join(claims), set(unsupported), found / sum(weights)


def test_a_judge_finds_each_planted_claim_that_no_document_supports(served):
    rng = np.random.default_rng(7)
    cases = [planted(rng) for _ in range(40)]
    pairs = [
        (CASE, Attempt(case="1", output=output, metadata={"contexts": documents}))
        for documents, output, _, _ in cases
    ]
    with served(JudgeServer(answer=reads)):
        scores = [each["grounded"] for each in judged(GROUNDED, pairs=pairs)]
    for score, (_, _, unsupported, share) in zip(scores, cases, strict=True):
        assert score.value == pytest.approx(share, abs=1e-4)
        told = score.detail["claims"]
        assert {each["claim"] for each in told if each["verdict"] == "unverifiable"} == unsupported
        assert all(each["found"] for each in score.detail["evidence"])
        assert score.detail["signals"]["llm_evidence_count"] == 4
        assert score.detail["signals"]["retrieval_similarity_max"] > 0


def test_claims_are_verified_against_the_contexts_alone(served):
    attempt = Attempt(case="1", output="A.", metadata={"contexts": ["A.", {"id": "b", "text": "B."}]})
    case = Case(id="1", input="q", source="a source", references=("a reference",))
    with served(JudgeServer(answer=reads)) as server:
        judged(GROUNDED, pairs=((case, attempt),))
    (question,) = server.requests
    assert "verify each against the contexts alone" in question.prompt
    assert shown(question.prompt, "contexts") == "[1]\nA.\n---\n[2] id: b\nB."
    assert shown(question.prompt, "source") is None


def test_what_the_retrievers_of_a_trace_returned_is_judged_by(served):
    span = Span(id="1", kind="tool", name="search", output=["A."], attributes={"retrieval": True})
    attempt = Attempt(case="1", output="A.\nB.", trace=Trace(spans=(span,)))
    with served(JudgeServer(answer=reads)):
        (scores,) = judged(GROUNDED, pairs=((CASE, attempt),))
    assert scores["grounded"].value == 0.5


@pytest.mark.parametrize(
    ("metadata", "missing", "why"),
    [
        ({}, False, NO_CONTEXTS),
        ({"contexts": ["a", 3]}, True, "contexts[1]: is neither a text nor an object with id or text"),
        ({"contexts": [{"id": "a", "text": "A"}, {"id": "b"}]}, True, "contexts: 1 of 2 have no text"),
    ],
)
def test_without_texts_to_judge_by_nothing_is_asked_and_the_reason_is_told(served, metadata, missing, why):
    pairs = ((CASE, Attempt(case="1", output="A.", metadata=metadata)),)
    with served(JudgeServer(answer=reads)) as server:
        (scores,) = judged(("grounded", "used_what_was_relevant"), pairs=pairs)
    assert server.requests == []
    for score in (scores["grounded"], scores["used_what_was_relevant"]):
        assert (score.status, score.value, score.missing) == ("skipped", None, missing)
        assert why in score.reason


def test_where_nothing_was_retrieved_no_claim_is_supported(served):
    attempt = Attempt(case="1", output="A.\nB.", metadata={"contexts": []})
    with served(JudgeServer(answer=reads)) as server:
        (scores,) = judged(GROUNDED, pairs=((CASE, attempt),))
    assert shown(server.requests[0].prompt, "contexts") == "[no document was retrieved]"
    assert scores["grounded"].value == 0


@pytest.mark.parametrize(("excerpts", "value"), [("head", 1.0), ("retrieval", 1.0)])
def test_five_megabytes_of_contexts_are_cut_and_the_run_says_so(served, tmp_path, excerpts, value):
    documents = ["A.", *(f"Paragraph {n} of no matter. " * 2000 for n in range(100)), "The last line is B."]
    size = sum(map(len, documents))
    assert size > 5_000_000
    suite = Suite(
        name="s",
        cases=[CASE],
        settings=Settings(
            judge=JudgeSettings(models=("openai:gpt-4o-mini",), excerpts=excerpts), metrics=GROUNDED
        ),
    )
    with served(JudgeServer(answer=reads)):
        run = tv.evaluate(
            suite,
            agent=lambda _: {"output": "A.\nThe last line is B.", "contexts": documents},
            store=f"sqlite:///{tmp_path / 's.db'}",
        )
    (score,) = [each.scores["grounded"] for each in run.evaluations()]
    # What was cut is not counted; the passages nearest to the output hold both claims.
    assert score.raw["supported"] == (1 if excerpts == "head" else 2)
    assert score.raw["not_shown"] == (1 if excerpts == "head" else 0)
    assert score.value == value
    (line,) = [each for each in run.summary().warnings if "in part" in each]
    found = re.fullmatch(
        r"judges were shown contexts in part in 1 of 1: ([\d,]+) of ([\d,]+) characters "
        r"\(judge.excerpt_chars\)",
        line,
    )
    part, whole = (int(each.replace(",", "")) for each in found.groups())
    assert 50_000 < part <= 60_000
    assert size < whole < 1.01 * size


def test_the_other_dimensions_are_levels(served):
    def answer(question):
        level = {"reason": "so", "evidence": [], "level": "good", "confidence": 4}
        return dict.fromkeys(question.schema["properties"], level)

    names = ("answers_the_question", "used_what_was_relevant")
    attempt = Attempt(case="1", output="A.", metadata={"contexts": ["A."]})
    with served(JudgeServer(answer=answer)) as server:
        (scores,) = judged(names, pairs=((CASE, attempt),))
        (without,) = judged(names, pairs=((CASE, Attempt(case="1", output="A.")),))
    assert [scores[name].value for name in names] == [0.8, 0.8]
    assert [without[name].value for name in names] == [0.8, None]
    assert [shown(each.prompt, "contexts") for each in server.requests] == ["[1]\nA.", None]
