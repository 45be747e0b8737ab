"""What a terminal of any width and any encoding is shown, and a program that reads through a pipe."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from trivium.cli.doctor import EXTRAS
from trivium.cli.main import run_command

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def _folder_with_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = {"id": "é1", "input": "q", "references": ["a b c"]}
    suite = {"name": "wörter", "metrics": ["jaccard", "success"], "cases": [case]}
    suite |= {"success": {"metric": "jaccard", "at_least": 0.5}, "gates": {"jaccard": {"at_least": 0.5}}}
    Path("s.json").write_text(json.dumps(suite))
    Path("o.jsonl").write_text(json.dumps({"case": "é1", "output": "a b d"}) + "\n")
    assert run_command(["score", "s.json", "--outputs", "o.jsonl", "--quiet"]) == 4


def trivium_process(*words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "trivium", *words], capture_output=True, env=os.environ | environment
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_lacks_a_character_shows_a_question_mark(encoding):
    done = trivium_process("show", PYTHONIOENCODING=encoding)
    assert done.returncode == 4
    assert b"Traceback" not in done.stderr
    text = done.stdout.decode(encoding)
    assert "jaccard ? 0.5" in text, "the sign for at least is in none of these"
    assert ("wörter" in text) == (encoding != "ascii")


@pytest.mark.parametrize("words", [["show", "--json"], ["export"]])
def test_json_is_utf8_with_any_encoding_of_the_terminal(words, capsys):
    done = trivium_process(*words, PYTHONIOENCODING="ascii")
    run_command(words)
    assert done.stdout == capsys.readouterr().out.encode()
    assert ("wörter" in done.stdout.decode()) == (words[0] == "show")


@pytest.mark.parametrize("words", [["show"], ["list"], ["show", "metrics"]])
def test_lines_end_where_their_words_end(words, capsys):
    run_command(words)
    lines = capsys.readouterr().out.splitlines()
    assert lines
    for line in lines:
        assert line == line.rstrip()


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no pseudo-terminals")
@pytest.mark.parametrize("columns", [40, 200])
def test_a_narrow_terminal_loses_nothing_of_a_table(columns):
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "NO_COLOR"}}
    process = subprocess.Popen(
        [sys.executable, "-m", "trivium", "show"],
        stdin=theirs,
        stdout=theirs,
        env=environment | {"TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux's way to say that the other side is closed
            break
        if not part:
            break
        shown += part
    assert process.wait() == 4
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
    assert "\x1b[" in shown.decode(), "a terminal gets colours"
    assert re.search(r"jaccard +0\.500 +1\b", text)
    assert "metric" in text
    assert "score" in text
    assert all(len(line) <= max(80, columns) for line in text.splitlines())


def test_the_doctor_knows_every_extra_that_all_brings():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(re.search(r"\[(.*)\]", extras["all"][0])[1].split(","))


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash is installed")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("sc", "score schema"),
        ("score --me", "--metrics"),
        ("export --format j", "jsonl"),
        ("trust c", "curve calibrate certify"),
        ("schema o", "output"),
        ("score s.j", "s.json"),
        ("score s.json --outputs o.j", "o.jsonl"),
    ],
)
def test_bash_completes_commands_options_words_and_files(typed, completed):
    Path("trivium").write_text(f'#!/bin/sh\nexec {sys.executable} -m trivium "$@"\n')
    Path("trivium").chmod(0o755)
    script = """
        compopt() { COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")); }  # outside of a completion
        source <(./trivium completion bash)
        COMP_WORDS=(trivium "$@") COMP_CWORD=$#
        _trivium_completion ./trivium
        echo "${COMPREPLY[@]}"
    """
    done = subprocess.run(["bash", "-c", script, "bash", *typed.split()], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == (completed, "")


def test_runs_beyond_the_limit_are_counted(capsys):
    assert run_command(["score", "s.json", "--outputs", "o.jsonl", "--quiet"]) == 4
    assert run_command(["list", "--limit", "1"]) == 0
    assert "… and older ones (--limit, now 1)" in capsys.readouterr().out
    assert run_command(["list", "--limit", "2"]) == 0
    assert "older" not in capsys.readouterr().out


def test_a_second_run_of_a_suite_is_listed_with_its_answer_against_the_first(capsys):
    assert run_command(["score", "s.json", "--outputs", "o.jsonl", "--quiet"]) == 4
    capsys.readouterr()
    assert run_command(["list", "--json"]) == 0
    second, first, *_ = json.loads(capsys.readouterr().out)
    assert second["before"]["base"] == first["run"]
    assert second["before"]["delta"] == 0


def test_details_show_the_reservations_in_full_and_the_provenance(capsys):
    assert run_command(["show"]) == 4
    short = capsys.readouterr().out
    assert run_command(["show", "--details"]) == 4
    full = capsys.readouterr().out
    assert "provenance" in full
    assert "provenance" not in short
    assert run_command(["score", "s.json", "--outputs", "o.jsonl", "--details"]) == 4
    assert "provenance" in capsys.readouterr().out
