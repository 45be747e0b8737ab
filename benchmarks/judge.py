"""Judges under good and bad conditions: wall time against the ideal, CPU, memory, requests, lost judgements.

    python -m benchmarks.judge                       # every scenario, Trivium
    python -m benchmarks.judge clean limited         # some scenarios
    python -m benchmarks.judge --cases 50            # with fewer judgements each
    python -m benchmarks.judge --peers A/bin/python --peers B/bin/python truncated --only ragas

``--peers`` also measures Inspect AI, DeepEval, pydantic-evals and Ragas, if the given interpreters have
them. Ragas 0.4 is incompatible with the OpenAI client that the others need, so two environments are needed:
one with ``inspect-ai``, ``deepeval``, ``pydantic-evals`` and ``pydantic-ai-slim[openai]``, another with
``ragas`` and ``langchain-community<0.4``. Each peer runs an LLM judge as its documentation shows (its file is
in ``benchmarks/judges``), with its own retries or ``--attempts`` attempts in all.

The provider is ``tests.judge_server`` in a separate process, whose CPU time does not count. Every run is a
separate process too: Trivium evaluates a suite with the store, the limiter, cached answers and all signals
on. All tools judge the same outputs and get answers of about the same length, each in the format it requests.
The clock starts after one judgement by another provider, so that imports are not timed, and stops after the
last judgement. CPU is that of the run and its children, MB its peak memory. The ideal is the time that the
provider needs for the same number of answers. A judgement that ends in an error is listed with its reason;
one without any outcome is lost. A run is stopped after five times the ideal and a minute.
First the benchmark measures the capacity of the provider, which must be well above the load of the scenarios,
and prints the machine's load: wall times mean little on a busy machine.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from benchmarks.sizes import sized

HERE = Path(__file__).resolve().parent.parent


class Scenario(NamedTuple):
    """The number of judgements, the server's options, and the time of an ideal client."""

    cases: int
    server: tuple[str, ...]
    ideal: float
    """Seconds for all of the judgements."""
    timeout: float = 10
    then: tuple[str, ...] = ()
    """Options that the server changes after half of the answers."""

    def provider(self, cases: int) -> tuple[str, ...]:
        """The server's options for as many judgements."""
        change = ("--change-at", str(cases // 2), *self.then) if self.then else ()
        return (*self.server, *change)


_FAULTY = ("--rate-limited", "0.1", "--server-error", "0.05")
_ALL = (*_FAULTY, "--malformed", "0.02", "--hang", "0.01")
_SLOW = ("--latency", "0.2")
SCENARIOS = {
    "clean": Scenario(2000, _SLOW, 8),
    "faulty": Scenario(2000, (*_SLOW, *_ALL), 8),
    "errors": Scenario(500, (*_SLOW, *_FAULTY), 2),
    "poison": Scenario(500, (*_SLOW, "--server-error", "0.02", "--by", "prompt"), 2),
    "truncated": Scenario(500, (*_SLOW, "--truncated", "0.05"), 2.1),
    "limited": Scenario(500, (*_SLOW, "--rate", "25"), 20),
    "limited-window": Scenario(500, (*_SLOW, "--rate", "25", "--limit", "window"), 20),
    "limited-retry-after": Scenario(500, (*_SLOW, "--rate", "25", "--rate-retry-after", "exact"), 20),
    "hanging": Scenario(500, (*_SLOW, "--hang", "0.01"), 2, timeout=3),
    "slower": Scenario(2000, _SLOW, 4 + 8, then=("--then-latency", "0.4")),
    "tighter": Scenario(2000, (*_SLOW, "--rate", "200"), 5 + 20, then=("--then-rate", "50")),
    "wider": Scenario(2000, (*_SLOW, "--rate", "50"), 20 + 5, then=("--then-rate", "200")),
}
CONCURRENCY = 50

_GROUNDS = "It says what it does and why, one step after the other, and leaves out what is of no use. " * 4


class Judge(NamedTuple):
    """A framework: its module, and the server options that give answers as long as Trivium's."""

    program: str
    answers: tuple[str, ...]


JUDGES = {
    "trivium": Judge("benchmarks.judges.with_trivium", ()),
    "pydantic-evals": Judge("benchmarks.judges.with_pydantic_evals", ("--words", "65")),
    "inspect-ai": Judge("benchmarks.judges.with_inspect_ai", ("--text", f"{_GROUNDS}\n\nGRADE: C")),
    "deepeval": Judge(
        "benchmarks.judges.with_deepeval", ("--text", json.dumps({"reason": _GROUNDS, "score": 8}))
    ),
    "ragas": Judge(
        "benchmarks.judges.with_ragas", ("--text", json.dumps({"reason": _GROUNDS, "verdict": 1}))
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], default=[])
    parser.add_argument("--peers", action="append", default=[], help="an interpreter that has some of them")
    parser.add_argument("--only", action="append", choices=JUDGES, help="whom to measure, of those there are")
    parser.add_argument("--cases", type=int, help="judgements of every scenario")
    parser.add_argument("--attempts", type=int, help="how often peers try a request, by their own settings")
    given = parser.parse_args()
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    with _provider() as url:
        capacity = asyncio.run(_answered_a_second(urlsplit(url).port or 0))
    print(f"provider: {capacity:,.0f} requests a second at most; {load}")
    pythons = {"trivium": sys.executable}
    for python in given.peers:
        for who, version in _installed(python).items():
            print(f"{who} {version}")
            pythons[who] = python
    print(
        f"{'scenario':16}{'who':16}{'asked':>6}{'judged':>8}{'wall':>8}{'/ideal':>8}{'CPU ms':>8}{'MB':>6}"
        f"{'requests':>10}{'errors':>8}{'lost':>6}{'load':>6}"
    )
    more = [] if given.attempts is None else ["--attempts", str(given.attempts)]
    for name in given.scenarios or SCENARIOS:
        for who, python in pythons.items():
            if not given.only or who in given.only:
                _measure(name, given.cases, who, python, more)


def _installed(python: str) -> dict[str, str]:
    """The peers installed for an interpreter, with their versions."""
    code = (
        "import importlib.metadata, json\n"
        "print(json.dumps([[each.name, each.version] for each in importlib.metadata.distributions()]))"
    )
    told = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    versions = {name.lower().replace("_", "-"): version for name, version in json.loads(told)}
    return {who: versions[who] for who in JUDGES if who in versions and who != "trivium"}


@contextmanager
def _provider(*options: str) -> Iterator[str]:
    """Run a provider in a separate process and yield its URL."""
    command = [sys.executable, "-m", "tests.judge_server", *options]
    with subprocess.Popen(
        command, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())["openai_url"]
        finally:
            server.communicate("")


async def _answered_a_second(port: int, *, connections: int = 20, seconds: float = sized(1.0, 0.1)) -> float:
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


def _measure(name: str, cases: int | None, who: str, python: str, more: list[str]) -> None:
    """Make one run against its own server and print a line of the table."""
    scenario, judge = SCENARIOS[name], JUDGES[who]
    cases = cases or scenario.cases
    ideal = max(0.2, scenario.ideal * cases / scenario.cases)
    with _provider(*scenario.provider(cases), *judge.answers) as url, _provider(*judge.answers) as calm:
        command = [python, "-m", judge.program, url, calm, *more]
        for option, value in (("cases", cases), ("concurrency", CONCURRENCY), ("timeout", scenario.timeout)):
            command += [f"--{option}", str(value)]
        found, why = outcome_of(command, limit=60 + 5 * ideal)
        with urllib.request.urlopen(f"{url.removesuffix('/v1')}/stats") as told:
            requests = json.load(told).get("requests", 0)
    line = f"{name:16}{who:16}{cases:6}"
    if found is None:
        print(f"{line}{'–':>8}{'–':>8}{'–':>8}{'–':>8}{'–':>6}{requests:10}  {why}", flush=True)
        return
    errors, lost = found["errors"], found["lost"]
    judged = cases - sum(errors.values()) - lost
    print(
        f"{line}{judged:8}{found['wall']:8.2f}{found['wall'] / ideal:8.2f}{1000 * found['cpu'] / cases:8.2f}"
        f"{found['mb']:6.0f}{requests:10}{sum(errors.values()):8}{lost:6}{os.getloadavg()[0]:6.1f}",
        flush=True,
    )
    for error, count in errors.items():
        print(f"{'':16}{count} × {error[:90]}")


def outcome_of(command: list[str], *, limit: float) -> tuple[dict[str, Any] | None, str]:
    """The report of a run, or None and why there is none."""
    env = {**os.environ, "PYTHONPATH": str(HERE / "src")}
    try:
        run = subprocess.run(
            command, cwd=HERE, env=env, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return None, f"had not ended after {limit:.0f} s"
    if run.returncode:
        return None, (run.stderr.strip().splitlines() or ["failed"])[-1][:90]
    return json.loads(run.stdout.splitlines()[-1]), ""


if __name__ == "__main__":
    main()
