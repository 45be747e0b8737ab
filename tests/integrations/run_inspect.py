"""Trivium's metrics as scorers of a real evaluation by Inspect; run as a program, it changes nothing here.

python run_inspect.py FOLDER prints the scores of each sample, the means and what was left unscored, as JSON.
"""

import json
import math
import sys

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.tool import ToolError, tool

from trivium.errors import SuiteError
from trivium.integrations.inspect_ai import trivium_scorer

MODEL = "mockllm/model"


@tool
def look():
    async def execute(where: str) -> str:
        """Look somewhere.

        Args:
            where: Where.
        """
        if where == "nowhere":
            raise ToolError("there is no such place")
        return "seen"

    return execute


def call(name: str, **arguments: str) -> ModelOutput:
    output = ModelOutput.for_tool_call(MODEL, name, arguments)
    output.usage = ModelUsage(
        input_tokens=1, output_tokens=1, total_tokens=2
    )  # else it counts with a download
    return output


def outputs() -> list[ModelOutput]:
    return [call("look", where="here"), call("look", where="nowhere"), call("submit", answer="a b d")]


def main(folder: str) -> None:
    task = Task(
        name="look",
        dataset=[Sample(id="a", input="?", target=["a b c", "x"]), Sample(id="b", input="?", target="")],
        solver=react(tools=[look()], attempts=1),
        scorer=[trivium_scorer("jaccard"), trivium_scorer("tool_success")],
    )
    model = get_model(MODEL, custom_outputs=outputs() * 2)
    (log,) = evaluate(task, model=model, log_dir=folder, display="none", max_samples=1)
    if log.error is not None:
        sys.exit(log.error.message)
    values = {
        sample.id: {
            name: [
                None if math.isnan(score.value) else score.value,
                score.explanation,
                score.metadata["status"],
            ]
            for name, score in sample.scores.items()
        }
        for sample in log.samples
    }
    means = {score.name: score.metrics["mean"].value for score in log.results.scores}
    try:
        trivium_scorer("jacard")
    except SuiteError as error:
        refused = str(error)
    outputs_ = {sample.id: sample.output.completion for sample in log.samples}
    found = {"values": values, "means": means, "outputs": outputs_, "status": log.status, "refused": refused}
    print(json.dumps(found))


if __name__ == "__main__":
    # Inspect would import what there is of these for its samples; its scripted model needs neither.
    sys.modules["anthropic"] = sys.modules["openai"] = None  # type: ignore[assignment]
    main(sys.argv[1])
