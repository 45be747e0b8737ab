"""Peak memory and CPU time of `trivium score` over few and over many short outputs.

    python -m benchmarks.memory [--attempts 10000] [--large 1000000] [--workers 1 2] [--rounds 3]

The outputs are a few words each, without traces, and are scored by three metrics. *Run* is the peak memory of
the process of the run, and *worker* that of its largest worker. CPU time is that of all processes for each
attempt, less what the command takes for one attempt (start). The median of the rounds is shown; the large
size is measured once.
"""

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks.commands import measured
from benchmarks.score import median
from benchmarks.sizes import sized


def write_inputs(folder: Path, attempts: int) -> None:
    """Write a suite file, its cases, and outputs of which two in three are right."""
    with (folder / "cases.jsonl").open("w") as cases, (folder / "outputs.jsonl").open("w") as outputs:
        for i in range(attempts):
            answer = f"The sum is {i + i % 7}."
            case = {"id": f"case-{i}", "input": f"Add {i} and {i % 7}.", "references": [answer]}
            cases.write(json.dumps(case) + "\n")
            output = answer if i % 3 else f"The sum is {i}."
            outputs.write(json.dumps({"case": f"case-{i}", "output": output}) + "\n")
    suite = {"name": "short", "cases": "cases.jsonl", "metrics": ["jaccard", "cosine", "success"]}
    (folder / "suite.json").write_text(json.dumps(suite))


def measure(folder: Path, attempts: int, workers: int) -> tuple[float, float, float]:
    """Peak MiB of the process of the run and of the largest other one, and CPU seconds of all."""
    write_inputs(folder, attempts)
    line = ["score", "suite.json", "--outputs", "outputs.jsonl", "--store", "store.db", "--quiet"]
    taken = measured(folder, *line, "--workers", str(workers))
    return taken.peak, taken.peak_of_others, taken.cpu + taken.cpu_of_others


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=sized(10_000, 20))
    parser.add_argument("--large", type=int, default=sized(1_000_000, 40))
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=sized(3, 1))
    given = parser.parse_args()
    header = ("workers", "attempts", "run MiB", "worker MiB", "µs CPU each")
    print("".join(f"{name:>13}" for name in header))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for workers in given.workers:
            for _ in range(sized(1, 0)):
                measure(folder, 1, workers)  # so that the modules are compiled
            *_, start = median(measure(folder, 1, workers) for _ in range(given.rounds))
            rows = []
            for attempts, rounds in ((given.attempts, given.rounds), (given.large, 1)):
                own, others, cpu = median(measure(folder, attempts, workers) for _ in range(rounds))
                rows.append((own, others, (cpu - start) / attempts * 1e6))
                shown = f"{others:>13.0f}" if workers > 1 else f"{'':>13}"
                print(f"{workers:>13}{attempts:>13,}{own:>13.0f}{shown}{rows[-1][2]:>13.0f}", flush=True)
            own, others, each = (large / small for small, large in zip(*rows, strict=True))
            shown = f"{others:>12.2f}×" if workers > 1 else f"{'':>13}"
            print(f"{workers:>13}{'ratio':>13}{own:>12.2f}×{shown}{each:>12.2f}×", flush=True)


if __name__ == "__main__":
    main()
