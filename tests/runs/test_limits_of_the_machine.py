"""Tests that a full disk or a lack of file handles counts as neither an agent's nor a gate's failure."""

import asyncio
import errno
import gc
import json
import resource
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpx
import pytest

import trivium as tv
from tests.agents.asked import asked
from tests.runs.suites import told_suite
from trivium.agents.attempt import AgentFailure, AgentResponse, ResourcesExhausted
from trivium.agents.invoke import TooManyCalls, invoke
from trivium.agents.loading import load_agent
from trivium.cli.main import run_command
from trivium.errors import AgentError
from trivium.suites.case import Case
from trivium.suites.settings import Limits

CASES = 40


def _write_suite(folder: Path) -> None:
    cases = [{"id": f"c{i}", "input": f"question {i}", "references": [f"question {i}"]} for i in range(CASES)]
    success = {"metric": "jaccard", "at_least": 0.8}
    suite = {
        "name": "limits",
        "metrics": ["jaccard", "success"],
        "success": success,
        "repeats": 2,
        "cases": cases,
    }
    (folder / "suite.json").write_text(json.dumps(suite))


def _trivium(folder: Path, *arguments: str, limits: str = "true") -> subprocess.CompletedProcess[str]:
    shell = f'{limits} && exec "$0" "$@"'
    command = ["sh", "-c", shell, sys.executable, "-m", "trivium", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.fixture
def here(tmp_path, monkeypatch):
    _write_suite(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("table", ["attempts", "evaluations"])
def test_a_full_disk_is_reported_by_every_stage_and_the_run_can_be_resumed(here, capsys, monkeypatch, table):
    command = ["run", "suite.json", "--agent", "cmd:cat", "--store", "s.db"]
    monkeypatch.setattr(sys, "argv", ["trivium", *command])  # of which the line to resume is made
    assert run_command([*command, "--sample", "1"]) == 0
    # SQLite's own words for a full disk, at the thirtieth row.
    with closing(sqlite3.connect("s.db")) as database, database:
        database.execute(
            f"CREATE TRIGGER full BEFORE INSERT ON {table} WHEN (SELECT count(*) FROM {table}) >= 30 "
            "BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END"
        )
    capsys.readouterr()
    assert run_command(command) == 2
    stopped = capsys.readouterr().err
    assert "Error: sqlite:///s.db: the disk is full. What was stored is safe" in stopped
    assert "Traceback" not in stopped
    (again,) = [line for line in stopped.splitlines() if "--resume" in line]

    with closing(sqlite3.connect("s.db")) as database, database:
        database.execute("DROP TRIGGER full")
    assert run_command([*again.split()[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["passed"] == 2 * CASES


def test_a_permanently_full_disk_is_reported(tmp_path):
    _write_suite(tmp_path)
    command = ["run", "suite.json", "--agent", "cmd:cat", "--store", "s.db"]
    stopped = _trivium(tmp_path, *command, limits="trap '' XFSZ; ulimit -f 200")
    assert stopped.returncode == 2
    assert "the disk cannot be read or written" in stopped.stderr or "the disk is full" in stopped.stderr
    assert "Traceback" not in stopped.stderr


def test_a_run_whose_temporary_folder_fails_says_so_and_can_be_resumed(here, capsys, monkeypatch):
    monkeypatch.setattr("trivium.number_buffer.BLOCK", 16)
    command = ["run", "suite.json", "--agent", "cmd:cat", "--store", "s.db", "--at-once", "1"]
    monkeypatch.setattr(sys, "argv", ["trivium", *command])  # of which the line to resume is made
    with monkeypatch.context() as full:
        full.setattr("tempfile.tempdir", str(here / "missing"))
        assert run_command(command) == 2
    stopped = capsys.readouterr().err
    assert "missing: no temporary file can be kept here (No such file or directory)" in stopped
    assert "Traceback" not in stopped
    (again,) = [line for line in stopped.splitlines() if "--resume" in line]
    assert run_command([*again.split()[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["passed"] == 2 * CASES


def test_a_process_without_file_handles_asks_fewer_at_once_and_fails_no_attempt(tmp_path):
    _write_suite(tmp_path)
    command = ["run", "suite.json", "--agent", "cmd:cat", "--at-once", "40", "--store", "s.db", "--json"]
    done = _trivium(tmp_path, *command, limits="ulimit -n 64")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["attempts"], summary["passed"], summary["failures"]) == (2 * CASES, 2 * CASES, [])
    assert done.stderr.count("Too many open files; fewer attempts are in flight from now on") == 1


def test_a_command_is_not_started_with_the_last_file_handles(monkeypatch):
    gc.collect()  # closes what earlier tests left open
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = min(soft, 256)
    monkeypatch.setattr("trivium.agents.adapters.command._RESERVED_HANDLES", few - 3)
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    try:
        attempt = asked("cmd:cat", retries=0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert attempt.error is not None
    assert "the command cannot be started: Too many open files" in attempt.error


def test_a_store_that_is_deleted_meanwhile_is_reported_as_lost(here, capsys):
    (here / "deleting.py").write_text(
        "from pathlib import Path\n"
        "def ask(question):\n"
        "    if question == 'question 20':\n"
        "        Path('s.db').unlink(missing_ok=True)\n"
        "    return question\n"
    )
    command = ["run", "suite.json", "--agent", "deleting.py:ask", "--at-once", "1", "--store", "s.db"]
    assert run_command(command) == 2
    lost = capsys.readouterr().err
    assert "s.db: the file was deleted or replaced while it was being written: what was in it is lost" in lost
    assert "kept" not in lost
    assert "--resume" not in lost


def test_where_there_are_no_process_groups_a_command_is_refused(monkeypatch):
    monkeypatch.setattr("trivium.agents.adapters.command.HAS_GROUPS", False)
    with pytest.raises(AgentError, match="commands as agents need a POSIX system"):
        load_agent("cmd:cat")


def _no_handles() -> OSError:
    return OSError(errno.EMFILE, "Too many open files")


def _in_a_chain() -> Exception:
    try:
        raise httpx.ConnectError("All connection attempts failed") from _no_handles()
    except httpx.ConnectError as error:
        return error


@pytest.mark.parametrize(
    "error", [_no_handles(), _in_a_chain(), OSError(errno.ENFILE, "file table overflow")]
)
def test_lacking_file_handles_is_no_failure_of_the_agent_while_others_are_in_flight(error):
    def agent(_question):
        raise error

    async def one(*, alone: bool):
        adapter = load_agent(agent)
        try:
            limits = Limits(retries=0)
            return await invoke(adapter, Case(id="c", input="?"), 0, limits, seed=1, alone=lambda: alone)
        finally:
            await adapter.close()

    with pytest.raises(TooManyCalls):
        asyncio.run(one(alone=False))
    assert asyncio.run(one(alone=True)).failed


def test_alone_it_is_tried_again_and_then_the_attempt_says_why():
    attempt = asked(lambda _: (_ for _ in ()).throw(_no_handles()), retries=1)
    assert attempt.error == "OSError: [Errno 24] Too many open files (tried 2 times)"


def test_other_errors_of_the_system_are_the_agents():
    attempt = asked(lambda _: (_ for _ in ()).throw(socket.gaierror(socket.EAI_NONAME, "no such host")))
    assert attempt.error is not None
    assert "tried" not in attempt.error
    assert asked(lambda _: (_ for _ in ()).throw(AgentFailure("no"))).error == "no"


class CrowdedAtTheEnd:
    """An agent for which the machine has no room at the last attempt, twice, while no other is in flight."""

    name = "crowded"

    def __init__(self, cases):
        self.others, self.refused, self.last = cases - 1, 0, asyncio.Event()

    async def call(self, request):
        if request.case.id != "q0":
            self.others -= 1
            if not self.others:
                self.last.set()
            return AgentResponse(output="1")
        await self.last.wait()
        for _ in range(100):  # until whatever waits for the others has gone on
            await asyncio.sleep(0)
        if self.refused < 2:
            self.refused += 1
            raise ResourcesExhausted("no process is left")
        return AgentResponse(output="1")

    async def close(self):
        pass


def test_the_last_attempt_is_made_again_when_there_is_room(tmp_path):
    agent = CrowdedAtTheEnd(6)
    run = tv.evaluate(told_suite(6, limits=Limits(retries=0)), agent=agent, store=tmp_path / "store.db")
    assert agent.refused == 2
    assert [attempt.error for attempt in run.attempts()] == [None] * 6
