"""A suite judged over the loopback provider, as tests of the judge tier need it again and again."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tests.judge_server import JudgeServer
from trivium.agents.attempt import Attempt
from trivium.metrics.metric import Score
from trivium.metrics.registry import build_metrics, default_metrics
from trivium.metrics.scoring import score_attempts
from trivium.suites.case import Case
from trivium.suites.settings import JudgeSettings, Settings

GPT, MINI, CLAUDE = "openai:gpt-4o", "openai:gpt-4o-mini", "anthropic:claude-haiku-4-5"

CASE = Case(id="c", input="Review it.", references=("the text is fine",), source="A source.")
ATTEMPT = Attempt(case="c", output="The  text\nis fine and clear.")


@contextmanager
def served(server: JudgeServer, patch: pytest.MonkeyPatch) -> Iterator[JudgeServer]:
    """Points the environment at a server, as a user would."""
    with server:
        patch.setenv("OPENAI_BASE_URL", server.openai_url)
        patch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-1234567890")
        patch.setenv("ANTHROPIC_BASE_URL", server.anthropic_url)
        patch.setenv("ANTHROPIC_API_KEY", "sk-ant-not-a-real-key-1234567890")
        yield server


def clarity(
    score: float | None = 4,
    *,
    confidence: int = 3,
    evidence: Sequence[str] = ("the text is",),
    reason: str = "it reads well",
    **scores: float | None,
) -> dict[str, Any]:
    """An answer about clarity."""
    criteria = dict.fromkeys(("structure", "readability", "logical_flow"), score) | scores
    return {
        "clarity": {
            "evidence": list(evidence),
            "criteria": {name: {"explanation": "so", "score": value} for name, value in criteria.items()},
            "reason": reason,
            "confidence": confidence,
        }
    }


def judged(
    metrics: Sequence[str] = ("clarity",),
    *,
    pairs: Sequence[tuple[Case, Attempt]] = ((CASE, ATTEMPT),),
    models: Sequence[str] = (GPT,),
    encoder: str | None = None,
    **judge: Any,
) -> list[dict[str, Score]]:
    """The scores of some attempts."""
    settings = Settings(
        judge=JudgeSettings(models=tuple(models), **judge),
        similarity={"jaccard": 1},
        metrics=tuple(metrics),
        encoder=encoder,
    )
    return score_attempts(build_metrics(default_metrics(settings), settings), list(pairs))
