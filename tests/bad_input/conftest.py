"""A folder beside a store that holds a finished run, the same afterwards."""

import shutil
from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper

import pytest

from tests.bad_input.given import CASE, OUTPUT, Folder, exported
from trivium.cli.main import run_command


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Scored and read once: the folder, the run, and what is stored of it; each test has a copy."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "cases.jsonl").write_text(CASE)
    (folder / "good.jsonl").write_text(OUTPUT)

    def printed(command):
        with redirect_stdout(TextIOWrapper(BytesIO())) as out:
            assert run_command(command.split()) == 0
            out.flush()
        return out.buffer.getvalue().decode()

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("TRIVIUM_STORE", raising=False)
        printed("score cases.jsonl --outputs good.jsonl --metrics jaccard --quiet")
        return folder, *exported(printed)


@pytest.fixture
def folder(finished, tmp_path, monkeypatch, capsys):
    made, run, stored = finished
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRIVIUM_STORE", raising=False)
    return Folder(tmp_path, run, stored, capsys)
