"""Ragas: an AspectCritic by ``evaluate`` with a RunConfig, through ``llm_factory`` and OpenAI's client.

Retries are those of that client (two, or as many as attempts are given) and of a malformed answer; those of a
RunConfig are for LangChain's models only.
"""

import logging
import math
import os
import warnings
from typing import Any

from benchmarks.judges.measured import CRITERION, MODEL, Asked, Outcomes, measure


def judge(asked: Asked) -> Outcomes:
    os.environ |= {"RAGAS_DO_NOT_TRACK": "true", "LANGSMITH_TRACING": "false"}
    warnings.simplefilter("ignore", DeprecationWarning)
    from openai import AsyncOpenAI
    from ragas import EvaluationDataset, RunConfig, SingleTurnSample, evaluate
    from ragas.llms import llm_factory
    from ragas.metrics import AspectCritic

    logging.getLogger("ragas").setLevel(logging.CRITICAL)  # each failed answer, at length
    retries: dict[str, Any] = {} if asked.attempts is None else {"max_retries": asked.attempts - 1}
    client = AsyncOpenAI(timeout=asked.timeout, **retries)
    samples = [SingleTurnSample(user_input=text, response=output) for text, output in asked.texts.items()]
    result = evaluate(
        EvaluationDataset(samples=samples),
        metrics=[AspectCritic(name="clarity", definition=CRITERION, llm=llm_factory(MODEL, client=client))],
        run_config=RunConfig(max_workers=asked.concurrency),
        show_progress=False,
    )
    return (_outcome(row["clarity"]) for row in result.scores)


def _outcome(score: float) -> tuple[float, str | None]:
    wrong = "NaN" if math.isnan(score) else "another verdict than the model's"
    return score, None if score == 1 else wrong


if __name__ == "__main__":
    measure(judge)
