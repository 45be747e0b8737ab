"""Hooks and fixtures of the pytest plugin.

Loaded whenever pytest starts, so it imports the rest of Trivium only when a test uses a suite.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from trivium.integrations.pytest.options import ATTEMPT, MARK, SessionPaths, add_options, option, policy_of

if TYPE_CHECKING:
    from trivium.integrations.pytest.results import EvaluatedRun, TestedAttempt
    from trivium.integrations.pytest.session import SessionRuns

_session_runs = pytest.StashKey["SessionRuns"]()
_session_paths = pytest.StashKey[SessionPaths]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, such as ``--trivium-store`` (``TRIVIUM_STORE``; ``trivium_store`` in an ini file)."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(suite, *, agent=None, outputs=None, **settings): the suite of the fixtures {ATTEMPT} and "
        "trivium_run, and the agent to call or the recorded outputs to score.",
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse wrong options before any agent is called."""
    config = session.config
    policy_of(config)
    stored_run = option(config, "compare") or option(config, "resume")
    if stored_run is not None and not hasattr(config, "workerinput"):
        from trivium.integrations.pytest.summary import check_options

        check_options(config, _runs_of(config))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Create the folder that workers of pytest-xdist share, and pass it to one of them."""
    # Created only here: a worker that outlives the session finds it deleted and stops calling the agent.
    Path(_paths_of(node.config)["folder"]).mkdir(mode=0o700, exist_ok=True)
    node.workerinput["trivium"] = _paths_of(node.config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test for every attempt of the suite."""
    if ATTEMPT in metafunc.fixturenames:
        from trivium.integrations.pytest.marks import parametrise

        parametrise(metafunc)


@pytest.fixture(scope="session")
def trivium_agent(pytestconfig: pytest.Config) -> Any:
    """The agent if the mark names none: ``--trivium-agent``; override this fixture to return your own."""
    return option(pytestconfig, "agent")


@pytest.fixture
def trivium_run(request: pytest.FixtureRequest, trivium_agent: Any) -> "EvaluatedRun":
    """The finished run of the marked suite; it is evaluated once for all tests and workers."""
    return _runs_of(request.config).run_for(request, trivium_agent)


@pytest.fixture
def trivium_attempt(request: pytest.FixtureRequest, trivium_agent: Any) -> "TestedAttempt":
    """One scored attempt of the marked suite; a test that takes it runs once for every case and repeat."""
    return _runs_of(request.config).attempt_for(request, trivium_agent)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Fail the test of an attempt in which the agent failed, before the test function runs."""
    attempt = pyfuncitem.funcargs.get(ATTEMPT)
    failure = getattr(attempt, "failure", None)
    if failure:
        pytest.fail(failure, pytrace=False)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain why a figure of a run or of an attempt missed its threshold."""
    for one, other, sign in ((left, right, op), (right, left, _MIRRORED.get(op, op))):
        explain = getattr(type(one), "trivium_explanation", None)
        if explain is not None:
            lines: list[str] | None = explain(one, sign, other)
            return lines
    return None


_MIRRORED = {"<=": ">=", ">=": "<=", "<": ">", ">": "<"}


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Compare the session's runs with their base, in the main process only."""
    if not hasattr(session.config, "workerinput") and _is_used(session.config):
        from trivium.integrations.pytest.summary import compare_all

        compare_all(session, _runs_of(session.config))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the summaries of the session's runs and their comparisons."""
    if _is_used(config):
        from trivium.integrations.pytest.summary import write_summary

        write_summary(terminalreporter, _runs_of(config))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close the store and delete the folder that the workers shared."""
    runs = config.stash.get(_session_runs, None)
    if runs is not None:
        runs.close()
    if _session_paths in config.stash and not hasattr(config, "workerinput"):
        import shutil

        shutil.rmtree(config.stash[_session_paths]["folder"], ignore_errors=True)


def _paths_of(config: pytest.Config) -> SessionPaths:
    if _session_paths not in config.stash:
        import tempfile
        from uuid import uuid4

        folder = Path(tempfile.gettempdir(), f"trivium-pytest-{uuid4().hex}")
        default = {"folder": str(folder), "started": str(config.invocation_params.dir)}
        config.stash[_session_paths] = getattr(config, "workerinput", {}).get("trivium", default)
    return config.stash[_session_paths]


def _is_used(config: pytest.Config) -> bool:
    """Whether this process or a worker has started to evaluate a suite."""
    folder = config.stash[_session_paths]["folder"] if _session_paths in config.stash else ""
    return folder != "" and any(Path(folder).glob("*.json"))


def _runs_of(config: pytest.Config) -> "SessionRuns":
    """Return the session's runs as this process knows them; created on first use."""
    if _session_runs not in config.stash:
        from trivium.integrations.pytest.session import SessionRuns

        config.stash[_session_runs] = SessionRuns(config, _paths_of(config))
    return config.stash[_session_runs]
