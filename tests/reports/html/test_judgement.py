"""The judgements of an attempt on its page."""

import re

import msgspec
import pytest

from tests.reports.hostile_samples import hostile_view
from tests.reports.html.parsed import Page
from tests.reports.judged_samples import judged_view
from trivium.reports.html.case import anchor, case_context
from trivium.reports.html.page import environment


def rendered(view):
    return environment().get_template("case.html").render(case_context(view))


@pytest.fixture(scope="module")
def html():
    return rendered(judged_view())


@pytest.fixture(scope="module")
def text(html):
    return re.sub(r"\s+", " ", " ".join(Page(html).texts))


def test_a_judgement_shows_its_reason_criteria_signals_and_cost(text):
    assert "The review names the missing significance test" in text
    assert re.search(r"factual correctness 4 What it says of the results is in the paper", text)
    assert re.search(r"domain knowledge – Nothing to tell by", text)
    assert "verbalized confidence 4" in text
    assert re.search(r"no value: .*token msp.* \(no token probabilities came with the answer\)", text)
    assert "$0.001236" in text
    assert "5,210 input tokens" in text
    assert "tokens, cost and requests cover 3 dimensions" in text


def test_every_vote_is_shown_and_who_did_not_vote(text):
    assert re.search(r"openai:gpt-4o-mini 0\.600", text)
    assert re.search(r"anthropic:claude-haiku-4-5 abstained not enough evidence", text)
    assert "1 of 4 judges did not vote. openai:o3-mini: o3-mini did not answer within 60 s" in text


def test_evidence_is_marked_in_the_output_and_the_source(html):
    marks = re.findall(r'<mark class="quote">(.+?)<sup>(.+?)</sup></mark>', html, re.DOTALL)
    assert ("one encoder for both formalisms", "1") in marks
    assert ("gains 0.2 F1 on the first\ntreebank", "2") in marks
    assert "Quoted parts of the source" in html


def test_a_quote_that_does_not_occur_is_marked(text):
    assert re.search(r"the authors release their code not found in what the judge was shown", text)
    assert re.search(r"gains 0\.2 F1 on the first treebank in the source", text)


def test_claims_samples_and_models_passed_over_are_shown(text):
    assert re.search(r"The gain is 0\.2 F1\. major contradicted", text)
    assert "significance partly the gains are within" in text
    assert "samples 0.600, 0.600, abstained; 1 lost" in text
    assert "skipped: claude-haiku-4-5: HTTP 529" in text


def test_a_fallback_is_never_shown_as_a_judgement(text):
    assert re.search(r"clarity fallback 0\.410 Fallback, computed by similarity", text)


def test_no_text_of_a_judgement_becomes_markup():
    calm, hostile = (Page(rendered(view)) for view in (judged_view(), hostile_view(0)))
    assert set(hostile.tags) <= set(calm.tags) | {"b", "li", "ul"}
    assert hostile.open == []
    assert "<script>alert('x')</script>" in hostile.text


def test_an_attempt_has_a_place_of_its_own_to_link_to():
    anchors = {anchor(case, repeat) for case in ("1 2", "2", "", "\ud800") for repeat in (0, 1, 21)}
    assert len(anchors) == 12
    assert all(re.fullmatch(r"attempt-[0-9a-f]{16}", each) for each in anchors)


def with_contexts(contexts):
    found = judged_view()
    case = msgspec.structs.replace(found.case, source=None)
    attempt = msgspec.structs.replace(found.attempt, metadata={"contexts": contexts})
    return msgspec.structs.replace(found, case=case, attempt=attempt)


def test_quotes_are_marked_in_the_documents_that_were_retrieved():
    documents = [
        {"id": "results", "text": "It gains 0.2 F1 on the first treebank. <b>So</b>."},
        "x" * 300_000,
    ]
    page = rendered(with_contexts(documents))
    marks = re.findall(r'<mark class="quote">(.+?)<sup>(.+?)</sup></mark>', page, re.DOTALL)
    assert ("gains 0.2 F1 on the first treebank", "2") in marks
    shown = re.sub(r"\s+", " ", " ".join(Page(page).texts))
    assert "Retrieved documents 300,074 characters in all" in shown
    assert re.search(r"gains 0\.2 F1 on the first treebank in the retrieved documents", shown)
    assert "[1] id: results" in shown
    assert "<b>So" not in page
    assert len(page) < 100_000


def test_documents_that_cannot_be_read_are_left_out():
    assert "Retrieved documents" not in rendered(with_contexts([3]))
    assert "Retrieved documents" not in rendered(with_contexts([]))
