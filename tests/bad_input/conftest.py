"""A folder beside a store that holds a finished run, the same afterwards."""

import shutil

import pytest

from tests.bad_input.given import CASE, OUTPUT, Folder
from trivium.cli.main import run_command


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Scored once; each test has a copy."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "cases.jsonl").write_text(CASE)
    (folder / "good.jsonl").write_text(OUTPUT)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("TRIVIUM_STORE", raising=False)
        words = "score cases.jsonl --outputs good.jsonl --metrics jaccard --quiet"
        assert run_command(words.split()) == 0
    return folder


@pytest.fixture
def folder(finished, tmp_path, monkeypatch, capsys):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRIVIUM_STORE", raising=False)
    return Folder(tmp_path, capsys)
