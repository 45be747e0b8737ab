"""Inspect AI: Trivium's metrics score its samples."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import trivium as tv
from trivium.errors import MissingExtra
from trivium.integrations.inspect_ai import trivium_scorer


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    script = Path(__file__).with_name("run_inspect.py")
    command = [sys.executable, str(script), str(tmp_path_factory.mktemp("logs"))]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_a_metric_is_a_scorer(scored):
    expected = tv.score("jaccard", output=scored["outputs"]["a"], references=["a b c", "x"]).value
    assert scored["status"] == "success"
    assert scored["values"]["a"]["jaccard"][0] == pytest.approx(expected)
    assert 0 < expected < 1


def test_a_metric_that_does_not_apply_leaves_the_sample_out_of_the_mean(scored):
    assert scored["values"]["b"]["jaccard"] == [None, "the case has no reference", "skipped"]
    assert scored["means"]["jaccard"] == scored["values"]["a"]["jaccard"][0]


def test_a_metric_of_traces_sees_what_the_agent_did(scored):
    assert scored["values"]["a"]["tool_success"][0] == pytest.approx(2 / 3)  # submit is a call too


def test_a_metric_that_there_is_not_is_refused_at_once(scored):
    assert 'Did you mean "jaccard"' in scored["refused"]


def test_without_the_package_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(MissingExtra, match=r'pip install "trivium\[inspect-ai\]"'):
        trivium_scorer("jaccard")
