"""A folder beside a store that holds a finished run, the same afterwards."""

import pytest

from tests.bad_input.given import Folder


@pytest.fixture
def folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRIVIUM_STORE", raising=False)
    return Folder(tmp_path, capsys)
