"""Hit rate, recall, precision, MRR and nDCG of retrieved documents, beside ranx and scikit-learn."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

import trivium as tv
from tests.goldens import golden
from trivium.agents.attempt import Attempt
from trivium.agents.contexts import Context, contexts_of
from trivium.errors import InputError
from trivium.metrics.registry import RETRIEVAL
from trivium.traces.trace import Span, Trace

IDS = st.lists(st.sampled_from([f"d{i}" for i in range(8)]), max_size=8)


def scored(metric, contexts, relevant, **options):
    return tv.score(
        metric, output="", expect={"relevant": relevant}, metadata={"contexts": contexts}, **options
    )


def test_figures_of_generated_rankings_equal_those_of_ranx():
    for line in golden("retrieval.jsonl"):
        for metric, name in zip(RETRIEVAL, ("hit_rate", "recall", "precision", "mrr", "ndcg"), strict=True):
            found = scored(metric, line["ranking"], line["relevant"], retrieval={"k": line["k"]})
            assert found.value == pytest.approx(line[name], abs=1e-11), (metric, line)


@given(st.permutations(range(6)), st.lists(st.integers(0, 3), min_size=6, max_size=6))
def test_ndcg_of_a_whole_ranking_equals_that_of_scikit_learn(order, grades):
    if not any(grades):
        return
    ids = [f"d{i}" for i in range(6)]
    ranks = np.empty(6)
    ranks[list(order)] = np.arange(6, 0, -1)
    found = scored("ndcg", [ids[i] for i in order], dict(zip(ids, grades, strict=True)))
    assert found.value == pytest.approx(ndcg_score([grades], [ranks]))


@given(IDS, st.sets(st.sampled_from([f"d{i}" for i in range(8)]), min_size=1))
def test_a_document_that_comes_again_changes_nothing(ids, relevant):
    for metric in RETRIEVAL:
        once = scored(metric, list(dict.fromkeys(ids)), sorted(relevant))
        assert scored(metric, ids, sorted(relevant)) == once
        assert 0 <= once.value <= 1


@pytest.mark.parametrize(
    ("relevant", "found"),
    [(["a"], ["a"]), (["the text"], ["the text"]), (["a", "the text"], ["a"]), (["b"], [])],
)
def test_a_document_is_known_by_its_id_or_else_by_its_text(relevant, found):
    score = scored("retrieval_recall", [{"id": "a", "text": "the text"}], relevant)
    assert score.detail["found"] == found
    assert score.value == len(found) / len(relevant)


def test_documents_are_texts_or_objects_under_the_names_of_frameworks():
    given = [
        "a text",
        {"id": 3, "text": "three", "score": 0.5},
        {"page_content": "of LangChain", "metadata": {"id": "lc"}},
        {"document": {"id": "nested", "content": "c"}},
        {"doc_id": "d"},
        {"node": {"id_": "n", "text": "of LlamaIndex"}, "score": 0.25},
        {"lc": 1, "id": ["langchain", "Document"], "kwargs": {"page_content": "k", "metadata": {"id": "lk"}}},
    ]
    assert contexts_of(Attempt(case="1", metadata={"retrieved_contexts": given})) == (
        Context(text="a text"),
        Context(id="3", text="three", score=0.5),
        Context(id="lc", text="of LangChain"),
        Context(id="nested", text="c"),
        Context(id="d"),
        Context(id="n", text="of LlamaIndex", score=0.25),
        Context(id="lk", text="k"),
    )
    assert contexts_of(Attempt(case="1", metadata={"contexts": "one"})) == (Context(text="one"),)
    assert contexts_of(Attempt(case="1")) is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"a": 1}, "contexts: is no list of texts or documents"),
        (["a", 3], r"contexts\[1\]: is neither a text nor an object"),
        ([{"score": 1}], r"contexts\[0\]: has neither id nor text"),
        ([{"id": True}], r"contexts\[0\]: has neither id nor text"),
    ],
)
def test_what_is_no_document_is_named_and_nothing_is_scored(given, says):
    with pytest.raises(InputError, match=says):
        contexts_of(Attempt(case="1", metadata={"contexts": given}))
    found = scored("mrr", given, ["a"])
    assert (found.status, found.value) == ("skipped", None)
    assert "cannot be read" in found.reason


def test_relevant_documents_are_named_by_id_or_by_text_and_what_was_missed_is_told():
    contexts = [{"id": "d1", "text": "The  capital\nis Paris."}, {"id": "d2", "text": "x"}]
    found = scored("retrieval_recall", contexts, ["The capital is Paris.", "d2", "d9"])
    assert found.value == pytest.approx(2 / 3)
    assert found.detail == {"retrieved": 2, "found": ["The capital is Paris.", "d2"], "missed": ["d9"]}


def test_grade_0_is_not_relevant_and_a_case_without_relevant_documents_is_skipped():
    assert scored("hit_rate", ["a"], {"a": 0, "b": 2}).value == 0
    for relevant in ([], {"a": 0}):
        assert scored("ndcg", ["a"], relevant).reason == "the case names no relevant document"
    unknown = tv.score("ndcg", output="", expect={"relevant": ["a"]})
    assert (unknown.status, unknown.reason) == ("skipped", "no retrieved documents were recorded")


def test_nothing_retrieved_is_0_not_missing():
    assert [scored(metric, [], ["a"]).value for metric in RETRIEVAL] == [0.0] * 5


def test_the_first_k_documents_count():
    assert scored("hit_rate", ["x", "y", "a"], ["a"], retrieval={"k": 2}).value == 0
    assert scored("hit_rate", ["x", "y", "a"], ["a"], retrieval={"k": 3}).value == 1
    assert scored("retrieval_precision", ["a"], ["a"], retrieval={"k": 4}).value == 0.25


def test_what_the_retrievers_of_a_trace_returned_is_ranked_where_the_agent_says_nothing():
    def call(id_, start, output, **attributes):
        return Span(id=id_, kind="tool", name="search", start=start, output=output, attributes=attributes)

    trace = Trace(
        spans=(
            call("2", 2.0, {"documents": [{"id": "b", "content": "B"}]}, retrieval=True),
            call("1", 1.0, [{"id": "a"}], retrieval=True),
            call("3", 3.0, [{"id": "c"}]),
            call("4", 4.0, None, retrieval=True),
        )
    )
    assert contexts_of(Attempt(case="1", trace=trace)) == (Context(id="a"), Context(id="b", text="B"))
    assert tv.score("mrr", output="", trace=trace, expect={"relevant": ["b"]}).value == 0.5
    stated = Attempt(case="1", trace=trace, metadata={"contexts": []})
    assert contexts_of(stated) == ()
    assert contexts_of(Attempt(case="1", trace=Trace(spans=trace.spans[2:3]))) is None


def evaluated(rows, tmp_path, **options):
    return tv.evaluate(rows, metrics=list(RETRIEVAL), store=f"sqlite:///{tmp_path / 's.db'}", **options)


CASES = [{"id": "1", "input": "q", "expect": {"relevant": ["b", 7]}}]


def test_an_agent_gives_what_it_retrieved_beside_its_output(tmp_path):
    def agent(question):
        return {"output": "answer", "contexts": [{"id": "a"}, {"id": 7, "text": "seven"}]}

    run = evaluated(CASES, tmp_path, agent=agent)
    assert {name: run.summary().metrics[name].mean for name in RETRIEVAL} == {
        "hit_rate": 1,
        "retrieval_recall": 0.5,
        "retrieval_precision": 0.5,
        "mrr": 0.5,
        "ndcg": pytest.approx(0.6309 / 1.6309, abs=1e-4),
    }


def test_a_recorded_retriever_is_marked_with_note(tmp_path):
    def agent(question):
        with tv.trace.tool("retriever") as span:
            span.note(retrieval=True)
            span.output = [{"id": "b"}]
        return "answer"

    assert evaluated(CASES, tmp_path, agent=agent).summary().metrics["mrr"].mean == 1


CSV = """case,output,contexts
1,answer,"[""x"", {""id"": ""b""}]"
"""


@pytest.mark.parametrize("key", ["contexts", "retrieved_contexts", "retrieval_context"])
@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv"])
def test_recorded_outputs_hold_what_was_retrieved(suffix, key, tmp_path):
    row = {"case": "1", "output": "answer", key: ["x", {"id": "b"}]}
    texts = {"jsonl": json.dumps(row), "json": json.dumps([row]), "csv": CSV.replace("contexts", key)}
    file = tmp_path / f"outputs.{suffix}"
    file.write_text(texts[suffix])
    assert evaluated(CASES, tmp_path, outputs=str(file)).summary().metrics["mrr"].mean == 0.5


def test_ids_of_which_none_is_ever_retrieved_are_told(tmp_path):
    def agent(question):
        return {"output": "answer", "contexts": ["x.md"]}

    told = "no relevant document is among the retrieved ones"
    run = evaluated([*CASES, {"id": "2", "input": "r", "expect": {"relevant": ["c"]}}], tmp_path, agent=agent)
    assert f"{told} in any of 2 attempts: expect.relevant must name their ids or texts" in (
        run.summary().warnings
    )
    assert {score.reason for score in next(run.evaluations()).scores.values() if score.name in RETRIEVAL} == {
        told
    }
    found = evaluated(
        [*CASES, {"id": "2", "input": "r", "expect": {"relevant": ["x.md"]}}], tmp_path, agent=agent
    )
    assert not [line for line in found.summary().warnings if told in line]
    nothing = evaluated(CASES, tmp_path, agent=lambda question: {"output": "answer", "contexts": []})
    assert not [line for line in nothing.summary().warnings if told in line]
