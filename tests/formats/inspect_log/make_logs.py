"""Real logs of Inspect AI, made with its scripted model: run as a program, so that it changes nothing here.

python make_logs.py FOLDER VALUES writes ``agents.eval``, ``agents.json``, ``plain.eval``, ``edited.eval``,
``broken.eval`` and ``unlogged.eval``; and what Inspect says of them and of a JSON list of values: the means
that it reports (``means.json``) and the numbers for which the values count (``numbers.json``).
"""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.agent import AgentState, agent, as_tool, handoff, react
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, ProvenanceData, edit_score, read_eval_log, write_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import (
    Score,
    ScoreEdit,
    Target,
    accuracy,
    includes,
    match,
    mean,
    scorer,
    value_to_float,
)
from inspect_ai.solver import TaskState, generate
from inspect_ai.tool import ToolError, tool

MODEL = "mockllm/model"


@tool
def add():
    async def execute(x: int, y: int) -> str:
        """Add two numbers.

        Args:
            x: First.
            y: Second.
        """
        if x < 0:
            raise ToolError("negative")
        return str(x + y)

    return execute


@agent
def helper():
    async def execute(state: AgentState) -> AgentState:
        """Helps."""
        state.output = await get_model().generate(state.messages)
        state.messages.append(state.output.message)
        return state

    return execute


@scorer(metrics={"*": [mean()]})
def parts():
    async def score(state: TaskState, target: Target) -> Score:
        length = float("nan") if state.sample_id == "b" else 12
        return Score(value={"style": 0.5, "length": length}, answer="x", explanation="because")

    return score


@scorer(metrics=[accuracy()])
def judged():
    async def score(state: TaskState, target: Target) -> Score:
        await get_model().generate("Is it right?")
        return Score.unscored(reason="parse_failed") if state.sample_id == "b" else Score(value="P")

    return score


def call(name: str, **arguments: object) -> ModelOutput:
    output = ModelOutput.for_tool_call(MODEL, name, arguments)
    output.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=18, input_tokens_cache_read=3)
    return output


def say(text: str) -> ModelOutput:
    output = ModelOutput.from_content(MODEL, text)
    output.usage = ModelUsage(input_tokens=7, output_tokens=2, total_tokens=9)
    return output


def agents() -> list[ModelOutput]:
    return [
        call("add", x=1, y=2),
        call("add", x=-1, y=2),
        call("helper", input="please"),
        say("helping 3"),
        call("submit", answer="3"),
        say("a judge's words"),
    ]


def run(folder: Path, name: str, task: Task, outputs: list[ModelOutput], **options: object) -> EvalLog:
    kind = name.rpartition(".")[2]
    model = get_model(MODEL, custom_outputs=outputs)
    (log,) = evaluate(
        task,
        model=model,
        log_dir=str(folder / "logs"),
        log_format=kind,
        display="none",
        max_samples=1,
        **options,
    )
    Path(log.location).rename(folder / name)
    return log


def reported(log: Path) -> dict[str, float]:
    """The accuracy by each scorer."""
    results = read_eval_log(str(log)).results
    return {score.name: score.metrics["accuracy"].value for score in results.scores}


def main(folder: Path, values: list[object]) -> None:
    samples = [Sample(id="a", input="1+2?", target="3"), Sample(id="b", input="2+1?", target=["3", "three"])]
    tools = [add(), as_tool(helper(), description="helps")]
    for name in ("agents.eval", "agents.json"):
        task = Task(
            name="sums",
            dataset=samples,
            solver=react(prompt="Do.", tools=tools),
            scorer=[includes(), parts(), judged()],
            epochs=2,
        )
        run(folder, name, task, agents() * 4)
    handed = Task(
        name="handed",
        dataset=samples[:1],
        solver=react(prompt="Do.", tools=[handoff(helper(), description="helps")]),
        scorer=match(),
    )
    run(folder, "handed.eval", handed, [call("transfer_to_helper"), say("3"), call("submit", answer="3")])
    numbered = [Sample(input=f"{n}?", target=str(n), metadata={"n": n}) for n in range(6)]
    plain = Task(name="plain", dataset=numbered, solver=generate(), scorer=match())
    run(folder, "plain.eval", plain, [say(str(n if n % 3 else 9)) for n in range(6)])
    log = read_eval_log(str(folder / "plain.eval"))
    for sample, value in ((1, "C"), (2, "I"), (4, "C")):
        by = ProvenanceData(author="ann", reason="read it", timestamp=datetime(2026, 1, 1, tzinfo=UTC))
        edit_score(log, sample, "match", ScoreEdit(value=value, provenance=by))
    write_eval_log(log, str(folder / "edited.eval"))
    failing = Task(name="failing", dataset=numbered[:2], solver=generate(), scorer=match())
    run(folder, "broken.eval", failing, [say("0")], fail_on_error=False)
    quiet = Task(name="quiet", dataset=numbered[:1], solver=generate(), scorer=match())
    run(folder, "unlogged.eval", quiet, [say("0")], log_samples=False)
    means = {name: reported(folder / name) for name in ("plain.eval", "edited.eval")}
    (folder / "means.json").write_text(json.dumps(means))
    (folder / "numbers.json").write_text(json.dumps([value_to_float()(value) for value in values]))


if __name__ == "__main__":
    # Inspect would import what there is of these for its samples; its scripted model needs neither.
    sys.modules["anthropic"] = sys.modules["openai"] = None  # type: ignore[assignment]
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
