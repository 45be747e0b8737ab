"""The folder that sessions of pytest work in."""

from importlib import import_module

import pytest

import trivium as tv
from tests.integrations.pytest_plugin.sessions import AGENT, ROOT, SUITE


@pytest.fixture(scope="session", autouse=True)
def _imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import what a session needs before it: pytester forgets what a session imports, NumPy forbids that."""
    import_module("trivium.integrations.pytest.summary")
    place = tmp_path_factory.mktemp("imported")
    place.joinpath("capitals.yaml").write_text(SUITE)
    run = tv.evaluate(place / "capitals.yaml", agent=str.upper, store=str(place / "store.db"))
    place.joinpath("answers.jsonl").write_text('{"case": "fr", "output": "Paris"}\n')
    also = tv.evaluate(place / "capitals.yaml", outputs=place / "answers.jsonl", store=run.store)
    assert str(run.summary())
    assert str(tv.compare(run, also, force=True))
    run.store.close()


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A suite of four capitals and an agent that knows two, fails on one and notes what it is asked."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("AGENT", "STORE", "COMPARE", "INCONCLUSIVE", "RESUME"):
        monkeypatch.delenv(f"TRIVIUM_{name}", raising=False)
    pytester.path.joinpath("capitals.yaml").write_text(SUITE)
    pytester.makepyfile(capital_agents=AGENT)
    return pytester
