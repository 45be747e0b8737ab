"""What pytest sees: options, the mark, fixtures, hooks. Loaded whenever pytest starts: it imports nothing."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from trivium.integrations.pytest.results import EvaluatedRun, TestedAttempt
    from trivium.integrations.pytest.session import Evaluating

MARK = "trivium"
ATTEMPT = "trivium_attempt"

OPTIONS = {
    "agent": ("PKG.MOD:NAME|URL|cmd:…", "Who is asked, where neither a mark nor a fixture says."),
    "store": ("URL", "Where runs are kept (default: .trivium/store.db in the folder that pytest starts in)."),
    "compare": ("BASE", 'Compare with a stored run (its id, or "previous"); a regression fails the session.'),
    "inconclusive": ("pass|fail", "What an inconclusive gate or comparison counts as (default: fail)."),
    "resume": ("RUN", "Finish a run that was cut short: only what it lacks is asked."),
}

Meeting = dict[str, str]
"""Where the processes of a session meet, ``folder``, and where it was ``started``."""

_evaluating = pytest.StashKey["Evaluating"]()
_meeting = pytest.StashKey[Meeting]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--trivium-store`` is also ``TRIVIUM_STORE`` in the environment, ``trivium_store`` in an ini file."""
    group = parser.getgroup("trivium", "Trivium: agents under test")
    for name, (metavar, words) in OPTIONS.items():
        group.addoption(f"--trivium-{name}", metavar=metavar, default=None, help=words)
        parser.addini(f"trivium_{name}", words, default=None, type="string")


def option(config: pytest.Config, name: str) -> str | None:
    """An option as the command line, else the environment, else an ini file says."""
    given: str | None = config.getoption(f"--trivium-{name}")
    return given or os.environ.get(f"TRIVIUM_{name.upper()}") or config.getini(f"trivium_{name}") or None


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(suite, *, agent=None, outputs=None, **settings): the suite that the fixtures {ATTEMPT} and "
        "trivium_run are of, and who is asked or which recorded outputs are scored.",
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse wrong options before anybody is asked anything."""
    config = session.config
    said = option(config, "inconclusive")
    if said not in {None, "pass", "fail"}:
        raise pytest.UsageError(f'--trivium-inconclusive: found "{said}", expected pass or fail')
    named = option(config, "compare") or option(config, "resume")
    if named is not None and not hasattr(config, "workerinput"):
        from trivium.integrations.pytest.summary import check_options

        check_options(config, _of(config))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Make the place where workers of pytest-xdist meet, and tell one of them."""
    # Made here alone: a worker that outlives the session finds it gone, and asks nobody any more.
    Path(_meeting_of(node.config)["folder"]).mkdir(mode=0o700, exist_ok=True)
    node.workerinput["trivium"] = _meeting_of(node.config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for every attempt of the suite."""
    if ATTEMPT in metafunc.fixturenames:
        from trivium.integrations.pytest.marks import parametrise

        parametrise(metafunc)


@pytest.fixture(scope="session")
def trivium_agent(pytestconfig: pytest.Config) -> Any:
    """Who is asked where the mark does not say: ``--trivium-agent``, or what your own fixture returns."""
    return option(pytestconfig, "agent")


@pytest.fixture
def trivium_run(request: pytest.FixtureRequest, trivium_agent: Any) -> "EvaluatedRun":
    """The finished run of the marked suite, evaluated once however many tests and workers ask for it."""
    return _of(request.config).run_for(request, trivium_agent)


@pytest.fixture
def trivium_attempt(request: pytest.FixtureRequest, trivium_agent: Any) -> "TestedAttempt":
    """One attempt of the marked suite, scored: a test that takes it is run once for every case and repeat."""
    return _of(request.config).attempt_for(request, trivium_agent)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """An attempt that failed fails its test, whatever the test looks at."""
    attempt = pyfuncitem.funcargs.get(ATTEMPT)
    failure = getattr(attempt, "failure", None)
    if failure:
        pytest.fail(failure, pytrace=False)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Why a figure of a run or of an attempt missed its bar."""
    for one, other, sign in ((left, right, op), (right, left, _TURNED.get(op, op))):
        explain = getattr(type(one), "trivium_explanation", None)
        if explain is not None:
            lines: list[str] | None = explain(one, sign, other)
            return lines
    return None


_TURNED = {"<=": ">=", ">=": "<=", "<": ">", ">": "<"}


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Compare the session's runs with their base; once, not on every worker."""
    if not hasattr(session.config, "workerinput") and _is_used(session.config):
        from trivium.integrations.pytest.summary import compare_all

        compare_all(session, _of(session.config))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What the runs of the session say, and how they compare."""
    if _is_used(config):
        from trivium.integrations.pytest.summary import write_summary

        write_summary(terminalreporter, _of(config))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let go of the stores, and of the place where workers met."""
    evaluating = config.stash.get(_evaluating, None)
    if evaluating is not None:
        evaluating.close()
    if _meeting in config.stash and not hasattr(config, "workerinput"):
        import shutil

        shutil.rmtree(config.stash[_meeting]["folder"], ignore_errors=True)


def _meeting_of(config: pytest.Config) -> Meeting:
    if _meeting not in config.stash:
        import tempfile
        from uuid import uuid4

        folder = Path(tempfile.gettempdir(), f"trivium-pytest-{uuid4().hex}")
        own = {"folder": str(folder), "started": str(config.invocation_params.dir)}
        config.stash[_meeting] = getattr(config, "workerinput", {}).get("trivium", own)
    return config.stash[_meeting]


def _is_used(config: pytest.Config) -> bool:
    """Whether a suite was begun with, here or on a worker."""
    folder = config.stash[_meeting]["folder"] if _meeting in config.stash else ""
    return folder != "" and any(Path(folder).glob("*.json"))


def _of(config: pytest.Config) -> "Evaluating":
    """What this process knows of the session's runs, made when it is first needed."""
    if _evaluating not in config.stash:
        from trivium.integrations.pytest.session import Evaluating

        config.stash[_evaluating] = Evaluating(config, _meeting_of(config))
    return config.stash[_evaluating]
