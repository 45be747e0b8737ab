"""What every judge of the benchmark is given to judge, and how it says what that took.

Only the standard library: these programs run in the environments of the frameworks that they measure.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

MODEL = "gpt-4o-mini"
CRITERION = "The text is clear: well ordered, readable, and each step follows from the one before."


class Asked(NamedTuple):
    """What is to be judged, and how."""

    url: str
    cases: int
    concurrency: int
    timeout: float
    """Seconds that one request may take."""
    attempts: int | None
    """How often a request is tried in all; none for what the framework does by itself."""
    folder: str = ""
    """For what the framework leaves behind."""

    @property
    def texts(self) -> dict[str, str]:
        """The output that is judged, by the case's input."""
        return {
            f"Review paper {n}.": f"The paper {n} is clear. " + "It says what it does. " * 20
            for n in range(self.cases)
        }


Outcomes = Iterable[tuple[Any, str | None]]
"""Value and error of every judgement that has an outcome, read only after the clock was stopped."""


def measure(judge: Callable[[Asked], Outcomes]) -> None:
    """Prints, as JSON, what a framework takes for what the command line asks, and what becomes of it.

    One judgement of a provider that has nothing against it comes first: imports are not measured.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("warm_up_url")
    parser.add_argument("--cases", type=int, required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    parser.add_argument("--timeout", type=float, required=True)
    parser.add_argument("--attempts", type=int)
    given = vars(parser.parse_args())
    warm_up = given.pop("warm_up_url")
    asked = Asked(**given)
    os.environ["OPENAI_API_KEY"] = "sk-loopback"
    with tempfile.TemporaryDirectory() as folder:
        _run(judge, asked._replace(url=warm_up, cases=1, folder=folder))
    with tempfile.TemporaryDirectory() as folder:
        wall, cpu = time.perf_counter(), _cpu()
        outcomes = _run(judge, asked._replace(folder=folder))
        taken = {"wall": time.perf_counter() - wall, "cpu": _cpu() - cpu}
        taken["mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        found = list(outcomes)
    errors = Counter(error or "no value" for value, error in found if error or value is None)
    print("\n" + json.dumps({**taken, "errors": errors, "lost": asked.cases - len(found)}))


def _run(judge: Callable[[Asked], Outcomes], asked: Asked) -> Outcomes:
    os.environ["OPENAI_BASE_URL"] = asked.url
    return judge(asked)


def _cpu() -> float:
    """Seconds of this process and of children that have ended."""
    return sum(os.times()[:4])
