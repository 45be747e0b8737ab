"""``trivium run --watch``: runs again when a file changes that the run reads."""

import os
import signal
import subprocess
import sys
from multiprocessing import Pipe
from pathlib import Path

import pytest

from trivium.cli.main import run_command
from trivium.cli.run import _compare, _run_once, run
from trivium.cli.watch import _child, _run_in_process, stamps, wait_for_change, watch

LIMIT = 280
"""Seconds after which a silent process is ended, so that a broken test ends."""


class Watching:
    """A ``trivium run --watch`` in a folder, whose lines are read as they are printed."""

    def __init__(self, folder: Path) -> None:
        words = [
            sys.executable,
            "-m",
            "trivium",
            "run",
            "suite.yaml",
            "--agent",
            "agent.py:answer",
            "--watch",
        ]
        self.process = subprocess.Popen(
            ["timeout", "--foreground", str(LIMIT), *words],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )

    def until_waiting(self) -> str:
        """What it prints until it waits for a change."""
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if line.startswith("Watching "):
                return "".join(lines)
        pytest.fail("it ended:\n" + "".join(lines))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "suite.yaml").write_text(
        "cases: cases.jsonl\nmetrics: [jaccard, success]\nsuccess: {metric: jaccard, at_least: 0.9}\n"
    )
    rows = [f'{{"id": "q{i}", "input": "q{i}", "references": ["yes"]}}\n' for i in range(4)]
    (tmp_path / "cases.jsonl").write_text("".join(rows))
    (tmp_path / "prompt.txt").write_text("no")
    (tmp_path / "words.py").write_text("def said(text):\n    return text\n")
    (tmp_path / "agent.py").write_text(
        "from pathlib import Path\n\nfrom words import said\n\n\n"
        "def answer(question):\n"
        "    with open('calls.log', 'a') as log:\n        log.write('x')\n"
        "    return said(Path('prompt.txt').read_text())\n"
    )
    return tmp_path


def calls(folder: Path) -> int:
    return len((folder / "calls.log").read_text())


def test_an_imported_module_and_the_suite_start_the_next_run_and_ctrl_c_ends(folder):
    watching = Watching(folder)
    try:
        first = watching.until_waiting()
        assert "0 of 4 passed" in first
        assert calls(folder) == 4

        (folder / "words.py").write_text("def said(text):\n    return 'yes'\n")
        second = watching.until_waiting()
        assert "Changed: words.py" in second
        assert "4 of 4 passed" in second
        assert "against" in second  # the comparison with the first run
        assert calls(folder) == 8

        (folder / "suite.yaml").write_text("metrics: [jaccard, success\n")
        broken = watching.until_waiting()
        assert "broken YAML" in broken

        (folder / "suite.yaml").write_text(
            "cases: cases.jsonl\nmetrics: [jaccard, cosine, success]\n"
            "success: {metric: jaccard, at_least: 0.9}\n"
        )
        third = watching.until_waiting()
        assert "cosine" in third
        assert calls(folder) == 8  # the stored attempts are scored again
    finally:
        watching.process.send_signal(signal.SIGINT)
        watching.process.communicate(timeout=LIMIT)
    assert watching.process.returncode == 0


def test_a_deleted_and_a_new_file_are_changes(tmp_path):
    files = [str(tmp_path / "a"), str(tmp_path / "b")]
    Path(files[0]).write_text("x")
    known = stamps(files)
    Path(files[0]).unlink()
    Path(files[1]).write_text("y")
    assert wait_for_change(files, known) == set(files)


@pytest.mark.parametrize("other", [["--json"], ["--resume", "2026"]])
def test_options_for_a_single_run_are_refused(other, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert run_command(["run", "suite.yaml", "--agent", "agent.py:answer", "--watch", *other]) == 2
    assert f"--watch and {other[0]} exclude each other" in capsys.readouterr().err


def read_and_touch(previous, loaded):
    """A run that reads a file, which then changes."""
    text = Path("notes.txt").read_text()
    loaded()
    Path("data.txt").read_text()
    Path("written.txt").write_text(text)
    status = Path("data.txt").stat()
    os.utime("data.txt", ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))
    return 3, f"after {previous}"


@pytest.fixture
def notes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("notes.txt", "data.txt"):
        (tmp_path / name).write_text("x")
    return tmp_path


def test_a_run_reports_what_it_read_and_not_what_it_wrote(notes):
    reports, sender = Pipe(duplex=False)
    _child(read_and_touch, None, sender)
    report = reports.recv()
    assert (report.code, report.run) == (3, "after None")
    assert report.suite_files == {str(notes / "notes.txt")}
    assert report.other_files == {str(notes / "data.txt")}


def start_a_program(previous, loaded):
    """A run that starts a program."""
    Path("notes.txt").read_text()
    loaded()
    subprocess.run(["sh", "program.sh", "--of", "missing.txt", "data.txt", "x" * 5_000], check=True)
    return 0, None


def test_the_files_that_a_command_line_names_are_watched(notes):
    (notes / "program.sh").write_text("cat notes.txt > written.txt")
    reports, sender = Pipe(duplex=False)
    _child(start_a_program, None, sender)
    assert reports.recv().other_files == {str(notes / "program.sh"), str(notes / "data.txt")}


def test_it_runs_again_and_compares_until_it_is_interrupted(notes, capsys):
    compared = []

    def compare(base, head):
        compared.append((base, head))
        if len(compared) == 2:
            raise KeyboardInterrupt

    assert watch(read_and_touch, compare) == 3
    assert compared == [("after None", "after None"), ("after None", "after None")]
    assert capsys.readouterr().err.count("Watching 2 files") == 2
    assert Path("written.txt").read_text() == "x"


def read_many(previous, loaded):
    """A run that reads more files than a pipe holds the names of."""
    for number in range(2_000):
        Path(f"{number}.txt").read_text()
    loaded()
    return 0, None


def read_nothing(previous, loaded):
    """A run that reads no file and is not stored."""
    loaded()
    return 4, None


def test_any_number_of_files_is_watched(notes):
    for number in range(2_000):
        Path(f"{number}.txt").touch()
    assert len(_run_in_process(read_many, None).suite_files) == 2_000


def be_killed(previous, loaded):
    """A run that ends before it reports."""
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("run_once", "code"), [(read_nothing, 4), (be_killed, -signal.SIGKILL)])
def test_nothing_to_watch_ends_it(run_once, code, notes):
    assert watch(run_once, lambda *_: pytest.fail("there is nothing to compare")) == code


def test_a_run_scores_stored_attempts_again_where_cases_and_repeats_are_the_same(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    words = ["suite.yaml", "--agent", "agent.py:answer"]
    given = {name: value for name, value in run.make_context("run", words).params.items() if name != "suite"}
    code, first = _run_once("suite.yaml", given, None, lambda: None)
    assert (code, calls(folder)) == (0, 4)
    _, again = _run_once("suite.yaml", given, first, lambda: None)
    assert again != first
    assert calls(folder) == 4
    _compare(given["store"], first, again)
    assert "against" in capsys.readouterr().out
    (folder / "cases.jsonl").write_text('{"id": "q9", "input": "q9", "references": ["yes"]}\n')
    _run_once("suite.yaml", given, first, lambda: None)
    assert calls(folder) == 5
    (folder / "suite.yaml").write_text("cases: [")
    assert _run_once("suite.yaml", given, first, lambda: None) == (2, None)
