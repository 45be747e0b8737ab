"""What only POSIX has is used in one module, and the core works without it, as on Windows.

A process that lacks these modules and functions, and whose output has a Windows code page, stands for
Windows here. Windows itself (its paths, its locks on open files, its console) is not tried.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.test_structure import BEHIND_AN_EXTRA, FILES, SOURCE, _modules

MODULES = {
    *("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "readline", "syslog", "posix", "curses"),
}
FUNCTIONS = {
    "os": {
        *("fork", "forkpty", "killpg", "setsid", "getpgid", "register_at_fork", "sched_getaffinity"),
        *("getuid", "geteuid", "getgid", "getlogin", "chown", "fchmod", "mkfifo", "statvfs", "nice", "uname"),
        *("waitid", "wait", "WNOHANG", "pipe2", "posix_spawn", "openpty", "sysconf", "getloadavg", "kill"),
    },
    "signal": {
        *("SIGKILL", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGCHLD", "SIGPIPE", "SIGTSTP"),
        *("alarm", "setitimer", "pause", "pthread_kill", "pthread_sigmask", "sigwait", "siginterrupt"),
        *("SIG_BLOCK", "SIG_SETMASK"),
    },
}
HOME = "processes.py"
ASKED = {
    "metrics/text/encoders/encoder.py": {"os.sched_getaffinity"},
    "trust/resampling.py": {"os.sched_getaffinity"},
}
"""Modules that ask for a function (``hasattr``) and do without it."""

WITHOUT = f"""
import asyncio, multiprocessing.popen_spawn_posix, os, platform, shutil, signal, sqlite3, ssl, subprocess, sys
import tempfile, uuid, zipfile
import click, httpx, litestar.testing, numpy, rich.console, rustworkx, scipy.stats, uvicorn

for name in {sorted(MODULES)!r}:
    sys.modules[name] = None
for name in {sorted(FUNCTIONS["os"] - {"uname", "sysconf"})!r}:
    os.__dict__.pop(name, None)
for name in {sorted(FUNCTIONS["signal"])!r}:
    signal.__dict__.pop(name, None)
"""
"""What comes from elsewhere is imported before, as that asks for the system's name."""

AGENT = "def answer(question):\n    return {'2+2?': '4'}.get(question, 'no idea')\n"
SUITE = {
    "name": "sums",
    "metrics": ["success", "jaccard"],
    "cases": [
        {"id": "a", "input": "2+2?", "references": ["4"]},
        {"id": "b", "input": "2+3?", "references": ["5"]},
    ],
}


def without_posix(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", WITHOUT + code, *arguments]
    return subprocess.run(
        line,
        capture_output=True,
        text=True,
        encoding="cp1252",
        cwd=folder,
        env=os.environ | {"PYTHONIOENCODING": "cp1252"},
    )


def test_only_one_module_uses_what_windows_lacks():
    names = "|".join(rf"{module}\.(?:{'|'.join(sorted(names))})" for module, names in FUNCTIONS.items())
    called = re.compile(rf"(?<![\w.])(?:{names})\b|\.add_signal_handler\b")
    imported = re.compile(
        rf"(?m)^\s*(?:import|from) (?:{'|'.join(sorted(MODULES))})\b"
        r"|^\s*from (?:os|signal) import (?!PathLike)"
    )
    found = {}
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert not imported.search(text), path
        name, used = path.relative_to(SOURCE).as_posix(), set(called.findall(text))
        if used and name != HOME:
            found[name] = used
            assert set(re.findall(r'hasattr\((?:os|signal), "(\w+)"\)', text)) <= {
                each.partition(".")[2] for each in used
            }
    assert found == ASKED


def test_the_core_is_imported_and_runs_scores_compares_and_shows_without_posix(tmp_path):
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "suite.json").write_text(json.dumps(SUITE))
    (tmp_path / "outputs.jsonl").write_text('{"case": "a", "output": "4"}\n{"case": "b", "output": "5"}\n')
    code = f"""
from importlib import import_module
for name in {[name for name in _modules() if not BEHIND_AN_EXTRA.search(name)]!r}:
    import_module(name)

from litestar.testing import TestClient
from trivium.cli.main import main
from trivium.processes import HAS_GROUPS, has_certainly_ended, this_process
from trivium.store.store import Store
from trivium.web.app import create_app
from trivium.web.services import Services

def did(*words):
    sys.argv = ["trivium", *words, "--store", "runs.db"]
    try:
        main()
    except SystemExit as end:
        return end.code
    return 0

codes = [
    did("run", "suite.json", "--agent", "agent.py:answer"),
    did("score", "suite.json", "--outputs", "outputs.jsonl"),
    did("run", "suite.json", "--agent", "agent.py:answer"),
    did("compare", "--html", "page.html"),
    did("show", "--details"),
    did("export", "--format", "csv", "--output", "scores.csv"),
]
with Store("runs.db") as store:
    services = Services(store, [])
    with TestClient(create_app(services), base_url="http://127.0.0.1") as client:
        codes += [client.get(path).status_code for path in ("/runs", "/api/v1/runs")]
    services.stop()
print("ended with", *codes, HAS_GROUPS, has_certainly_ended(this_process()))
"""
    done = without_posix(code, tmp_path)
    assert done.stderr == "wrote page.html\n"
    assert done.stdout.splitlines()[-1] == "ended with 0 0 0 0 0 0 200 200 False False"
    assert "pass rate  0.500" in done.stdout
