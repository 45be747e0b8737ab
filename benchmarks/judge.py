"""Judges on a good day and on bad ones: wall time against the ideal, CPU, memory, requests, judgements lost.

    python -m benchmarks.judge                       # every scenario, Trivium
    python -m benchmarks.judge clean limited         # some
    python -m benchmarks.judge --peers /path/python  # beside pydantic-evals, where that interpreter has it

The provider is ``tests.judge_server`` as a process of its own, whose CPU does not count. Every run is a
process of its own too: evaluating a suite with the store, the limiter, kept answers and all signals on. The
wall time is that of ``evaluate``; imports come before it. The ideal is the time that the provider needs for
as many answers. A judgement that ends as an error is told as such, with its reason below; one that has no
outcome at all is lost. First of all the provider's own capacity is measured, which must be well above what is
asked of it, and the machine's load is told: with others at work wall times mean little.
"""

import argparse
import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent.parent


class Scenario(NamedTuple):
    """Cases, what is in flight at most, the server's options, and the seconds that an ideal client needs."""

    cases: int
    server: tuple[str, ...]
    ideal: float
    concurrency: int | None = 50
    timeout: float = 10


_FAULTY = ("--rate-limited", "0.1", "--server-error", "0.05")
_ALL = (*_FAULTY, "--malformed", "0.02", "--hang", "0.01")
SCENARIOS = {
    "clean": Scenario(2000, ("--latency", "0.2"), 8),
    "faulty": Scenario(2000, ("--latency", "0.2", *_ALL), 8),
    "errors": Scenario(500, ("--latency", "0.2", *_FAULTY), 2),
    "poison": Scenario(500, ("--latency", "0.2", "--server-error", "0.02", "--by", "prompt"), 2),
    "truncated": Scenario(500, ("--latency", "0.2", "--truncated", "0.05"), 2.1),
    "limited": Scenario(500, ("--latency", "0.2", "--rate", "25"), 20),
    "limited-window": Scenario(500, ("--latency", "0.2", "--rate", "25", "--limit", "window"), 20),
    "limited-told": Scenario(500, ("--latency", "0.2", "--rate", "25", "--rate-retry-after", "exact"), 20),
    "hanging": Scenario(500, ("--latency", "0.2", "--hang", "0.01"), 2, timeout=3),
    "slower": Scenario(2000, ("--latency", "0.2", "--change-at", "1000", "--then-latency", "0.4"), 4 + 8),
    "tighter": Scenario(
        2000, ("--latency", "0.2", "--rate", "200", "--change-at", "1000", "--then-rate", "50"), 25
    ),
    "wider": Scenario(
        2000, ("--latency", "0.2", "--rate", "50", "--change-at", "1000", "--then-rate", "200"), 25
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], default=[])
    parser.add_argument("--peers", help="an interpreter that has pydantic-evals")
    parser.add_argument("--one", nargs=2, metavar=("WHO", "SCENARIO"), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        who, name = given.one
        print(
            json.dumps(
                {"trivium": _trivium, "pydantic-evals": _pydantic_evals}[who](given.url, SCENARIOS[name])
            )
        )
        return
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"provider: {_capacity():,.0f} requests a second at most; {load}")
    print(
        f"{'scenario':16}{'who':16}{'wall':>8}{'/ideal':>8}{'CPU ms':>8}{'MB':>7}{'requests':>10}"
        f"{'errors':>8}{'lost':>6}{'load':>7}"
    )
    for name in given.scenarios or SCENARIOS:
        _measure("trivium", sys.executable, name)
        if given.peers:
            _measure("pydantic-evals", given.peers, name)


def _capacity() -> float:
    """Requests a second that the provider answers without any latency."""
    command = [sys.executable, "-m", "tests.judge_server"]
    with subprocess.Popen(
        command, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        port = urlsplit(json.loads(server.stdout.readline())["openai_url"]).port
        try:
            return asyncio.run(_answered_a_second(port or 0))
        finally:
            server.communicate("")


async def _answered_a_second(port: int, *, connections: int = 20, seconds: float = 2.0) -> float:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Is this clear? " * 40}]})
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: loopback\r\ncontent-length: {len(body)}"
    asked = f"{head}\r\n\r\n{body}".encode()
    until = time.perf_counter() + seconds

    async def ask() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answered = 0
        while time.perf_counter() < until:
            writer.write(asked)
            told = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(told.rpartition(b"content-length:")[2]))
            answered += 1
        writer.close()
        await writer.wait_closed()
        return answered

    return sum(await asyncio.gather(*(ask() for _ in range(connections)))) / seconds


