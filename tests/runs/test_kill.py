"""Tests that a killed run loses at most the attempts in flight, and that resuming repeats only those."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from trivium.store.store import Store

CASES, REPEATS, AT_ONCE = 30, 2, 8


class _Round:
    """One process that works on the run until it is killed or done."""

    def __init__(self, folder: Path, *, resume: str | None) -> None:
        read, write = os.pipe()
        environment = os.environ | {"AGENT_LOG": str(folder / "calls.log"), "AGENT_WATCHER": str(write)}
        command = [
            *(sys.executable, "-m", "trivium", "run", str(folder / "suite.json")),
            *("--agent", "tests.runs.logging_agent:answer", "--store", str(folder / "store.db")),
            *("--at-once", str(AT_ONCE), "--quiet"),
        ]
        self.process = subprocess.Popen(
            command + (["--resume", resume] if resume else []), pass_fds=[write], env=environment
        )
        os.close(write)
        self._read = os.fdopen(read, "rb")

    def kill_after(self, lines: int) -> None:
        for _ in range(lines):
            if not self._read.readline():
                break
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._read.close()

    def finish(self) -> int:
        while self._read.readline():
            pass
        self._read.close()
        return self.process.wait()


def _calls(folder: Path, what: str) -> Counter[tuple[str, int]]:
    log = folder / "calls.log"
    lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    return Counter((case, int(repeat)) for kind, case, repeat in lines if kind == what)


def _stored(folder: Path) -> set[tuple[str, int]]:
    if not (folder / "store.db").exists():
        return set()
    with Store(str(folder / "store.db"), create=False) as store:
        runs = store.runs()
        return (
            {(f"q{position}", repeat) for position, repeat in store.attempt_keys(runs[0])} if runs else set()
        )


def test_a_killed_run_is_finished_without_asking_or_scoring_twice(tmp_path):
    cases = [{"id": f"q{i}", "input": f"q{i}", "references": [f"answer {i}"]} for i in range(CASES)]
    suite = {"name": "kill", "repeats": REPEATS, "metrics": ["jaccard"], "cases": cases}
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    run_id: str | None = None
    for calls in (3, 10, 24):
        before, begun_before = _stored(tmp_path), _calls(tmp_path, "begin")
        _Round(tmp_path, resume=run_id).kill_after(calls)
        begun = _calls(tmp_path, "begin") - begun_before
        assert not set(begun) & before, "what was stored was asked again"
        lost = set(_calls(tmp_path, "end")) - _stored(tmp_path)
        assert len(lost) <= 3 * AT_ONCE, "more was lost than was in flight"
        if (tmp_path / "store.db").exists():
            with Store(str(tmp_path / "store.db"), create=False) as store:
                run_id = store.runs()[0].id if store.runs() else None
    before, begun_before = _stored(tmp_path), _calls(tmp_path, "begin")
    assert _Round(tmp_path, resume=run_id).finish() == 0
    begun = _calls(tmp_path, "begin") - begun_before
    everything = {(f"q{i}", repeat) for i in range(CASES) for repeat in range(REPEATS)}
    assert set(begun) == everything - before, "the last go asks exactly what was not there"
    assert set(begun.values()) <= {1}
    with Store(str(tmp_path / "store.db"), create=False) as store:
        run = store.run()
        stored = [(one.attempt.case, one.attempt.repeat) for one in store.attempts(run)]
        scored = [(one.evaluation.case, one.evaluation.repeat) for one in store.evaluations(run)]
        assert Counter(stored) == Counter(scored) == Counter(everything)
        assert run.state == "done"
        assert run.summary["attempts"] == CASES * REPEATS
