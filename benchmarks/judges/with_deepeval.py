"""DeepEval: a GEval metric by ``evaluate``, with evaluation steps, so that each judgement is one request.

By itself it makes a client for every request and writes all that it keeps anew after every test, which takes
ten times the CPU at 500 tests; here it has one HTTP client and keeps nothing. It tries twice, and
DEEPEVAL_RETRY_MAX_ATTEMPTS times where attempts are given. It is told to ignore errors, of which by itself
the first one ends the evaluation and leaves no result; a test with an error has failed all the same.
"""

import contextlib
import os
import re
from typing import Any

from benchmarks.judges.measured import CRITERION, MODEL, Asked, Outcomes, measure


def judge(asked: Asked) -> Outcomes:
    os.environ |= {
        "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
        "DEEPEVAL_NO_INSPECT_PROMPT": "1",
        "DEEPEVAL_PER_ATTEMPT_TIMEOUT_SECONDS_OVERRIDE": str(asked.timeout),
    }
    if asked.attempts is not None:
        os.environ["DEEPEVAL_RETRY_MAX_ATTEMPTS"] = str(asked.attempts)
    with contextlib.chdir(asked.folder):  # it leaves files where it is run
        from deepeval import evaluate
        from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
        from deepeval.metrics import GEval
        from deepeval.models import OpenAIModel
        from deepeval.test_case import LLMTestCase, SingleTurnParams
        from openai import DefaultAsyncHttpxClient

        metric = GEval(
            name="clarity",
            evaluation_steps=[CRITERION],
            evaluation_params=[SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT],
            model=OpenAIModel(
                MODEL, base_url=asked.url, async_http_client=DefaultAsyncHttpxClient(timeout=asked.timeout)
            ),
        )
        results = evaluate(
            [LLMTestCase(input=text, actual_output=output) for text, output in asked.texts.items()],
            [metric],
            async_config=AsyncConfig(max_concurrent=asked.concurrency),
            display_config=DisplayConfig(show_indicator=False, print_results=False, inspect_after_run=False),
            cache_config=CacheConfig(write_cache=False),
            error_config=ErrorConfig(ignore_errors=True),
        )
    return (_outcome(data) for result in results.test_results for data in result.metrics_data or ())


def _outcome(data: Any) -> tuple[Any, str | None]:
    # The model's 8 of 10 is weighed with its next likely tokens. An error names its object's address.
    wrong = None if data.score and 0.7 <= data.score <= 0.9 else "another score than the model's"
    return data.score, "the test has failed: " + re.sub(r" at 0x\w+", "", data.error) if data.error else wrong


if __name__ == "__main__":
    measure(judge)
