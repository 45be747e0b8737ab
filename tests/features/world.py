"""The world of a scenario: a working folder and the commands as a user types them."""

import json
from typing import Any

import pytest

from trivium.cli.main import run_command


class World:
    """A working folder, and what the last command said."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.code: int | None = None
        self.out = self.err = ""

    def call(self, *words: str) -> None:
        self._capsys.readouterr()
        self.code = run_command(list(words))
        self.out, self.err = self._capsys.readouterr()

    @property
    def answer(self) -> Any:
        """The JSON document that the last command printed."""
        return json.loads(self.out)

    def ask(self, *words: str) -> Any:
        """The answer of another command."""
        self.call(*words, "--json")
        return self.answer

    def rows(self, *words: str) -> list[dict[str, Any]]:
        """The lines that an export gives."""
        self.call("export", *words)
        return [json.loads(line) for line in self.out.splitlines()]
