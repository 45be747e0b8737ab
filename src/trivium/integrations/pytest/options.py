"""Names and command-line options of the pytest plugin.

Imported whenever pytest starts, with or without a suite, so nothing here imports the rest of Trivium.
"""

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from trivium.suites.settings import Policy

MARK = "trivium"
"""Name of the mark, ``@pytest.mark.trivium(suite)``."""

ATTEMPT = "trivium_attempt"
"""Name of the fixture that runs a test once for every attempt."""

POLICIES: "tuple[Policy, ...]" = ("balanced", "proof", "strict")

OPTIONS = {
    "agent": ("PKG.MOD:NAME|URL|cmd:…", "The agent to call, if neither a mark nor a fixture names one."),
    "store": (
        "URL",
        "Where runs are stored (default: .trivium/store.db in the folder that pytest starts in).",
    ),
    "compare": ("BASE", 'Compare with a stored run (its id, or "previous"); a regression fails the session.'),
    "agent_version": ("NAME", "The version of the agent: comparisons count all attempts of a version."),
    "policy": ("balanced|proof|strict", "How gates and comparisons are decided (default: the suite's)."),
    "resume": ("RUN", "Finish an interrupted run: the agent is called only for missing attempts."),
}
"""Metavariable and help of each option, ``--trivium-NAME`` on the command line with hyphens."""

SessionPaths = dict[str, str]
"""Two folders of a test session: ``folder``, shared by its processes; ``started``, where pytest started."""


def add_options(parser: pytest.Parser) -> None:
    """Add each option to pytest's command line and ini files."""
    group = parser.getgroup("trivium", "Trivium: agents under test")
    for name, (metavar, words) in OPTIONS.items():
        group.addoption(f"--trivium-{name.replace('_', '-')}", metavar=metavar, default=None, help=words)
        parser.addini(f"trivium_{name}", words, default=None, type="string")


def option(config: pytest.Config, name: str) -> str | None:
    """Return an option: from the command line, else the environment, else an ini file; None if unset."""
    given: str | None = config.getoption(f"--trivium-{name.replace('_', '-')}")
    return given or os.environ.get(f"TRIVIUM_{name.upper()}") or config.getini(f"trivium_{name}") or None


def policy_of(config: pytest.Config) -> "Policy | None":
    """The policy that decides gates and comparisons; None for the suite's.

    Raises:
        pytest.UsageError: If there is no such policy.
    """
    named = option(config, "policy")
    for policy in POLICIES:
        if named == policy:
            return policy
    if named is None:
        return None
    raise pytest.UsageError(f'--trivium-policy: found "{named}", expected {", ".join(POLICIES)}')
