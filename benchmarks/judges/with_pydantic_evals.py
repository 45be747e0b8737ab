"""pydantic-evals: its LLMJudge over a dataset, each case one judgement of a recorded output.

The model is an object: by its name alone, every judgement would make a client of its own, which takes four
times the CPU. Retries are those of OpenAI's client (two), and ``retry_evaluators`` where attempts are given.
"""

from typing import Any

from benchmarks.judges.measured import CRITERION, MODEL, Asked, Outcomes, measure


def judge(asked: Asked) -> Outcomes:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.settings import ModelSettings
    from pydantic_evals import Case, Dataset
    from pydantic_evals.evaluators import LLMJudge
    from tenacity import stop_after_attempt, wait_exponential

    texts = asked.texts
    judges = LLMJudge(
        rubric=CRITERION, model=OpenAIChatModel(MODEL), model_settings=ModelSettings(timeout=asked.timeout)
    )
    cases: list[Any] = [Case(name=text, inputs=text) for text in texts]
    dataset: Any = Dataset(name="judged", cases=cases, evaluators=[judges])
    retry: Any = asked.attempts and {
        "stop": stop_after_attempt(asked.attempts),
        "wait": wait_exponential(multiplier=1, min=1, max=10),
        "reraise": True,
    }

    async def recorded(text: str) -> str:
        return texts[text]

    report = dataset.evaluate_sync(
        recorded, max_concurrency=asked.concurrency, progress=False, retry_evaluators=retry
    )
    return _outcomes(report)


def _outcomes(report: Any) -> Outcomes:
    for case in report.cases:
        yield from ((each.value, None) for each in case.assertions.values())
        yield from ((None, each.error_type) for each in case.evaluator_failures)


if __name__ == "__main__":
    measure(judge)
