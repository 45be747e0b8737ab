"""What a whole judged command takes, imports included: `trivium score` of 20 recorded outputs with a judge.

    python -m benchmarks.judged_start [--rounds 7]

Processes of their own alternate: a bare script that sends as many requests with the OpenAI SDK, all at once;
pydantic-evals with its ``LLMJudge``; and Trivium with a new store, with a judge and with text metrics alone.
One more row: 2,000 judgements of 200 ms, 50 at once, whose ideal is 8 s. The provider is
``tests.judge_server`` in a process of its own. Medians; everything runs from compiled files, as installed.
"""

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.commands import python
from benchmarks.judge import _provider
from benchmarks.sizes import sized

OUTPUTS = sized(20, 2)
MANY, LATENCY, AT_ONCE = sized(2000, 2), 0.2, 50
WARM_UP = sized(1, 0)
"""Rounds before those that count: the first compiles the modules."""
MODEL = "gpt-4o-mini"

OPENAI = """
import asyncio, json, sys
from pathlib import Path
from openai import AsyncOpenAI

async def main():
    bodies = json.loads(Path(sys.argv[1]).read_text())
    async with AsyncOpenAI() as client:
        answers = await asyncio.gather(*(client.chat.completions.create(**body) for body in bodies))
    for answer in answers:
        json.loads(answer.choices[0].message.content)

asyncio.run(main())
"""
"""What somebody writes who needs nothing but the answers."""

PYDANTIC_EVALS = """
import json, sys
from pathlib import Path
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import LLMJudge

lines = map(json.loads, Path(sys.argv[1]).read_text().splitlines())
outputs = {each["case"]: each["output"] for each in lines}

async def recorded(text):
    return outputs[text]

judge = LLMJudge(rubric="The text is clear and well ordered.", model=OpenAIChatModel(sys.argv[2]))
dataset = Dataset(name="judged", cases=[Case(name=text, inputs=text) for text in outputs], evaluators=[judge])
report = dataset.evaluate_sync(recorded, progress=False)
assert all(case.assertions for case in report.cases) and not report.failures
"""


def write_inputs(folder: Path, count: int, *, concurrency: int | None = None) -> None:
    """Write suites with and without a judge, outputs, and the requests of the bare script."""
    cases = [
        {"id": f"c{n}", "input": f"Review paper {n}.", "references": ["a clear text"]} for n in range(count)
    ]
    judge = {"models": f"openai:{MODEL}", "on_failure": "fail"}
    if concurrency is not None:
        judge |= {"concurrency": concurrency}
    judged = {"name": "s", "cases": cases, "metrics": ["clarity"], "judge": judge}
    (folder / "judged.json").write_text(json.dumps(judged))
    (folder / "text.json").write_text(
        json.dumps({"name": "s", "cases": cases, "metrics": ["cosine", "jaccard"]})
    )
    lines = [
        {"case": f"c{n}", "output": f"Paper {n} is clear. " + "It says much. " * 20} for n in range(count)
    ]
    (folder / "outputs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    schema = {
        "type": "object",
        "properties": {"reason": {"type": "string"}, "level": {"type": "string", "enum": ["1", "2", "3"]}},
        "required": ["reason", "level"],
        "additionalProperties": False,
    }
    body = {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "Rate how clear the text is. " * 100},
            {"role": "user", "content": "A text. " * 100},
        ],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "j", "strict": True, "schema": schema},
        },
        "logprobs": True,
        "top_logprobs": 5,
    }
    (folder / "requests.json").write_text(json.dumps([body] * count))


TRIVIUM = "from trivium.cli.main import main; main()"
"""What the installed command does."""


def trivium(suite: str) -> list[str]:
    """The code and the arguments that score the outputs against a suite."""
    return [TRIVIUM, "score", suite, "--outputs", "outputs.jsonl", "--store", "store.db", "--quiet"]


def measure(code: list[str], folder: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Wall and CPU seconds of code, with its arguments, and a new store."""
    for left in folder.glob("store.db*"):
        left.unlink()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    python(folder, *code, environment=environment)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def provider(*options: str) -> Iterator[dict[str, str]]:
    """Run a provider, and yield an environment whose commands ask it."""
    with _provider(*options) as url:
        asked = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-loopback"}
        yield asked


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=sized(7, 1))
    rounds: int = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder, OUTPUTS)
        with provider() as environment:
            commands = {
                "OpenAI SDK, bare script": ([OPENAI, "requests.json"], environment),
                "pydantic-evals": ([PYDANTIC_EVALS, "outputs.jsonl", MODEL], environment),
                "trivium score, judged": (trivium("judged.json"), environment),
                "trivium score, text": (trivium("text.json"), environment),
            }
            taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
            for number in range(WARM_UP + rounds):
                for row, (command, variables) in commands.items():
                    figures = measure(command, folder, variables)
                    if number >= WARM_UP:
                        taken[row].append(figures)
        print(f"{OUTPUTS} outputs{'':<16}{'wall s':>9}{'CPU s':>9}{'× script':>10}")
        medians = {
            row: [statistics.median(column) for column in zip(*figures, strict=True)]
            for row, figures in taken.items()
        }
        script = medians["OpenAI SDK, bare script"][0]
        for row, (wall, cpu) in medians.items():
            print(f"{row:<26}{wall:>9.2f}{cpu:>9.2f}{wall / script:>10.2f}")
        write_inputs(folder, MANY, concurrency=AT_ONCE)
        with provider("--latency", str(LATENCY)) as environment:
            for _ in range(WARM_UP):
                measure(trivium("judged.json"), folder, environment)
            wall, cpu = measure(trivium("judged.json"), folder, environment)
        ideal = MANY * LATENCY / AT_ONCE
        print(f"\n{MANY:,} judgements of {LATENCY * 1000:.0f} ms, {AT_ONCE} at once: ", end="")
        print(f"{wall:.2f} s, CPU {cpu:.2f} s, {wall / ideal:.2f} of the ideal {ideal:.0f} s")


if __name__ == "__main__":
    main()
