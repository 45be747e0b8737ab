"""Settings of the program beside those of the environment."""

import os
import subprocess
import sys

import pytest

from trivium.traces.readers.collection import read_path

PROGRAM = r"""
import trivium as tv
tv.trace.configure({options})

@tv.trace.tool
def say(x):
    return f"private text {{x}} 555-1234"

say("hello")
"""


def ran(folder, options, **environment):
    """What a program that says these options wrote, by folder."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("TRIVIUM_TRACES")}
    subprocess.run(
        [sys.executable, "-c", PROGRAM.format(options=options)],
        cwd=folder,
        env=settings | environment,
        check=True,
    )
    return {str(each.parent.relative_to(folder)) for each in folder.rglob("*.jsonl")}


MASK = r"mask=[r'\b\d{3}-\d{4}\b']"


@pytest.mark.parametrize("options", [MASK, "rotate_bytes=1000", ""])
def test_what_is_not_given_stays_as_the_environment_says(tmp_path, options):
    assert ran(tmp_path, options, TRIVIUM_TRACES="off") == set()
    assert ran(tmp_path, options, TRIVIUM_TRACES="elsewhere") == {"elsewhere"}
    assert ran(tmp_path, options, TRIVIUM_TRACES="quiet", TRIVIUM_TRACES_CONTENT="off") >= {"quiet"}
    (call,) = read_path(tmp_path / "quiet")[1][0].tool_calls
    assert (call.input, call.output) == (None, None)


def test_what_is_given_counts_in_place_of_the_environment(tmp_path):
    assert ran(tmp_path, "folder='here', content=True", TRIVIUM_TRACES="off") == {"here"}


def test_settings_that_are_made_one_after_the_other_add_up(tmp_path):
    options = MASK + ")\ntv.trace.configure(folder='here'"
    assert ran(tmp_path, options) == {"here"}
    (call,) = read_path(tmp_path / "here")[1][0].tool_calls
    assert call.output == "private text hello [masked]"
