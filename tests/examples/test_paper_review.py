"""The example reads the paper that it is given, through its tools, and says how it was written."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from examples.paper_review.paper import Paper, sentences
from examples.paper_review.reviewers import DEFAULT_MODELS, build_reviewer, chosen_model

import trivium as tv

FOLDER = Path(__file__).parents[2] / "examples" / "paper_review"
SUITE = tv.Suite.load(FOLDER / "suite.yaml")
CASES = list(SUITE)
REVIEWER = build_reviewer()


def review(case: tv.Case) -> str:
    return asyncio.run(REVIEWER.run(case.input, deps=case)).output


def with_source(case: tv.Case, source: str) -> tv.Case:
    return msgspec.structs.replace(case, source=source)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tv.Run:
    store = tmp_path_factory.mktemp("example") / "store.db"
    return tv.evaluate(SUITE, agent=REVIEWER, store=f"sqlite:///{store}", metrics=["cosine", "tool_success"])


@pytest.mark.parametrize(
    ("case_id", "before", "after"),
    [
        ("101", "We did not test documents longer than 128 tokens.", "We also tested long documents."),
        (
            "103",
            "Answers with the wrong number of tags were left out of the count.",
            "All answers were counted.",
        ),
        (
            "104",
            "We compare with random order, with the order of training and",
            "We leave out random order and",
        ),
        (
            "106",
            "Results are from the best of several training runs.",
            "Results are the mean over ten seeds.",
        ),
    ],
)
def test_changing_one_sentence_of_a_paper_changes_its_review(case_id: str, before: str, after: str) -> None:
    case = SUITE.case(case_id)
    assert before in case.source

    assert review(with_source(case, case.source.replace(before, after))) != review(case)


def test_most_sentences_of_a_paper_matter_to_its_review() -> None:
    case = CASES[0]
    usual = review(case)
    passages = Paper(case.source).passages
    changed = [
        review(with_source(case, case.source.replace(passage.sentence, "Nothing is said."))) != usual
        for passage in passages[::2]
    ]
    assert sum(changed) / len(changed) > 0.6


def test_adding_seeds_and_an_ablation_answers_the_questions_about_them() -> None:
    case = SUITE.case("106")
    question = "How much do the results vary between runs and samples?"
    better = case.source.replace(
        "Results are from the best of several training runs.",
        "Results are the mean of ten seeds. Removing the graph loses 3.2 points.",
    )
    assert question in review(case)
    assert question not in review(with_source(case, better))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_quote_is_in_the_paper(case: tv.Case) -> None:
    quotes = [piece.split("”")[0] for piece in review(case).split("“")[1:]]
    folded = " ".join(case.source.split())

    assert quotes
    assert [quote for quote in quotes if quote not in folded] == []


def test_the_same_paper_gets_the_same_review(run: tv.Run) -> None:
    outputs = {attempt.case: attempt.output for attempt in run.attempts()}
    assert all(outputs[case.id] == review(case) for case in CASES[::3])


def test_papers_get_different_reviews_and_verdicts(run: tv.Run) -> None:
    outputs = [attempt.output for attempt in run.attempts()]
    verdicts = {output.split("## Recommendation")[1].split("\n")[2] for output in outputs}

    assert len(set(outputs)) == len(CASES)
    assert len(verdicts) >= 3


def test_the_review_says_that_rules_wrote_it() -> None:
    assert review(CASES[0]).endswith("*Written by rules, without a language model.*")


def test_every_agent_and_tool_is_in_the_trace(run: tv.Run) -> None:
    for attempt in run.attempts():
        trace = attempt.trace
        assert trace.agents == ("manager", "researcher", "analyst", "synthesizer")
        assert {call.name for call in trace.tool_calls} >= {
            *("delegate_research", "delegate_analysis", "delegate_synthesis"),
            *("list_sections", "read_section", "search_paper", "find_numbers", "check_quotes"),
        }
        assert trace.problems == ()


def test_the_trace_nests_what_was_delegated(run: tv.Run) -> None:
    trace = next(run.attempts()).trace
    by_id = {span.id: span for span in trace.spans}
    above = {
        span.name: by_id[span.parent].name for span in trace.spans if span.kind == "agent" and span.parent
    }

    assert above == {
        "researcher": "delegate_research",
        "analyst": "delegate_analysis",
        "synthesizer": "delegate_synthesis",
    }


def test_the_tools_return_the_papers_own_text(run: tv.Run) -> None:
    attempt = next(run.attempts())
    source = " ".join(CASES[0].source.split())
    read = [call.output for call in attempt.trace.tool_calls if call.name == "read_section"]

    assert len(read) >= 6
    assert all(text in source for text in read)


def test_a_paper_of_one_sentence_or_none_is_reviewed_too() -> None:
    empty = tv.Case(id="x", input="Review this paper.\n\nNothing")

    assert "## Recommendation" in review(empty)
    assert "## Recommendation" in review(with_source(empty, "Title\n\nWe propose silence."))


def test_sentences_do_not_end_at_abbreviations() -> None:
    assert sentences("As Ng et al. Show, it works (cf. Table 2). It is new.") == [
        "As Ng et al. Show, it works (cf. Table 2).",
        "It is new.",
    ]


def test_an_unknown_section_names_those_there_are() -> None:
    assert "2 Method" in Paper(CASES[0].source).section("Methods")


def test_the_environment_chooses_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in (*DEFAULT_MODELS, "PAPER_REVIEW_MODEL"):
        monkeypatch.delenv(key, raising=False)
    assert chosen_model() is None

    monkeypatch.setenv("ANTHROPIC_API_KEY", "not a real key")
    assert chosen_model() == DEFAULT_MODELS["ANTHROPIC_API_KEY"]

    monkeypatch.setenv("PAPER_REVIEW_MODEL", "openai:other")
    assert chosen_model() == "openai:other"


def test_papers_keep_to_peerreads_layout() -> None:
    for path in (FOLDER / "papers" / "dev" / "reviews").glob("*.json"):
        paper = json.loads(path.read_text(encoding="utf-8"))
        assert 2 <= len(paper["reviews"]) <= 3
        assert all(100 <= len(one["comments"].split()) <= 250 for one in paper["reviews"])
        assert (path.parents[1] / "parsed_pdfs" / f"{path.stem}.pdf.json").exists()
