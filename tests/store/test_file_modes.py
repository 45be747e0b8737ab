"""Stores hold outputs, judgements and labels: only their owner may read what Trivium makes."""

import os
import stat
from pathlib import Path

import pytest

from tests.store.samples import attempt, evaluation, new_run
from trivium.cli.main import run_command
from trivium.store.backup import back_up, restore
from trivium.store.connection import readable_by_others
from trivium.store.store import Store


@pytest.fixture(autouse=True)
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def filled(url: str) -> None:
    with Store(url) as store:
        run = new_run(store)
        store.save(run, attempts=[attempt(0)], evaluations=[evaluation(0)])
        store.finish(run, "done", summary=None)


def doctor(capsys, url: str) -> str:
    run_command(["doctor", "--store", url])
    return " ".join(capsys.readouterr().out.split())


def test_a_new_store_its_folder_and_its_log_are_for_their_owner(tmp_path):
    folder = tmp_path / "new" / ".trivium"
    with Store(f"sqlite:///{folder}/store.db") as store:
        run = new_run(store)
        store.save(run, attempts=[attempt(0)])
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert modes(folder) == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600}
        assert readable_by_others(store.engine) is None


def test_a_restored_store_is_for_its_owner(tmp_path):
    filled(f"sqlite:///{tmp_path}/old.db")
    back_up(f"sqlite:///{tmp_path}/old.db", tmp_path / "backup.db")
    restore(tmp_path / "backup.db", f"sqlite:///{tmp_path}/again/store.db")
    assert modes(tmp_path / "again")["store.db"] == 0o600
    assert stat.S_IMODE((tmp_path / "again").stat().st_mode) == 0o700


def test_a_store_that_others_can_read_is_left_as_it_is_and_doctor_tells(tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/store.db"
    filled(url)
    assert "chmod 600" not in doctor(capsys, url)
    (tmp_path / "store.db").chmod(0o644)
    with Store(url) as store:
        store.new_run_id()
    assert modes(tmp_path)["store.db"] == 0o644
    assert f"other users of this machine can read it: chmod 600 {tmp_path}/store.db" in doctor(capsys, url)
