"""A provider of judges on loopback: the OpenAI and Anthropic wire formats, good days and bad.

    with JudgeServer(latency=0.001, plan=faults(rate_limited=0.1, seed=7)) as server:
        client = OpenAI(base_url=server.openai_url, api_key="sk-test")

``python -m tests.judge_server --port 8001 --latency 0.2`` runs the same server as a process of its own.
"""

from tests.judge_server.answer import Answer
from tests.judge_server.conditions import Conditions
from tests.judge_server.faults import (
    ANSWER,
    CUT,
    DRIP,
    GARBLED,
    HANG,
    MALFORMED,
    REFUSAL,
    RESET,
    STALL,
    TRUNCATED,
    Reaction,
    at,
    failure,
    faults,
    rate_limited,
)
from tests.judge_server.fill import fill
from tests.judge_server.question import Question
from tests.judge_server.server import JudgeServer

__all__ = [
    "ANSWER",
    "CUT",
    "DRIP",
    "GARBLED",
    "HANG",
    "MALFORMED",
    "REFUSAL",
    "RESET",
    "STALL",
    "TRUNCATED",
    "Answer",
    "Conditions",
    "JudgeServer",
    "Question",
    "Reaction",
    "at",
    "failure",
    "faults",
    "fill",
    "rate_limited",
]
