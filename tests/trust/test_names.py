"""The public names of the room."""

import subprocess
import sys

import pytest

import trivium.trust as trust


def test_every_public_name_is_there_and_lazy():
    code = "import sys, trivium.trust; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert all(getattr(trust, name) is not None for name in trust.__all__)
    assert dir(trust) == sorted(trust.__all__)


def test_a_name_that_is_not_there_says_so():
    with pytest.raises(AttributeError, match="no attribute 'aurk'"):
        _ = trust.aurk
