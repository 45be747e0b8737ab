"""A server that read less than it was sent is named, and what it says of the rest is no judgement."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judge_server import JudgeServer
from tests.judge_server.answer import Answer
from tests.metrics.judge.asked import ATTEMPT, CASE, CLAUDE, MINI, clarity, judged, served
from tests.metrics.judge.client.test_hostile_servers import CALL
from tests.runs.judging.suites import provider, suite
from trivium import evaluate
from trivium.display import as_text
from trivium.reports.summary import render_markdown

LONG = "Good morning, dear friend. " * 2_200
"""60,000 characters, of which a context of 2,048 tokens holds no more than a part."""
PAIR = (CASE, msgspec.structs.replace(ATTEMPT, output=LONG))


def reading(tokens):
    """A server that reports so many prompt tokens, whatever it was sent."""
    return lambda question: Answer(output=clarity(5), usage=(tokens, 40))


@pytest.mark.parametrize("client", ["direct", "pydantic-ai"])
@pytest.mark.parametrize("model", [MINI, "openai-responses:gpt-4o-mini", CLAUDE])
@pytest.mark.parametrize("tokens", [2_048, 1])
def test_a_judgement_of_a_cut_prompt_is_marked_and_missing(monkeypatch, model, client, tokens):
    with served(JudgeServer(answer=reading(tokens)), monkeypatch) as server:
        (scores,) = judged(models=[model], pairs=[PAIR], on_failure="skip", client=client)
    score = scores["clarity"]
    assert (score.status, score.value, score.missing, len(server.requests)) == ("skipped", None, True, 1)
    assert score.detail == {"unjudged": "cut", "cut": True}
    named = (
        f"{model.partition(':')[2]} cannot have read the whole prompt: its server reports {tokens:,} tokens"
    )
    assert named in score.reason


@pytest.mark.parametrize("samples", [1, 3])
def test_a_model_that_was_shown_everything_judges_instead(monkeypatch, samples):
    def answer(question):
        return reading(2_048 if question.model.startswith("gpt") else 20_000)(question)

    with served(JudgeServer(answer=answer), monkeypatch):
        (scores,) = judged(models=[MINI, CLAUDE], pairs=[PAIR], samples=samples, on_failure="fail")
    score = scores["clarity"]
    assert (score.value, score.detail["model"]) == (1.0, CLAUDE)
    assert "cannot have read the whole prompt" in score.detail["passed_over"][0]


def test_a_panel_is_smaller_without_a_judge_whose_prompt_was_cut(monkeypatch):
    def answer(question):
        return reading(2_048 if question.model.startswith("gpt") else 20_000)(question)

    with served(JudgeServer(answer=answer), monkeypatch):
        (scores,) = judged(models=[MINI, CLAUDE], pairs=[PAIR], panel=True, on_failure="fail")
    (failed,) = scores["clarity"].detail["panel"]["failed"]
    assert (failed["model"], failed["cause"]) == (MINI, "cut")


@pytest.mark.parametrize("output", ["Hello, dear friend. " * 1_500, "-" * 60_000, "x" + " " * 50_000 + "y"])
def test_a_prompt_that_the_tokens_may_hold_is_not_called_cut(monkeypatch, output):
    """Runs of one character are few tokens: of spaces, up to 128 are one in today's vocabularies."""
    pair = (CASE, msgspec.structs.replace(ATTEMPT, output=output))
    with served(JudgeServer(answer=reading(1_800)), monkeypatch):
        (scores,) = judged(models=[MINI], pairs=[pair], on_failure="skip")
    assert scores["clarity"].value == 1.0


@given(st.text(max_size=300), st.text(max_size=300), st.integers(0, 30))
def test_no_tokens_are_too_few_that_hold_29_characters_each(case, ask, tokens):
    request = msgspec.structs.replace(CALL, instructions="", case=case, turns=(ask,))
    assert request.surely_cut(tokens) <= (tokens > 0 and 29 * tokens < len(case + ask))
    words = msgspec.structs.replace(request, case="ab" * 300, turns=("ab",))
    assert words.surely_cut(tokens) == (tokens > 0 and 29 * tokens < 602)


def test_it_is_shown_where_missing_judgements_are_and_asked_anew_when_the_server_reads_all(
    monkeypatch, tmp_path
):
    cut = suite(4, metrics=("clarity",), on_failure="skip").with_settings(
        gates={"clarity": {"at_least": 0.5}}
    )
    contexts = iter([2_048] * 4 + [20_000] * 4)
    url = f"sqlite:///{tmp_path}/store.db"

    def answer(question):
        return reading(next(contexts))(question)

    with provider(monkeypatch, answer=answer) as server:
        summary = evaluate(cut, agent=lambda _: LONG, store=url).summary()
        again = evaluate(cut, agent=lambda _: LONG, store=url).summary()
    figure = summary.metrics["clarity"]
    assert (figure.mean, figure.missing, summary.errors["judgements"]) == (None, 4, 4)
    assert summary.gates[0].answer == "inconclusive"
    (line,) = (each for each in summary.warnings if "was not judged" in each)
    assert line.startswith("clarity was not judged in 4 of 4: gpt-4o-mini cannot have read the whole prompt")
    for text in (as_text(summary, width=4000), render_markdown(summary).replace("\\", "")):
        assert "clarity was not judged in 4 of 4" in text
    assert "2,048 tokens" in json.dumps(msgspec.to_builtins(summary.warnings))
    assert (again.metrics["clarity"].mean, len(server.requests)) == (1.0, 8)
