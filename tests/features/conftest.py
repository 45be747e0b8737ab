"""What the scenarios share: their world, and how a command ends."""

from pathlib import Path

import pytest
from pytest_bdd import parsers, then

from tests.features.world import World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("TRIVIUM_STORE", raising=False)
    return World(capsys)


@then(parsers.parse("the command ends with {code:d}"))
def ends_with(world: World, code: int) -> None:
    assert world.code == code, world.err
