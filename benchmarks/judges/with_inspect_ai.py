"""Inspect AI: ``model_graded_qa`` over a dataset whose solver gives the recorded output.

By itself it tries again for ever, and ``max_retries`` times where attempts are given. It is told to go on
when a sample fails, which by itself ends the evaluation.
"""

import math
from typing import Any

from benchmarks.judges.measured import CRITERION, MODEL, Asked, Outcomes, measure


def judge(asked: Asked) -> Outcomes:
    import inspect_ai
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import GenerateConfig, ModelOutput, get_model
    from inspect_ai.scorer import model_graded_qa
    from inspect_ai.solver import solver

    texts = asked.texts

    @solver
    def recorded() -> Any:
        async def solve(state: Any, _: Any) -> Any:
            state.output = ModelOutput.from_content("recorded", texts[state.input_text])
            return state

        return solve

    dataset = MemoryDataset([Sample(input=text, target=CRITERION) for text in texts])
    config = GenerateConfig(
        max_connections=asked.concurrency,
        attempt_timeout=math.ceil(asked.timeout),
        max_retries=asked.attempts and asked.attempts - 1,
    )
    (log,) = inspect_ai.eval(
        inspect_ai.Task(dataset=dataset, solver=recorded(), scorer=model_graded_qa()),
        model="none/none",
        model_roles={"grader": get_model(f"openai/{MODEL}", config=config, base_url=asked.url)},
        max_samples=asked.concurrency,
        fail_on_error=False,
        log_dir=asked.folder,
        display="none",
    )
    return _outcomes(log)


def _outcomes(log: Any) -> Outcomes:
    for sample in log.samples or ():
        if sample.error is not None:
            yield None, sample.error.message.partition("(")[0]
        for score in (sample.scores or {}).values():
            graded = isinstance(score.value, str)
            wrong = "another grade than the model's" if graded else "unscored"
            yield score.value, None if score.value == "C" else wrong


if __name__ == "__main__":
    measure(judge)
