"""Time and memory of ``trivium trust curve`` as a whole process.

    python -m benchmarks.trust_curve [RUN.json [MODE]]

With a run artifact in the PHQ-8 format: all sixteen confidences with 10,000 resamples. Then files of items of
increasing length without resamples: time and memory of reading and ranking.
"""

import json
import random
import sys
import tempfile
from pathlib import Path

from benchmarks.commands import measured
from benchmarks.sizes import sized

SIXTEEN = "all,verbalized_calibrated,calibrated:token_msp,secondary:verbalized+token_msp:average"
SIZES = sized((10_000, 100_000, 1_000_000), (100,))
REPEATS = sized(3, 1)


def main(arguments: list[str]) -> None:
    """Print one table."""
    print(f"{'command':<52}{'seconds':>9}{'MiB':>7}")
    with tempfile.TemporaryDirectory() as folder:
        if arguments:
            run, mode = arguments[0], arguments[1] if len(arguments) > 1 else "few_shot"
            calibrator = Path(folder) / "calibrator.json"
            fit = (
                "calibrate",
                run,
                "--mode",
                mode,
                "--confidence",
                "verbalized",
                "--output",
                str(calibrator),
            )
            measured(*fit)
            curve = (
                "curve",
                run,
                "--mode",
                mode,
                "--confidence",
                SIXTEEN,
                "--calibration",
                str(calibrator),
                "--json",
            )
            row("16 confidences, 10,000 resamples, whole process", *curve)
        for size in SIZES:
            path = Path(folder) / "items.jsonl"
            write(path, size)
            row(f"{size:,} items, no resamples", "curve", str(path), "--bootstrap-resamples", "0", "--json")


def row(what: str, *line: str) -> None:
    """Print the best of a few runs."""
    taken = min(measured(Path(), "trust", *line) for _ in range(REPEATS))
    print(f"{what:<52}{taken.wall:>9.2f}{taken.peak:>7.0f}", flush=True)


def write(path: Path, size: int) -> None:
    """Write items, eight per group."""
    draw = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for number in range(size):
            item = {"group": str(number // 8), "item": f"i{number % 8}", "pred": draw.randrange(4)}
            item |= {"gt": draw.randrange(4), "confidence": round(draw.random(), 6)}
            file.write(json.dumps(item) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
