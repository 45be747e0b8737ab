"""Real logs, made once for the tests of this folder."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

VALUES = ["C", "I", "P", "N", "yes", "No", "true", "0.25", 1, 0, True, False, 0.3, "7"]
"""Values of scores that count as numbers."""


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the logs that ``make_logs.py`` writes."""
    folder = tmp_path_factory.mktemp("inspect")
    script = Path(__file__).with_name("make_logs.py")
    command = [sys.executable, str(script), str(folder), json.dumps(VALUES)]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return folder