def _measure(who: str, python: str, name: str) -> None:
    """One run against a server of its own, as a line of the table."""
    scenario = SCENARIOS[name]
    command = [sys.executable, "-m", "tests.judge_server", *scenario.server]
    with subprocess.Popen(
        command, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["openai_url"]
        try:
            run = subprocess.run(
                [python, __file__, "--one", who, name, "--url", url],
                cwd=HERE, capture_output=True, text=True, timeout=60 + 20 * scenario.ideal, check=False,
            )  # fmt: skip
            with urllib.request.urlopen(f"{url.removesuffix('/v1')}/stats") as told:
                stats = json.load(told)
        finally:
            server.communicate("")
    if run.returncode:
        print(f"{name:16}{who:16}  {(run.stderr.strip().splitlines() or ['failed'])[-1][:90]}")
        return
    found = json.loads(run.stdout.splitlines()[-1])
    print(
        f"{name:16}{who:16}{found['wall']:8.2f}{found['wall'] / scenario.ideal:8.2f}"
        f"{1000 * found['cpu'] / scenario.cases:8.2f}{found['mb']:7.0f}"
        f"{stats['requests']:10}{sum(found['errors'].values()):8}{found['lost']:6}{os.getloadavg()[0]:7.1f}",
        flush=True,
    )
    for why, count in found["errors"].items():
        print(f"{'':16}{count} × {why[:90]}")


def _taken(began: tuple[float, float], lost: int, errors: dict[str, int]) -> dict[str, Any]:
    wall, cpu = began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "mb": peak,
        "lost": lost,
        "errors": errors,
    }


def _trivium(url: str, scenario: Scenario) -> dict[str, Any]:
    os.environ |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-loopback"}
    sys.path.insert(0, str(HERE / "src"))
    import trivium as tv
    from trivium.metrics.judge.models.opening import open_model
    from trivium.store.store import Store
    from trivium.suites.suite import Suite

    open_model("openai:gpt-4o-mini")  # imports
    with tempfile.TemporaryDirectory() as folder:
        suite, outputs = Path(folder, "suite.json"), Path(folder, "outputs.jsonl")
        cases = [{"id": f"c{n}", "input": f"Review paper {n}."} for n in range(scenario.cases)]
        judge = {
            "models": "openai:gpt-4o-mini",
            "timeout": scenario.timeout,
            "concurrency": scenario.concurrency,
            "on_failure": "fail",
        }
        suite.write_text(json.dumps({"name": "s", "cases": cases, "metrics": ["clarity"], "judge": judge}))
        outputs.write_text(
            "\n".join(
                json.dumps(
                    {"case": f"c{n}", "output": f"The paper {n} is clear. " + "It says what it does. " * 20}
                )
                for n in range(scenario.cases)
            )
        )
        # What evaluating imports is imported now: a run without a judge, which asks nobody.
        tiny = Suite(cases=[tv.Case(id="1", input="x", references=("a b",))], name="tiny")
        tv.evaluate(tiny, agent=str, metrics=["jaccard"], store=str(Path(folder, "tiny.db")))
        with Store(str(Path(folder, "s.db"))) as store:
            began = time.perf_counter(), time.process_time()
            run = tv.evaluate(Suite.load(suite), outputs=outputs, store=store)
            taken = _taken(began, scenario.cases, {})
            scores = [evaluation.scores["clarity"] for evaluation in run.evaluations()]
            # Requests differ in how often they were tried, which is no other reason.
            errors = Counter(
                re.sub(r" \(\d+ requests\)", "", score.reason or "?")
                for score in scores
                if score.status == "error"
            )
            return taken | {"lost": scenario.cases - len(scores), "errors": errors}


def _pydantic_evals(url: str, scenario: Scenario) -> dict[str, Any]:
    os.environ |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-loopback"}
    from pydantic_evals import Case, Dataset
    from pydantic_evals.evaluators import LLMJudge

    judge = LLMJudge(rubric="The text is clear.", model="openai-chat:gpt-4o-mini")
    cases: list[Any] = [Case(name=f"c{n}", inputs=f"paper {n}") for n in range(scenario.cases)]
    dataset: Any = Dataset(name="s", cases=cases, evaluators=[judge])
    began = time.perf_counter(), time.process_time()

    async def task(text: str) -> str:
        return text

    report = dataset.evaluate_sync(task, max_concurrency=scenario.concurrency, progress=False)
    judged = sum(bool(case.assertions or case.scores) for case in report.cases)
    return _taken(began, scenario.cases - judged, {})


if __name__ == "__main__":
    main()
