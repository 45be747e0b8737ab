"""Where the command begins: a process is made ready for its command; a host that calls one stays as it is."""

import gc
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.cli.test_commands import _own_folder, outcome, write_suite
from trivium.cli.main import main
from trivium.runs.event_loop import THRESHOLDS_WHILE_ASKING, THRESHOLDS_WHILE_SCORING

__all__ = ["_own_folder"]

TOLD_AT_THE_END = """
import atexit, gc, json, os, sys

def tell():
    blas = os.environ.get("OPENBLAS_THREAD_TIMEOUT")
    print(json.dumps([gc.get_threshold(), gc.get_freeze_count() > 0, blas, "numpy" in sys.modules]))

atexit.register(tell)
from trivium.cli.main import main
main()
"""


def made_ready(*arguments):
    """Thresholds, whether something was frozen, OpenBLAS's time, and whether NumPy was imported."""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_THREAD_TIMEOUT"}
    done = subprocess.run(
        [sys.executable, "-c", TOLD_AT_THE_END, *arguments],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
        check=True,
    )
    thresholds, *others = json.loads(done.stdout.splitlines()[-1])
    return tuple(thresholds), *others


def recorded():
    write_suite(1)
    Path("outputs.jsonl").write_text('{"case": "c0", "output": "x"}\n')
    return "score", "suite.json", "--outputs", "outputs.jsonl", "--quiet"


@pytest.mark.parametrize("before", [(), ("--log-level", "error"), ("--log-level=error", "--log-file", "run")])
def test_a_process_that_scores_seeks_no_work(before):
    assert made_ready(*before, *recorded()) == (THRESHOLDS_WHILE_SCORING, True, "4", True)


@pytest.mark.parametrize("arguments", [("schema",), ("--log-file", "score", "schema"), ("score", "--help")])
def test_another_command_does_not_pay_for_it(arguments):
    assert made_ready(*arguments) == (THRESHOLDS_WHILE_ASKING, False, None, False)


@pytest.mark.parametrize(
    ("words", "code", "shown"),
    [
        (recorded, 0, ""),
        (lambda: ["schema"], 0, '"$schema"'),
        (lambda: ["skore"], 2, 'Did you mean "score"?'),
    ],
    ids=["score", "schema", "no such command"],
)
def test_a_process_ends_with_the_code_of_its_command(words, code, shown, monkeypatch, capsys):
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "4")
    monkeypatch.setattr(sys, "argv", ["trivium", "--log-level", "error", *words()])
    monkeypatch.setattr(sys, "stdin", None)  # as after <&-
    thresholds = gc.get_threshold()
    try:
        with pytest.raises(SystemExit) if code else nullcontext() as ended:
            main()
    finally:
        gc.set_threshold(*thresholds)
    assert not code or ended.value.code == code
    assert shown in "".join(capsys.readouterr())


def test_a_command_that_is_called_in_process_changes_nothing_of_the_host(capsys, monkeypatch):
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    frozen, before = gc.get_freeze_count(), (gc.get_threshold(), dict(os.environ))
    assert outcome(capsys, *recorded())[0] == 0
    assert (gc.get_threshold(), dict(os.environ)) == before
    assert gc.get_freeze_count() <= frozen  # of what the host froze, some may be gone
