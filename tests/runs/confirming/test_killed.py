"""Confirming goes on after a kill: nothing stored is asked again, and the calls are those of one go."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter

import pytest

import trivium as tv
from tests.runs.suites import told_suite
from trivium.cli.main import run_command
from trivium.runs.comparing.earlier_runs import confirming_runs
from trivium.store.store import Store

CALLS = 40

AGENTS = """
import asyncio, os, random


async def asked(who, question, repeat):
    line = f"{who} {question} {repeat}\\n".encode()
    with open("calls.log", "ab", buffering=0) as log:
        log.write(line)
    if watcher := os.environ.get("WATCHER"):
        os.write(int(watcher), line)
    await asyncio.sleep(random.uniform(0.0, 0.02))  # an agent takes its time
    return "0" if who == "after" and question in {"q1", "q2"} else "1"


async def before(question, *, repeat):
    return await asked("before", question, repeat)


async def after(question, *, repeat):
    return await asked("after", question, repeat)
"""


class Folder:
    """A folder with two runs, in which `trivium confirm` is started."""

    def __init__(self, path):
        self.path = path
        (path / "agents.py").write_text(AGENTS)
        with self.store() as store:
            self.ids = [
                tv.evaluate(told_suite(30), agent=f"agents.py:{name}", store=store).id
                for name in ("before", "after")
            ]
        self.log.unlink()

    @property
    def log(self):
        return self.path / "calls.log"

    def store(self):
        return Store(str(self.path / "store.db"))

    def asked(self):
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return Counter(tuple(line.split()) for line in lines)

    def stored(self):
        with self.store() as store:
            found = confirming_runs(store, *map(store.run, self.ids), finished=False)
            return [
                (who, f"q{position}", str(repeat))
                for who, runs in zip(("before", "after"), found, strict=True)
                for run in runs
                for position, repeat in store.attempt_keys(run)
            ]

    @property
    def words(self):
        options = ["--store", "store.db", "--policy", "proof", "--margin", "0.001", "--quiet"]
        agents = ["--agent", "agents.py:after", "--base-agent", "agents.py:before"]
        return ["confirm", *self.ids, "--calls", str(CALLS), *options, *agents]

    def confirm(self):
        """Confirm to the end; return the exit code."""
        return run_command(self.words)

    def ended(self, *, after, by=signal.SIGKILL):
        """End a process that confirms after so many calls; return its exit code and standard error."""
        read, write = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-m", "trivium", *self.words],
            cwd=self.path,
            pass_fds=[write],
            env=os.environ | {"WATCHER": str(write)},
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(write)
        with os.fdopen(read, "rb") as lines:
            for _ in range(after):
                lines.readline()
            process.send_signal(by)
            _, said = process.communicate()
            return process.returncode, said


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    return Folder(tmp_path)


@pytest.mark.parametrize("calls", [(1, 8), (4, 11, 15)])
def test_a_killed_confirmation_is_finished_without_paying_twice(folder, calls):
    for after in calls:
        stored, before = set(folder.stored()), folder.asked()
        assert folder.ended(after=after)[0] == -signal.SIGKILL
        assert not set(folder.asked() - before) & stored, "what was stored was asked again"
    stored, before = set(folder.stored()), folder.asked()
    assert folder.confirm() in {0, 1, 4}

    asked = folder.asked() - before
    assert asked
    assert not set(asked) & stored
    assert len(folder.stored()) == len(set(folder.stored())) == CALLS
    with folder.store() as store:
        runs = confirming_runs(store, *map(store.run, folder.ids))
        assert {run.state for side in runs for run in side} == {"done"}
        assert len({run.provenance.confirms.budget for side in runs for run in side}) == 1
        for run in (run for side in runs for run in side):
            assert run.summary["attempts"] == sum(1 for _ in store.attempt_keys(run, scored_only=True))


def test_a_finished_side_is_kept_and_its_calls_count_if_the_other_one_is_not_finished(folder):
    folder.confirm()
    with folder.store() as store:
        of_head = confirming_runs(store, *map(store.run, folder.ids)).head[-1]
        store.finish(of_head, "interrupted", summary=None)  # killed between the ends of both sides
    before = folder.asked()
    folder.confirm()

    assert folder.asked() == before
    with folder.store() as store:
        assert len(confirming_runs(store, *map(store.run, folder.ids)).head) == 1


def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(folder):
    code, said = folder.ended(after=3, by=signal.SIGINT)
    kept = len(folder.stored())

    assert code == 130
    shown = re.search(
        rf"Interrupted: (\d+) of {CALLS} calls are stored\. To go on, with the same options:", said
    )
    assert f"trivium confirm {' '.join(folder.ids)} --calls {CALLS}" in said
    assert int(shown[1]) <= kept < CALLS
    folder.confirm()
    assert len(folder.stored()) == CALLS
