"""What a second process gains for `trivium score`, and what this machine lets it gain.

    python -m benchmarks.workers [--attempts 100000] [--semantic 200] [--ray]

Whole commands, starting with Python: recorded outputs with traces of 20 spans, text and trace metrics as in
`benchmarks.score`; and, if an encoder is packaged, the semantic score alone (with one worker it already uses
all cores, by threads). Beside the gain of `--workers 2` over `--workers 1` stands the machine's ceiling: two
commands of one worker at the same time, on half of the attempts each, against one on all of them. `--ray`
adds `--engine ray --workers 2` on a cluster that runs already, and its time over that of `--workers 2`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from benchmarks.commands import compiling
from benchmarks.score import write_inputs
from benchmarks.sizes import sized
from trivium.metrics.text.encoders.loading import packaged_encoder

LOOPBACK = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray then takes the loopback address, as on these systems
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
}

ROWS = (
    ("text and trace", None),
    ("text", "cosine,jaccard"),
    (
        "trace",
        "path_convergence,tool_selection,tool_recall,tool_efficiency,action_match,centrality,task_balance",
    ),
)
"""Names of rows, and the metrics of each: all of the suite's where none are named."""


@contextmanager
def cluster() -> Iterator[None]:
    """A Ray cluster of one node with two CPUs, which commands find by their environment."""
    os.environ |= LOOPBACK
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "node_ip_address": "127.0.0.1"})
    os.environ["RAY_ADDRESS"] = made.address
    try:
        yield
    finally:
        made.shutdown()


def command(
    folder: Path,
    *,
    workers: int,
    outputs: str = "outputs.jsonl",
    metrics: str | None = None,
    engine: str = "local",
) -> list[str]:
    """The command line of one measurement, with a new store."""
    store = folder / f"{outputs}.db"
    store.unlink(missing_ok=True)
    line = [
        sys.executable,
        "-m",
        "trivium",
        "score",
        "suite.json",
        "--outputs",
        outputs,
        "--store",
        str(store),
    ]
    return [
        *line,
        "--quiet",
        "--engine",
        engine,
        "--workers",
        str(workers),
        *(["--metrics", metrics] if metrics else []),
    ]


def seconds(folder: Path, *commands: list[str], encoder: str | None = None) -> float:
    """Wall seconds until all commands are done, started together."""
    environment = compiling(folder)
    if encoder:
        environment["TRIVIUM_ENCODER"] = encoder
    began = time.perf_counter()
    started = [
        subprocess.Popen(each, cwd=folder, env=environment, stderr=subprocess.DEVNULL) for each in commands
    ]
    codes = {each.wait() for each in started}
    if not codes <= {0, 3}:
        raise RuntimeError(f"a command ended with {codes}")
    return time.perf_counter() - began


def measure(name: str, folder: Path, *, ray: bool, metrics: str | None, encoder: str | None = None) -> None:
    """Print one row."""
    lines = (folder / "outputs.jsonl").read_text().splitlines(keepends=True)
    halves = {"first.jsonl": lines[::2], "second.jsonl": lines[1::2]}
    for file, half in halves.items():
        (folder / file).write_text("".join(half))

    def timed(*commands: list[str]) -> float:
        return seconds(folder, *commands, encoder=encoder)

    one = timed(command(folder, workers=1, metrics=metrics))
    two = timed(command(folder, workers=2, metrics=metrics))
    apart = timed(*(command(folder, workers=1, outputs=file, metrics=metrics) for file in halves))
    row = f"{name:<22}{len(lines):>9,}{one:>9.1f}{two:>9.1f}{one / two:>8.2f}×{one / apart:>10.2f}×"
    if ray:
        on_ray = timed(command(folder, workers=2, metrics=metrics, engine="ray"))
        row += f"{on_ray:>9.1f}{on_ray / two:>8.2f}×"
    print(row, flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=sized(100_000, 100))
    parser.add_argument("--semantic", type=int, default=sized(200, 0))
    parser.add_argument("--ray", action="store_true")
    given = parser.parse_args()
    header = f"{'metrics':<22}{'attempts':>9}{'1 s':>9}{'2 s':>9}{'gain':>9}{'ceiling':>11}"
    print(header + (f"{'Ray s':>9}{'/ 2':>9}" if given.ray else ""))
    with tempfile.TemporaryDirectory() as name, cluster() if given.ray else nullcontext():
        folder = Path(name)
        if sized(True, False):
            write_inputs(folder, 10)
            seconds(folder, command(folder, workers=2))  # so that the modules are compiled
        write_inputs(folder, given.attempts)
        for row, metrics in sized(ROWS, ROWS[-1:]):
            measure(row, folder, ray=given.ray, metrics=metrics)
        encoder = packaged_encoder()
        if given.semantic and encoder:
            write_inputs(folder, given.semantic)
            measure("semantic", folder, ray=given.ray, metrics="semantic", encoder=encoder)


if __name__ == "__main__":
    main()
