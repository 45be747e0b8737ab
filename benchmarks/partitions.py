"""What `trivium score --partitions` costs beside a store that holds everything.

    python -m benchmarks.partitions [--attempts 100000] [--workers 2]

Wall and CPU seconds of the command with its workers; CPU seconds and peak memory of the process of the run
alone, which checks and counts every attempt; and the sizes of the store and of the partitions, for outputs of
200 words with traces of 20 spans.
"""

import argparse
import tempfile
from pathlib import Path

from benchmarks.commands import measured
from benchmarks.score import write_inputs
from benchmarks.sizes import sized

LINE = ["score", "suite.json", "--outputs", "outputs.jsonl", "--store", "store.db", "--quiet"]


def measure(folder: Path, *options: str) -> str:
    """Run the command with a new store; return a row."""
    taken = measured(folder, *LINE, *options)
    store = sum(file.stat().st_size for file in folder.glob("store.db*"))
    files = list(folder.glob("parts/*/*.parquet"))
    size = sum(file.stat().st_size for file in files)
    sizes = f"{store / 2**20:>12.0f}{size / 2**20:>12.0f}{len(files):>8}"
    cpu = taken.cpu + taken.cpu_of_others
    return f"{taken.wall:>9.1f}{cpu:>9.1f}{taken.cpu:>9.1f}{taken.peak:>10.0f}{sizes}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=sized(100_000, 100))
    parser.add_argument("--workers", default="2")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if sized(True, False):
            write_inputs(folder, 10)
            measure(folder, "--workers", given.workers)  # so that the modules are compiled
        write_inputs(folder, given.attempts)
        print(
            f"{given.attempts:,} attempts{'':<6}{'wall s':>9}{'CPU s':>9}{'its own':>9}{'peak MiB':>10}",
            end="",
        )
        print(f"{'store MiB':>12}{'parts MiB':>12}{'files':>8}")
        for row, options in (("all in the store", []), ("--partitions", ["--partitions", "parts"])):
            print(f"{row:<20}{measure(folder, '--workers', given.workers, *options)}", flush=True)


if __name__ == "__main__":
    main()
