"""What holds for every test: no network beyond loopback, and no test fails for being slow."""

import gc
import ipaddress
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from tests.browser import browser, page, pytest_runtest_teardown
from tests.cpu_budget import CpuBudget
from tests.encoders import minilm_folder, minilm_onnx_folder, tiny_folder, tiny_onnx_folder
from tests.store.postgres import postgres_url
from tests.tiny_benchmarks import run_benchmark

__all__ = [
    "browser",
    "minilm_folder",
    "minilm_onnx_folder",
    "page",
    "postgres_url",
    "pytest_runtest_teardown",
    "run_benchmark",
    "tiny_folder",
    "tiny_onnx_folder",
]

# A pytest that a test starts itself does without plugins that call home, and take 20 s to import.
os.environ.setdefault("PYTEST_ADDOPTS", "-p no:deepeval -p no:opik")

# A store waits until the disk has what it wrote, several times when it is made. Where there is room, folders
# of tests lie in memory, which waits for nothing; they are deleted after tests that pass.
_MEMORY = "/dev/shm"
if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 4 * 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _MEMORY)

# A run asks git which commit it was of: in this repository, that takes as long as a small run itself.
os.environ["GIT_DIR"] = os.devnull

# A client first reads which authorities are trusted: all of a system's in 25 ms. Servers of tests speak
# plainly, or a test names their certificate; this authority has signed none, and its key is gone.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("authority.pem"))

# Threads of torch and NumPy that wait for work sleep: by default they spin, on a core that others need.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell has what it starts in the background ignore Ctrl-C, and so do all that this starts in turn.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Under CI every run tries the same examples, so that a failure there belongs to the change; elsewhere each
# run looks for new ones. `make coverage`, which takes its time, tries more: --hypothesis-profile=thorough.
for profile, examples in (("trivium", 25), ("thorough", 200)):
    settings.register_profile(
        profile,
        deadline=None,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=bool(os.environ.get("CI")),
    )
settings.load_profile("trivium")


# Files that one process has to itself: what they need takes seconds to import or to start.
_TOGETHER = {
    "encoders": (
        "tests/metrics/text/",
        "tests/metrics/judge/test_evidence.py",
        "tests/metrics/judge/test_signals_recorded.py",
        "tests/cli/test_named_encoder.py",
        "tests/runs/test_human_ceiling.py",
        "tests/test_meaning.py",
        "tests/test_real_data.py",
    ),
    "Ray": ("tests/runs/ray/",),
    "a browser": (
        "tests/reports/html/test_in_a_browser.py",
        "tests/web/pages/test_drill_in_a_browser.py",
        "tests/web/pages/test_hostile_texts_in_a_browser.py",
        "tests/web/pages/test_in_a_browser.py",
        "tests/web/pages/test_people_in_a_browser.py",
        "tests/web/test_pictures.py",
    ),
}


class _Together(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        shared = (name for name, files in _TOGETHER.items() if nodeid.startswith(files))
        return next(shared, super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """Each process has whole files (``--dist loadfile``), and some files go to one process together."""
    return _Together(config, log)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Measure what each test takes, and fail none for garbage that was collected when the stack was full.

    A parser that gives up on deep nesting does so at the end of the stack. If garbage is collected just
    there, no finalizer can be called, whatever test it is of, and pytest cannot even say so.
    """
    config.pluginmanager.register(CpuBudget())
    fails = sys.unraisablehook

    def unless_the_stack_was_full(unraisable: Any) -> None:
        if not isinstance(unraisable.exc_value, RecursionError):
            fails(unraisable)

    sys.unraisablehook = unless_the_stack_was_full


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """The garbage collector has nothing to look for while tests are collected."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is there before the first test stays, and is no garbage that would have to be looked for.

    A name with an address differs between processes, which then refuse to share the tests.
    """
    if placed := [item.nodeid for item in session.items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"the name of a test has an address: {placed[0]}")
    gc.freeze()
    # In place of 700, 10, 10: all is looked at half as often, and what is new a seventh as often.
    gc.set_threshold(5_000, 5, 5)


class _Modules:
    """The modules that are there before a test; of thousands, most tests add none."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.seen: tuple[int, str] = (0, "")

    def new(self) -> set[str]:
        """Those that have come since this was last asked."""
        now = len(sys.modules), next(reversed(sys.modules))
        if now == self.seen:
            return set()
        new = sys.modules.keys() - self.names
        self.names, self.seen = set(sys.modules), now
        return new


_MODULES = _Modules()


@pytest.fixture(autouse=True)
def _own_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a test imports out of a temporary folder is not there for the next, which may use its name."""
    _MODULES.new()
    yield
    if new := _MODULES.new():
        temporary = str(tmp_path_factory.getbasetemp())
        for name in new & sys.modules.keys():
            if str(getattr(sys.modules[name], "__file__", None)).startswith(temporary):
                del sys.modules[name]


def _is_loopback(address: Any) -> bool:
    if not isinstance(address, tuple):
        return True  # a path of a Unix socket
    host = address[0]
    if host in {"localhost", ""}:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@pytest.fixture(autouse=True)
def _only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any connection past loopback fails the test that makes it."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded(method: Any) -> Any:
        def call(self: socket.socket, address: Any) -> Any:
            if not _is_loopback(address):
                pytest.fail(f"a test tried to reach {address!r}: only loopback is allowed")
            return method(self, address)

        return call

    monkeypatch.setattr(socket.socket, "connect", guarded(connect))
    monkeypatch.setattr(socket.socket, "connect_ex", guarded(connect_ex))
