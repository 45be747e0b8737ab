"""The public names of the package."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import trivium.trust as trust
from trivium.trust.paired import paired_means


def test_every_public_name_is_there_and_lazy():
    code = "import sys, trivium.trust; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert all(getattr(trust, name) is not None for name in trust.__all__)
    assert dir(trust) == sorted(trust.__all__)


def test_a_name_that_is_not_there_says_so():
    with pytest.raises(AttributeError, match="no attribute 'aurk'"):
        _ = trust.aurk


@pytest.mark.parametrize(
    "resampling", [trust.bootstrap, trust.agreement, trust.BootstrapOptions, paired_means]
)
def test_who_asks_for_nothing_else_gets_ten_thousand_resamples_of_seed_42_at_95_percent(resampling):
    defaults = {
        name: parameter.default for name, parameter in inspect.signature(resampling).parameters.items()
    }
    assert (defaults["resamples"], defaults["seed"], defaults["level"]) == (10_000, 42, 0.95)


def test_no_public_name_is_that_of_a_module_which_would_hide_it():
    modules = {path.stem for path in Path(trust.__file__).parent.iterdir()}
    assert not modules & set(trust.__all__)
