"""Cost of judging a rubric in one request, and in one request per dimension (``judge.together``).

The prompts of the built-in rubrics for a review of a paper (a source of 20,000 characters, a review of 250
words, a trace of 30 tool calls), and answers that fill every field with 150 characters, are sent to a
provider on loopback that counts four characters as a token. "shared" tokens are the beginning that a request
has in common with an earlier one of the same schema; providers with prompt caching charge less for them.

    python -m benchmarks.judge_requests
"""

import json
import os
from collections.abc import Sequence
from random import Random
from typing import Any

from tests.judge_server import JudgeServer, Question

from benchmarks.prose import prose
from trivium.agents.attempt import Attempt
from trivium.metrics.registry import build_metrics, default_metrics
from trivium.metrics.scoring import score_attempts
from trivium.suites.case import Case, Expect
from trivium.suites.rubrics.built_in import NAMES
from trivium.suites.settings import JudgeSettings, Settings
from trivium.traces.trace import Span, Trace

TEXT_CHARS = 150
LISTED = 3
"""Entries of each list in an answer: quotes, claims, aspects."""


def answered(schema: dict[str, Any], random: Random) -> Any:
    """An answer that fills a schema as a thorough judge would."""
    if "anyOf" in schema:
        return answered(schema["anyOf"][0], random)
    if "enum" in schema:
        return random.choice(schema["enum"])
    if schema["type"] == "object":
        return {name: answered(each, random) for name, each in schema["properties"].items()}
    if schema["type"] == "array":
        return [answered(schema["items"], random) for _ in range(LISTED)]
    return prose(40, random)[:TEXT_CHARS]


def alike(one: str, other: str) -> int:
    """Length of the common beginning of two texts, in characters."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def shared(requests: Sequence[Question]) -> int:
    """Tokens that requests share with the beginning of an earlier request of the same schema."""
    texts = [json.dumps(each.schema) + each.prompt for each in requests]
    return sum(
        max((alike(text, before) for before in texts[:at]), default=0) // 4 for at, text in enumerate(texts)
    )


def measured(rubric: str, *, together: bool, random: Random) -> tuple[int, int, int, int]:
    """Requests, input tokens, those of them that are shared, and output tokens, for one attempt."""
    calls = [
        Span(id=str(n), kind="tool", name="search", agent="reader", input={"q": prose(8, random)},
             output=prose(30, random), ok=True)
        for n in range(30)
    ]  # fmt: skip
    aspects = tuple(prose(4, random) for _ in range(LISTED))
    case = Case(
        id="1",
        input="Review this paper.",
        source=prose(3500, random),
        references=(prose(250, random),),
        expect=Expect(aspects=aspects, workflow=("manager", "reader", "writer")),
    )
    attempt = Attempt(case="1", output=prose(250, random), trace=Trace(spans=tuple(calls)))

    def answer(question: Question) -> Any:
        return answered(question.schema or {}, random)

    with JudgeServer(answer=answer) as server:
        os.environ |= {"OPENAI_BASE_URL": server.openai_url, "OPENAI_API_KEY": "sk-none-is-needed-here"}
        judge = JudgeSettings(models=("openai:gpt-4o-mini",), together=together)
        settings = Settings(judge=judge, metrics=(rubric,), similarity={"jaccard": 1})
        (scores,) = score_attempts(build_metrics(default_metrics(settings), settings), [(case, attempt)])
    taken = [score.detail for score in scores.values() if "tokens" in score.detail]
    return (
        len(server.requests),
        round(sum(each["tokens"]["input"] / each["shared_by"] for each in taken)),
        shared(server.requests),
        round(sum(each["tokens"]["output"] / each["shared_by"] for each in taken)),
    )


def main() -> None:
    print(f"{'rubric':<8} {'judged':<9} {'requests':>8} {'tokens in':>10} {'shared':>7} {'tokens out':>11}")
    for rubric in NAMES:
        for together in (True, False):
            taken = measured(rubric, together=together, random=Random(1))
            how = "together" if together else "apart"
            print(f"{rubric:<8} {how:<9} {taken[0]:>8} {taken[1]:>10,} {taken[2]:>7,} {taken[3]:>11,}")


if __name__ == "__main__":
    main()
