"""A run that is killed while it judges goes on without paying twice, and within its budget.

``BUDGET_RUNS=100 python -m pytest tests/runs/judging/test_kill.py -k budget`` tries a hundred bad days.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.judge_server import HANG, JudgeServer, Question, Reaction, faults
from tests.runs.judging.suites import MODEL, PRICES, billed, provider, review, run, suite
from trivium.cli.main import run_command
from trivium.metrics.judge.budget.ledger import Spending
from trivium.runs.run import Run
from trivium.store.judge_cache import cache_size
from trivium.store.judge_ledger import entries_of
from trivium.store.store import Store

CASES, AT_ONCE = 60, 4
LOST = AT_ONCE + 2 * AT_ONCE
"""Answers that a kill may cost: what is in flight, and what a slow disk has not kept yet."""

BUDGET_USD = 0.01
RUNS = int(os.environ.get("BUDGET_RUNS", "2"))


class _Killer:
    """A plan of the server's that kills the process it serves when so many requests have come."""

    def __init__(self, plan) -> None:
        self.plan = plan
        self.process: subprocess.Popen | None = None
        self.left: int | None = None

    def __call__(self, question: Question) -> Reaction:
        if self.left is not None and self.process is not None:
            self.left -= 1
            if self.left == 0:
                self.process.send_signal(signal.SIGKILL)
        return self.plan(question)


def _suite(folder: Path, *, cases: int, **judge) -> None:
    outputs = [{"case": f"c{i}", "output": review(f"paper {i}")} for i in range(cases)]
    (folder / "outputs.jsonl").write_text("\n".join(map(json.dumps, outputs)))
    (folder / "suite.json").write_text(
        json.dumps(
            {
                "name": "kill",
                "cases": [
                    {"id": f"c{i}", "input": f"paper {i}", "references": ["sound"]} for i in range(cases)
                ],
                "metrics": ["similarity", "clarity"],
                "similarity": {"cosine": 1},
                "judge": {"models": [MODEL], "prices": PRICES, "concurrency": AT_ONCE} | judge,
            }
        )
    )


def _environment(server: JudgeServer) -> dict[str, str]:
    return {"OPENAI_BASE_URL": server.openai_url, "OPENAI_API_KEY": "sk-test"}


def _words(folder: Path, *, resume: str | None, workers: int | None = None) -> list[str]:
    """The command."""
    words = ["run" if workers is None else "score"]
    words += [str(folder / "suite.json"), "--quiet", "--store", str(folder / "store.db")]
    if workers is None:
        words += ["--agent", "tests.runs.judging.suites:review"]
    else:
        words += ["--outputs", str(folder / "outputs.jsonl"), "--workers", str(workers)]
    return words + (["--resume", resume] if resume else [])


def _start(
    folder: Path,
    server: JudgeServer,
    killer: _Killer,
    *,
    after: int | None,
    resume: str | None,
    workers: int | None = None,
) -> None:
    """A process with the command, until it is killed, or done before."""
    killer.left = after
    killer.process = subprocess.Popen(
        [sys.executable, "-m", "trivium", *_words(folder, resume=resume, workers=workers)],
        env=os.environ | _environment(server),
        stderr=subprocess.DEVNULL,
    )
    killer.process.wait()
    killer.process = None


