"""Real logs, made once for the tests of this folder."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the logs that ``make_logs.py`` writes."""
    folder = tmp_path_factory.mktemp("inspect")
    script = Path(__file__).with_name("make_logs.py")
    made = subprocess.run([sys.executable, str(script), str(folder)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return folder
