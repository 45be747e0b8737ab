"""Start-up time of `trivium --help` and `import trivium`, relative to `python -c pass` in the same run."""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.sizes import sized

ROUNDS = sized(21, 1)
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The first round compiles the modules, as an installation does."""

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import trivium": ["-c", "import trivium"],
    "trivium --help": [str(Path(sys.executable).with_name("trivium")), "--help"],
}


def seconds(arguments: list[str]) -> float:
    """Wall time of one process."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    return time.perf_counter() - started


def main() -> None:
    """Print the table."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):  # alternating, so that other load affects all of them
        for name, arguments in COMMANDS.items():
            times[name].append(seconds(arguments))
    ideal = statistics.median(times["python -c pass"])
    print(f"{'command':<18}{'median ms':>10}{'× python':>10}")
    for name, taken in times.items():
        median = statistics.median(taken)
        print(f"{name:<18}{median * 1000:>10.1f}{median / ideal:>10.2f}")


if __name__ == "__main__":
    main()