def _finish(folder: Path, server: JudgeServer, *, resume: str | None, workers: int | None = None) -> int:
    """The command in this process; its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _environment(server).items():
            patch.setenv(name, value)
        return run_command(_words(folder, resume=resume, workers=workers))


def _state(folder: Path) -> tuple[str | None, int]:
    """The run so far, and how many answers are kept."""
    if not (folder / "store.db").exists():
        return None, 0
    with Store(str(folder / "store.db"), create=False) as store:
        runs = store.runs()
        return (runs[0].id if runs else None), cache_size(store).answers


@pytest.mark.cpu(12, "a run is killed and resumed several times")
@pytest.mark.parametrize(("seed", "workers"), [(1, None), (2, 2)])
def test_no_answer_that_had_arrived_is_paid_for_twice(tmp_path, seed, workers):
    rng = random.Random(seed)
    _suite(tmp_path, cases=CASES, cache=bool(seed % 2))
    killer = _Killer(lambda _: Reaction())
    lost, resume = 0, None
    with JudgeServer(latency=0.005, plan=killer) as server:
        for _ in range(2 if workers is None else 1):
            answered, stored = server.counts["answered"], _state(tmp_path)[1]
            after = rng.randrange(14, 20)
            _start(tmp_path, server, killer, after=after, resume=resume, workers=workers)
            resume, now_kept = _state(tmp_path)
            gone = server.counts["answered"] - answered - (now_kept - stored)
            assert 0 <= gone <= LOST, "more was lost than was on its way"
            lost += gone
        assert _finish(tmp_path, server, resume=resume, workers=workers) in {0, 3}
        prompts = Counter(question.prompt for question in server.requests)
    assert len(prompts) == CASES
    assert server.counts["answered"] <= CASES + lost
    with Store(str(tmp_path / "store.db"), create=False) as store:
        record = store.run()
        scored = Counter(one.evaluation.case for one in store.evaluations(record))
        assert scored == Counter(f"c{i}" for i in range(CASES))
        summary = Run(store, record).summary()
        assert summary.metrics["clarity"].status == {"ok": CASES}
        # A judgement that was stored needs its answer no more, should that have been lost.
        assert CASES - lost <= cache_size(store).answers <= CASES
    # What was noted is of the whole run: all that is kept was paid for, and nothing twice.
    assert CASES - lost <= summary.spent.answered <= server.counts["answered"]
    assert summary.spent.answered >= CASES - 2 * LOST


def test_requests_in_flight_at_a_kill_are_in_the_ledger_without_a_budget_too(tmp_path):
    """The provider holds its answers back; the process is killed when it and the ledger have the requests."""
    _suite(tmp_path, cases=CASES)
    noted = []
    killer = _Killer(lambda _: HANG)
    with JudgeServer(plan=killer) as server:

        def wait_and_kill() -> None:
            while server.counts["requests"] < AT_ONCE or _spent(tmp_path).requests < AT_ONCE:
                threading.Event().wait(0.01)
            noted.append(_spent(tmp_path))
            killer.process.send_signal(signal.SIGKILL)

        thread = threading.Thread(target=wait_and_kill)
        thread.start()
        _start(tmp_path, server, killer, after=None, resume=None)
        thread.join()
        assert server.counts["requests"] == AT_ONCE
    (spent,) = noted
    assert (spent.requests, spent.answered, spent.unknown) == (AT_ONCE, 0, AT_ONCE)
    assert spent.unknown_usd > 0
    with JudgeServer() as server:
        _finish(tmp_path, server, resume=_state(tmp_path)[0])
    spent = _spent(tmp_path)
    assert (spent.requests, spent.answered, spent.unknown) == (CASES + AT_ONCE, CASES, AT_ONCE)


def _spent(folder: Path):
    with Store(str(folder / "store.db"), create=False) as store:
        entries = entries_of(store, store.runs()[0])
    return sum(entries.values(), Spending())


def _bad_day(seed: int):
    return faults(
        rate_limited=0.08,
        server_error=0.08,
        malformed=0.1,
        truncated=0.05,
        hang=0.01,
        reset=0.05,
        cut=0.05,
        garbled=0.01,
        seed=seed,
    )


def _check_the_budget(folder: Path, usd: float) -> None:
    """What the provider would bill, what the run says it spent at least and at most, and the budget."""
    with Store(str(folder / "store.db"), create=False) as store:
        summary = Run(store, store.run()).summary()
    assert summary.attempts == 60
    status = summary.metrics["clarity"].status
    assert status.get("ok", 0) + status["fallback"] == 60
    spent = summary.spent
    assert 0 < usd <= BUDGET_USD
    assert spent.cost_usd - 1e-12 <= usd <= spent.cost_usd + spent.unknown_usd + 1e-12
    assert spent.cost_usd + spent.unknown_usd <= BUDGET_USD + 1e-12


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_budget_of_a_cent_is_never_passed_on_a_bad_day(tmp_path, monkeypatch, seed):
    settings = {
        "budget_usd": BUDGET_USD,
        "timeout": 0.5,
        "samples": 1 + seed % 2,
        "concurrency": 2 + seed % 20,
    }
    with provider(monkeypatch, plan=_bad_day(seed)) as server, Store(str(tmp_path / "store.db")) as store:
        run(suite(60, **settings), store)
        usd, _ = billed(server)
    _check_the_budget(tmp_path, usd)


@pytest.mark.parametrize("seed", range(max(1, RUNS // 5)))
def test_a_budget_of_a_cent_is_never_passed_by_a_run_that_is_killed_on_a_bad_day(tmp_path, seed):
    rng = random.Random(seed)
    _suite(tmp_path, cases=60, budget_usd=BUDGET_USD, timeout=0.5, samples=rng.choice([1, 2]))
    killer = _Killer(_bad_day(seed))
    resume = None
    with JudgeServer(latency=0.002, plan=killer) as server:
        for _ in range(rng.randrange(1, 3)):
            _start(tmp_path, server, killer, after=rng.randrange(1, 25), resume=resume)
            resume, _ = _state(tmp_path)
        _finish(tmp_path, server, resume=resume)
        usd, _ = billed(server)
    _check_the_budget(tmp_path, usd)
