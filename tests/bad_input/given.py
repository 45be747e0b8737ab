"""What a user gives to the commands, how they end and what they say."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from trivium.cli.main import run_command

CASE = '{"id": "1", "input": "q", "references": ["a b"]}\n'


OUTPUT = '{"case": "1", "output": "a b"}\n'


SCORE = "score cases.jsonl --outputs bad.jsonl --metrics jaccard"


NESTED_BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{now}: &{now} [{', '.join([f'*{last}'] * 10)}]\n"
    for last, now in zip("abcdefgh", "bcdefghi", strict=True)
)


def suite(**keys) -> str:
    case = {"id": "1", "input": "q", "references": ["a b"]}
    return json.dumps({"name": "s", "metrics": ["jaccard"], "cases": [case]} | keys)


class Row(NamedTuple):
    files: dict[str, str | bytes]
    command: str
    messages: tuple[str, ...]


def outputs(text: str | bytes, *messages: str) -> Row:
    """A row whose outputs are bad."""
    return Row({"bad.jsonl": text}, SCORE, tuple(f"bad.jsonl: {each}" for each in messages))


def of_suite(*messages: str, **keys) -> Row:
    """A row whose suite is bad in a way that only scoring can tell."""
    return Row({"s.json": suite(**keys)}, "score s.json --outputs good.jsonl", messages)


class Folder:
    """A working folder with a good suite, good outputs, and a store that holds a finished run."""

    def __init__(
        self, path: Path, run: str, first_run: tuple[str, ...], capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.path = path
        self.run = run
        self.first_run = first_run
        self._capsys = capsys
        self._files = self._stored_files()

    def call(self, command: str | list[str]) -> tuple[int, str, str]:
        words = command.split() if isinstance(command, str) else command
        code = run_command([self.run if word == "RUN" else word for word in words])
        captured = self._capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    def stored(self) -> tuple[str, ...]:
        """All that is stored of the first run."""
        if self._stored_files() == self._files:
            return self.first_run
        return exported(lambda command: self.call(command)[1])[1]

    def _stored_files(self) -> dict[str, bytes]:
        """What a reader of the store would read; SQLite makes the index of its journal anew."""
        files = (self.path / ".trivium").rglob("*")
        return {str(each): each.read_bytes() for each in files if each.is_file() and each.suffix != ".db-shm"}


def exported(call: Callable[[str], str]) -> tuple[str, tuple[str, ...]]:
    """The oldest run of the store here, and all that is stored of it."""
    run = json.loads(call("list --json"))[-1]["run"]
    return run, tuple(call(f"export {run} --what {what}") for what in ("scores", "attempts", "summary"))
