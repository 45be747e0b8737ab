"""Tests that an interrupted judged run ends at once, stores its results and can be resumed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import trivium as tv
from tests.judge_server import JudgeServer
from tests.judge_server.faults import ANSWER, HANG
from tests.runs.judging.suites import MODEL, provider, review, run, suite
from trivium.runs import pipeline
from trivium.store.judge_cache import cache_size
from trivium.store.store import Store

CASES = 12


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


def recorded(folder, count):
    path = folder / "outputs.jsonl"
    path.write_text(
        "".join(json.dumps({"case": f"c{i}", "output": review(f"{i}")}) + "\n" for i in range(count))
    )
    return str(path)


async def until(condition) -> None:
    """The server lives on another thread."""
    async with asyncio.timeout(300):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def cut_short(judged, store, condition, **whose) -> str:
    """A run that is cancelled once a condition holds; its id."""

    async def go() -> None:
        going = asyncio.create_task(tv.evaluate_async(judged, store=store, **whose))
        await until(condition)
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going

    asyncio.run(go())
    record = store.run()
    assert record.state == "interrupted"
    return record.id


@pytest.mark.parametrize("asked", [True, False], ids=["asked", "recorded"])
def test_cancelling_waits_for_no_judge(tmp_path, monkeypatch, store, asked):
    whose = {"agent": review} if asked else {"outputs": recorded(tmp_path, CASES)}
    judged = suite(CASES, timeout=600, concurrency=CASES)
    with provider(monkeypatch, plan=lambda _: HANG) as server:
        cut = cut_short(judged, store, lambda: server.in_flight == CASES, **whose)
    record = store.run(cut)
    assert not list(store.evaluations(record)), "a judgement was made up for one that did not come"
    assert len(list(store.attempt_keys(record))) == (CASES if asked else 0)
    with provider(monkeypatch) as server:
        done = tv.evaluate(judged, store=store, resume=cut, **whose)
    assert server.counts["answered"] == CASES
    assert done.summary().metrics["clarity"].status == {"ok": CASES}


@pytest.mark.parametrize("asked", [True, False], ids=["asked", "recorded"])
def test_a_process_that_is_about_to_end_waits_for_no_judge(tmp_path, monkeypatch, store, asked):
    """After a second Ctrl-C the interpreter begins no thread any more, and waits for those that there are."""
    whose = {"agent": review} if asked else {"outputs": recorded(tmp_path, CASES)}
    judged = suite(CASES, timeout=60, concurrency=CASES)
    before = set(threading.enumerate())
    with provider(monkeypatch, plan=lambda _: HANG) as server, monkeypatch.context() as ending:

        async def go() -> None:
            going = asyncio.create_task(tv.evaluate_async(judged, store=store, **whose))
            await until(lambda: server.in_flight == CASES)
            ending.setattr("concurrent.futures.thread._shutdown", True)
            going.cancel()
            await asyncio.wait([going])
            assert going.cancelled() or isinstance(going.exception(), RuntimeError)

        asyncio.run(go())
    judges = [each for each in set(threading.enumerate()) - before if each.name == "trivium-judges"]
    for thread in judges:
        thread.join(timeout=30)
    assert not any(thread.is_alive() for thread in judges)


@pytest.mark.parametrize("cache_mb", [500, 0], ids=["bound", "none-is-kept-that-nobody-needs"])
def test_answers_that_had_come_are_not_paid_again(monkeypatch, store, cache_mb):
    half = [f"Review paper {i}." for i in range(CASES // 2)]
    judged = suite(CASES, timeout=600, concurrency=CASES, cache=False, cache_mb=cache_mb)

    def plan(question):
        return ANSWER if any(each in question.prompt for each in half) else HANG

    with provider(monkeypatch, plan=plan):
        cut = cut_short(judged, store, lambda: cache_size(store).answers == CASES // 2, agent=review)
    asked = set()  # of a request that is answered late a second one is sent
    with provider(monkeypatch, plan=lambda question: asked.add(question.prompt) or ANSWER):
        done = run(judged, store, resume=cut)
    paid_again = [prompt for prompt in asked if any(each in prompt for each in half)]
    assert not paid_again
    assert len(asked) == CASES // 2, sorted(asked)
    assert done.summary().metrics["clarity"].status == {"ok": CASES}
    assert cache_size(store).answers == (CASES if cache_mb else 0)


@pytest.mark.parametrize("presses", [1, 2], ids=["once", "twice"])
def test_ctrl_c_while_judging_ends_with_130_and_the_line_to_resume(tmp_path, presses):
    (tmp_path / "suite.json").write_text(
        json.dumps(
            {
                "cases": [{"id": f"c{i}", "input": f"paper {i}", "references": ["x"]} for i in range(CASES)],
                "metrics": ["similarity", "clarity"],
                "similarity": {"jaccard": 1},
                "judge": {"models": [MODEL], "timeout": 600, "concurrency": CASES},
            }
        )
    )
    pressed = []

    def plan(question):
        if question.number + 1 == CASES:
            for _ in range(presses):
                process.send_signal(signal.SIGINT)
                pressed.append(question.number)
        return HANG

    with JudgeServer(plan=plan) as server:
        environment = os.environ | {"OPENAI_BASE_URL": server.openai_url, "OPENAI_API_KEY": "sk-test"}
        command = [sys.executable, "-m", "trivium", "run", "suite.json", "--agent"]
        command += ["tests.runs.judging.suites:review", "--store", "store.db"]
        environment["PYTHONPATH"] = os.pathsep.join([str(Path.cwd()), environment.get("PYTHONPATH", "")])
        process = subprocess.Popen(
            command, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True, stdout=subprocess.PIPE
        )
        _, err = process.communicate()
    assert len(pressed) == presses
    assert process.returncode in ({130} if presses == 1 else {130, -signal.SIGINT})
    assert "0 attempts are stored with their scores" in err
    assert "Traceback" not in err
    assert "trivium run suite.json" in err
    assert "--resume" in err


def test_the_next_batches_are_judged_while_one_is_waited_for(tmp_path, monkeypatch, store):
    monkeypatch.setattr(pipeline, "MAX_BATCH_ATTEMPTS", 4)
    judged, whose = suite(16, timeout=600), {"outputs": recorded(tmp_path, 16)}
    with provider(monkeypatch, plan=lambda _: HANG) as server:
        cut = cut_short(judged, store, lambda: server.in_flight > 4, **whose)
    with provider(monkeypatch):
        done = tv.evaluate(judged, store=store, resume=cut, **whose)
    assert done.summary().metrics["clarity"].status == {"ok": 16}


def test_what_is_stored_and_not_scored_is_not_counted_as_done(monkeypatch, store):
    judged = suite(CASES, timeout=600, concurrency=CASES)
    warnings = []

    class Watch:
        def begin(self, *, run, total, already):
            warnings.append((total, already))

        def advance(self, *, done, failed):
            warnings.append(done)

        def end(self):
            pass

    with provider(monkeypatch, plan=lambda _: HANG) as server:
        cut = cut_short(judged, store, lambda: server.in_flight == CASES, agent=review)
    with provider(monkeypatch):
        run(judged, store, resume=cut, progress=Watch())
    assert warnings[0] == (CASES, 0)
    assert sum(warnings[1:]) == CASES
