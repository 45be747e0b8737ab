"""Speed, overhead and memory of `trivium score` over recorded attempts with traces of 20 spans.

    python -m benchmarks.score [--attempts 10000] [--large 100000]

Text metrics (without the semantic score), trace metrics and the store are on. The CPU time of the whole
process, the only one (`--workers 1`), is compared with that of its parts, each measured alone on the same
attempts:

* start: the command on one attempt, in a process of its own (Python, imports, a new store);
* read: reading and validating the file and building cases and attempts, as any tool must;
* metrics: computing the metrics for cases and attempts in memory.

Everything runs from compiled files, as an installed package does, even if the environment tells Python not to
write any.

Overhead is the share of CPU time that is not metrics: start, reading and the rest (digest and storage of the
cases, composites, encoding and storing, the summary). Memory is the peak of a separate process.
"""

import argparse
import itertools
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.commands import measured

WORDS = 200
SPANS = 20
AGENTS = ("manager", "researcher", "analyst", "synthesizer")
TOOLS = ("search", "read", "cite", "compare", "summarise")


def write_inputs(folder: Path, attempts: int) -> None:
    """Write a suite file, its cases, and outputs with traces."""
    rng = random.Random(7)
    words = [f"{'bcdfghklmnprst'[i % 14]}{'aeiou'[i // 14 % 5]}{i}" for i in range(3000)]

    def text() -> str:
        return " ".join(rng.choice(words) for _ in range(WORDS))

    expect = {"tools": [{"name": name} for name in TOOLS], "workflow": list(AGENTS)}
    with (folder / "cases.jsonl").open("w") as cases, (folder / "outputs.jsonl").open("w") as outputs:
        for i in range(attempts):
            reference = text()
            case = {"id": f"case-{i}", "input": "Review.", "references": [reference], "expect": expect}
            cases.write(json.dumps(case) + "\n")
            near = " ".join(w if rng.random() < 0.7 else rng.choice(words) for w in reference.split())
            line = {"case": f"case-{i}", "output": near, "seconds": 3.2, "trace": _trace(rng)}
            outputs.write(json.dumps(line) + "\n")
    metrics = ["cosine", "jaccard", "similarity", "success", "time", "path_convergence", "tool_selection"]
    metrics += ["tool_recall", "tool_success", "tool_efficiency", "action_match", "complexity"]
    metrics += ["communication_overhead", "centrality", "coordination_quality", "task_balance"]
    suite = {
        "name": "bench",
        "cases": "cases.jsonl",
        "metrics": metrics,
        "similarity": {"cosine": 0.6, "jaccard": 0.4},
    }
    (folder / "suite.json").write_text(json.dumps(suite))


def _trace(rng: random.Random) -> dict:
    spans = [
        {"id": f"a{i}", "kind": "agent", "name": name, "start": float(i), "end": 30.0}
        for i, name in enumerate(AGENTS)
    ]
    for i in range(SPANS - len(AGENTS)):
        kind, name = rng.choice([("llm", "model"), *[("tool", tool) for tool in TOOLS]])
        parent = f"a{rng.randrange(len(AGENTS))}"
        span = {"id": f"s{i}", "parent": parent, "kind": kind, "name": name}
        spans.append(span | {"start": 4.0 + i, "end": 4.5 + i})
    pairs = list(itertools.pairwise(AGENTS))
    messages = [{"sender": a, "receiver": b, "type": "task_request"} for a, b in pairs]
    messages += [{"sender": b, "receiver": a, "type": "result_delivery"} for a, b in pairs]
    messages.append({"sender": "manager", "receiver": "analyst", "type": "handoff"})
    return {"trace_id": "t", "spans": spans, "messages": messages}


def measure_command(folder: Path) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak MiB of `trivium score` in a separate process."""
    line = ["score", "suite.json", "--outputs", "outputs.jsonl", "--store", "store.db", "--quiet"]
    # One process, whose CPU time and memory are all there is.
    taken = measured(folder, *line, "--workers", "1")
    return taken.wall, taken.cpu, taken.peak


def measure_parts(folder: Path) -> tuple[float, float]:
    """CPU seconds of reading the attempts, and of the metrics alone on attempts in memory."""
    from trivium.agents.recorded import open_recorded
    from trivium.metrics.registry import build_metrics
    from trivium.metrics.scoring import score_attempts
    from trivium.suites.suite import Suite

    started = time.process_time()
    suite = Suite.load(folder / "suite.json")
    pairs = iter(open_recorded(str(folder / "outputs.jsonl"), suite))
    reading, scoring = time.process_time() - started, 0.0
    metrics = build_metrics(suite.settings.metrics or (), suite.settings)
    while True:
        started = time.process_time()
        batch = list(itertools.islice(pairs, 256))
        read = time.process_time()
        score_attempts(metrics, batch)
        reading += read - started
        scoring += time.process_time() - read
        if not batch:
            return reading, scoring


def median(rounds: Iterable[tuple[float, ...]]) -> list[float]:
    """Median of each figure over the rounds."""
    return [statistics.median(figures) for figures in zip(*rounds, strict=True)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    from trivium.runs.event_loop import THRESHOLDS_WHILE_SCORING, reduced_garbage_collection

    with reduced_garbage_collection(THRESHOLDS_WHILE_SCORING):  # as the command does
        compare(arguments)


def compare(arguments: argparse.Namespace) -> None:
    """Measure both sizes."""
    names = ("attempts", "wall s", "attempts/s", "CPU s", "start s", "read s", "metrics s")
    print("".join(f"{name:>11}" for name in (*names, "overhead", "peak MiB")))
    peaks = []
    for attempts in (arguments.attempts, arguments.large):
        rounds = arguments.rounds if attempts <= 20_000 else 1
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_inputs(folder, 1)
            measure_command(folder)  # so that the modules are compiled
            _, start, _ = median(measure_command(folder) for _ in range(rounds))
            write_inputs(folder, attempts)
            wall, cpu, peak = median(measure_command(folder) for _ in range(rounds))
            reading, metrics = median(measure_parts(folder) for _ in range(rounds))
        peaks.append(peak)
        row = f"{attempts:>11,}{wall:>11.2f}{attempts / wall:>11,.0f}"
        row += "".join(f"{seconds:>11.2f}" for seconds in (cpu, start, reading, metrics))
        print(f"{row}{1 - metrics / cpu:>11.0%}{peak:>11.0f}", flush=True)
    print(f"\nmemory at {arguments.large:,} is {peaks[1] / peaks[0]:.2f}× that at {arguments.attempts:,}")


if __name__ == "__main__":
    main()
