"""Where the time of `trivium score` goes, by stage: a sampling profile of the whole command.

    python -m benchmarks.stages [--attempts 20000]

A thread looks at all others every 2 ms and gives the time since it last looked to the stage of the innermost
Trivium module on the main work's stack. Recorded outputs with traces of 20 spans and references of 200 words,
text and trace metrics, one process, a new store: the files of `benchmarks.score`.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

import trivium
from benchmarks.score import write_inputs
from benchmarks.sizes import sized

SOURCE = Path(trivium.__file__).parent
SECONDS = 0.002

STAGES = {
    "agents": "reading outputs and traces",
    "traces": "reading outputs and traces",
    "suites": "reading cases",
    "metrics/text": "text metrics (tokens, cosine, Jaccard)",
    "metrics/graph": "trace metrics",
    "metrics": "composite, verdict",
    "runs/summar": "summary, intervals",
    "trust": "summary, intervals",
    "runs": "aggregating",
    "store": "encoding and storing",
    "reports": "report",
    "cli": "report",
}
"""Stage of each module, by the beginning of its path; the first that fits."""


def stage_of(frame: FrameType | None) -> str | None:
    """The stage that a stack is in; None if it waits."""
    if frame is None or frame.f_code.co_name in {"wait", "select", "_wait"}:
        return None
    while frame is not None:
        name = frame.f_code.co_filename
        if "importlib" in name:
            return "importing modules"
        if name.startswith(str(SOURCE)):
            path = Path(name).relative_to(SOURCE).as_posix()
            return next((stage for prefix, stage in STAGES.items() if path.startswith(prefix)), "other")
        frame = frame.f_back
    return None


class Sampler(threading.Thread):
    """Counts seconds by stage until it is stopped."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seconds: Counter[str] = Counter()
        self.ended = threading.Event()

    def run(self) -> None:
        """Look again and again."""
        last = time.perf_counter()
        while not self.ended.wait(SECONDS):
            now = time.perf_counter()
            frames = sys._current_frames()  # noqa: SLF001 - the documented way to see other threads
            stacks = [frame for ident, frame in frames.items() if ident != self.ident]
            busy = [stage for frame in stacks if (stage := stage_of(frame)) is not None]
            for stage in busy:
                self.seconds[stage] += (now - last) / len(busy)
            last = now


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=sized(20_000, 20))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_inputs(Path(), given.attempts)
        sampler = Sampler()
        sampler.start()
        began = time.perf_counter()
        from trivium.cli.main import run_command

        line = ["score", "suite.json", "--outputs", "outputs.jsonl", "--store", "a.db", "--workers", "1"]
        code = run_command([*line, "--quiet"])
        seconds = time.perf_counter() - began
        sampler.ended.set()
        sampler.join()
        os.chdir("/")
    if code:
        raise SystemExit(code)
    total = sampler.seconds.total() or 1.0
    print(f"{given.attempts:,} attempts in {seconds:.1f} s\n\n{'stage':<42}{'share':>7}{'us an attempt':>15}")
    for stage, spent in sampler.seconds.most_common():
        print(f"{stage:<42}{spent / total:>7.1%}{spent / given.attempts * 1e6:>15.0f}")


if __name__ == "__main__":
    main()
