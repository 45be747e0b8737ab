"""The CPU budget of a test: 5 seconds of its own process and of those that it started and waited for.

A test that needs more says so, and why: ``@pytest.mark.cpu(8, "compares two agents of the demo")``. What
fixtures of a file or of the session take to set up, and all that is torn down, counts for no test, since it
depends on which one comes first or last. pytest prints the tests that took most, and fails if one is over its
budget. On a slow machine budgets grow as much as the time that a fixed loop takes there. On one that has much
else to do, whose cores share caches, it is printed only.
"""

import os
import resource
import time
from collections.abc import Iterator
from typing import Any

import pytest

BUDGET_SECONDS = 5.0
SHOWN, SHOWN_SECONDS = 20, 0.5
LOOPS, LOOP_SECONDS = 1_000_000, 0.030
"""Additions of a fixed loop, and the CPU time that they take on an idle machine of 2026."""

BUSY = 2.5
"""Processes that wait or run, for each core, above which a machine is busy. The tests alone make 1.5."""

PROPERTY = "cpu seconds, budget"
SPENT = pytest.StashKey[dict[str, float]]()


def cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def slowness() -> float:
    """How many times as long as on an idle machine a fixed loop takes just now; at least 1."""
    before, total = time.thread_time(), 0
    while total < LOOPS:
        total += 1
    return max(1.0, (time.thread_time() - before) / LOOP_SECONDS)


def busy() -> bool:
    """Whether others than the tests keep the machine busy."""
    return os.getloadavg()[0] > BUSY * (os.cpu_count() or 1)


class CpuBudget:
    """Measures each test where it runs, and reports where pytest was started (also with pytest-xdist)."""

    def __init__(self) -> None:
        self.spent: list[tuple[float, float, str]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        item.stash[SPENT] = {"before": cpu_seconds(), "shared": 0.0}
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
        before = cpu_seconds()
        try:
            return (yield)
        finally:
            spent = getattr(request, "_pyfuncitem").stash.get(SPENT, None)  # noqa: B009
            if spent is not None and fixturedef.scope != "function":
                spent["shared"] += cpu_seconds() - before

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.when == "call":
            spent = item.stash[SPENT]
            used = cpu_seconds() - spent["before"] - spent["shared"]
            mark = item.get_closest_marker("cpu")
            budget = mark.args[0] if mark else BUDGET_SECONDS
            if used > budget:
                budget *= slowness()
            item.user_properties.append((PROPERTY, (used, budget)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.spent += [
                (*value, report.nodeid) for name, value in report.user_properties if name == PROPERTY
            ]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        over = any(used > budget for used, budget, _ in self.spent)
        if over and session.exitstatus == pytest.ExitCode.OK and not busy():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        dearest = [each for each in sorted(self.spent, reverse=True)[:SHOWN] if each[0] >= SHOWN_SECONDS]
        if dearest:
            total = sum(used for used, _, _ in self.spent)
            terminalreporter.section(f"{total:,.0f} s of CPU in {len(self.spent):,} tests, most of it in")
            for used, _, name in dearest:
                terminalreporter.line(f"{used:6.1f} s  {name}")
        for used, budget, name in self.spent:
            if used > budget:
                over = f"{used:.1f} s of CPU, budget {budget:.1f} s (tests/cpu_budget.py): {name}"
                terminalreporter.line(over, red=True)
