"""Judged suites, and the log of a provider on loopback."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import trivium as tv
from tests.judge_server import JudgeServer
from tests.judge_server.wire import usage
from trivium.runs.run import Run
from trivium.store.store import Store
from trivium.suites.suite import Suite

MODEL, OTHER = "openai:gpt-4o-mini", "anthropic:claude-haiku-4-5"
PRICES = {MODEL: {"input": 0.15, "output": 0.60}, OTHER: {"input": 1.0, "output": 5.0}}
"""USD per million tokens, written out so that no list can change what is expected."""


def suite(cases: int = 4, *, metrics: tuple[str, ...] = ("similarity", "clarity"), **judge: Any) -> Suite:
    return Suite.from_dict(
        {
            "name": "judged",
            "cases": [
                {"id": f"c{i}", "input": f"Review paper {i}.", "references": [f"review number {i} is sound"]}
                for i in range(cases)
            ],
            "metrics": list(metrics),
            "similarity": {"cosine": 1},
            "judge": {"models": [MODEL], "prices": PRICES} | judge,
        }
    )


def review(prompt: str) -> str:
    """The agent under test: says something else of every paper."""
    return f"A review. {prompt} It is sound."


def run(suite: Suite, store: Store, **options: Any) -> Run:
    return tv.evaluate(suite, agent=review, store=store, **options)


@contextmanager
def provider(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Iterator[JudgeServer]:
    """Both providers, on loopback."""
    with JudgeServer(**options) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-not-a-secret")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-not-a-secret")
        yield server


BILLED = {"answer", "cut", "stall", "drip", "garbled", "malformed", "truncated", "refusal"}
"""What a provider would put on the bill: everything that it worked for, heard or not."""


def billed(server: JudgeServer, prices: dict[str, dict[str, float]] = PRICES) -> tuple[float, int]:
    """USD and tokens of what the server says it answered."""
    usd, tokens = 0.0, 0
    for question in server.requests:
        if question.reaction not in BILLED:
            continue
        read, wrote = usage(question, [server._answer(question, 0)])
        name = OTHER if question.api == "messages" else MODEL
        usd += (read * prices[name]["input"] + wrote * prices[name]["output"]) / 1e6
        tokens += read + wrote
    return usd, tokens
