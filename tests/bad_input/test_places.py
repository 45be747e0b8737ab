"""Links, devices, full disks, huge files and stores that are none: how the commands end and what they say."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.bad_input.given import SCORE
from trivium.store.migrations import NEWEST


def test_a_link_that_leads_nowhere_says_so(folder):
    (folder.path / "linked.jsonl").symlink_to("gone.jsonl")
    code, _, err = folder.call("score cases.jsonl --outputs linked.jsonl")
    assert (code, err) == (2, "Error: linked.jsonl: is a link to gone.jsonl, which is not there\n")


def test_a_report_goes_where_a_link_leads_and_takes_the_place_of_no_device(folder):
    (folder.path / "there").mkdir()
    (folder.path / "linked.html").symlink_to("there/report.html")
    assert folder.call("show --html linked.html --quiet")[0] == 0
    assert (folder.path / "linked.html").is_symlink()
    report = (folder.path / "there" / "report.html").read_bytes()
    os.mkfifo(folder.path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((folder.path / "pipe").read_bytes()))
    reader.start()
    assert folder.call("show --html pipe --quiet")[0] == 0
    reader.join()
    assert (folder.path / "pipe").is_fifo()
    assert read[0] == report


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_file_of_ours(folder, closed):
    command = f"{sys.executable} -m trivium score cases.jsonl --outputs good.jsonl --metrics jaccard {closed}"
    assert subprocess.run(["sh", "-c", command], capture_output=True).returncode == 0
    assert len(json.loads(folder.call("list --json")[1])) == 2


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="this system has no device that is full")
@pytest.mark.parametrize(
    "words", [["export"], ["show", "--json"], ["--help"], ["traces", "import", "trace.json"]]
)
def test_standard_output_on_a_full_disk_ends_with_2(folder, words):
    (folder.path / "trace.json").write_text('{"spans": [{"id": "1", "kind": "agent", "name": "a"}]}')
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "trivium", *words], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert done.stderr.endswith("Error: the output cannot be written: No space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="this system has no device that is full")
@pytest.mark.parametrize(
    ("buffered", "words"),
    [
        (True, ["scroe"]),
        (False, ["scroe"]),
        (True, ["score", "no.jsonl"]),
        (False, ["show", "--html", "page.html"]),
    ],
)
def test_standard_error_on_a_full_disk_is_no_failed_gate(folder, buffered, words):
    environment = os.environ | {"PYTHONUNBUFFERED": "" if buffered else "1"}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "trivium", *words], stdout=subprocess.PIPE, stderr=full, env=environment
        )
    assert done.returncode == 2


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="this system has no device that is full")
@pytest.mark.parametrize(
    "command",
    [
        "show --quiet --html",
        "show --quiet --markdown",
        "show --quiet --junit",
        "export --output",
        "schema --output",
    ],
)
def test_a_full_disk_is_reported_when_a_report_is_written(folder, command):
    code, _, err = folder.call(f"{command} /dev/full")
    assert code == 2
    assert "/dev/full: cannot be written: No space left on device" in err
    assert Path("/dev/full").is_char_device()


PEAK_AT_THE_END = """
import atexit, pathlib, re
status = pathlib.Path("/proc/self/status")
atexit.register(lambda: print(re.search(r"VmHWM:\\s+([0-9]+)", status.read_text())[1]))
from trivium.cli.main import main
main()
"""
"""Prints the most memory that the process itself held, in kilobytes."""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells the peak of a process there")
@pytest.mark.parametrize("name", ["huge.jsonl", "huge.csv", "huge.yaml"])
def test_a_file_of_two_gigabytes_is_refused_without_being_held(folder, name):
    with (folder.path / name).open("wb") as file:
        file.truncate(2 * 1024**3)  # a hole, which takes no room
    completed = subprocess.run(
        [sys.executable, "-c", PEAK_AT_THE_END, "score", name, "--outputs", "good.jsonl"],
        capture_output=True,
        text=True,
    )
    assert completed.returncode == 2
    assert name in completed.stderr
    assert "268,435,456" in completed.stderr
    assert int(completed.stdout) < 1024**2, "kilobytes"


def test_outputs_of_a_quarter_of_a_gigabyte_without_a_line_are_refused(folder):
    with (folder.path / "bad.jsonl").open("wb") as file:
        file.truncate(2**28 + 1)
    code, _, err = folder.call(SCORE)
    assert code == 2
    assert "bad.jsonl: line 1: is longer than 268,435,456 bytes" in err


class TestStores:
    """A store that is not as it should be is left as it is."""

    def test_of_another_program(self, folder):
        with sqlite3.connect("other.db") as other:
            other.execute("CREATE TABLE customers (name)")
        other.close()
        before = Path("other.db").read_bytes()
        code, _, err = folder.call("score cases.jsonl --outputs good.jsonl --store other.db")
        assert code == 2
        assert "is a database of something else (it has customers)" in err
        assert Path("other.db").read_bytes() == before

    def test_of_a_newer_version(self, folder):
        self._change("UPDATE alembic_version SET version_num = '9999'")
        code, _, err = folder.call("list")
        assert code == 2
        assert "written by a newer Trivium (schema 9999" in err
        self._change(f"UPDATE alembic_version SET version_num = '{NEWEST}'")
        assert folder.stored() == folder.first_run

    def test_that_another_program_holds(self, folder, monkeypatch):
        monkeypatch.setattr("trivium.store.connection.BUSY_MS", 50)
        holder = sqlite3.connect(".trivium/store.db")
        holder.execute("BEGIN IMMEDIATE")
        code, _, err = folder.call("score cases.jsonl --outputs good.jsonl --metrics jaccard")
        assert code == 2
        assert "another program holds it locked" in err
        assert folder.stored() == folder.first_run, "what is there can still be read"
        holder.rollback()
        holder.close()

    @pytest.mark.parametrize(
        ("table", "column", "command"),
        [
            ("attempts", "body", "export --what attempts"),
            ("attempts", "body", "show --html page.html --quiet"),
            ("evaluations", "body", "show"),
            ("cases", "body", "show"),
            ("runs", "settings", "list"),
        ],
    )
    def test_whose_record_is_damaged(self, folder, table, column, command):
        self._change(f"UPDATE {table} SET {column} = substr({column}, 1, 5)")
        code, _, err = folder.call(command)
        assert code == 2
        assert "store.db: holds a record that cannot be read" in err

    def test_on_a_full_disk(self, folder):
        """The store may not grow: what was there stays, and a later go has room again."""
        many = "".join(f'{{"id": "{i}", "input": "{"long " * 200}"}}\n' for i in range(400))
        Path("many.jsonl").write_text(many)
        room = Path(".trivium/store.db").stat().st_size + 100_000
        code = (
            "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
            f"resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}));"
            "from trivium.cli.main import main; main()"
        )
        command = ["run", "many.jsonl", "--agent", "json:dumps", "--metrics", "time", "--quiet"]
        done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert "disk" in done.stderr
        assert folder.stored() == folder.first_run
        assert folder.call([*command[:-1], "--quiet"])[0] == 0

    @staticmethod
    def _change(statement: str) -> None:
        with sqlite3.connect(".trivium/store.db") as store:
            store.execute(statement)
        store.close()
