"""Curves of many items: many files, and the progress of the resampling."""

from pathlib import Path

import pytest

from tests.cli.trust.trust_commands import answer, items
from trivium.cli import output
from trivium.runs.artifacts.curve import CurveOptions, curve_artifact, resamples_of
from trivium.runs.items.files import read_items
from trivium.trust.cluster_bootstrap import BootstrapOptions


def test_a_folder_of_items_gives_the_curve_of_one_file(capsys):
    name = items(20)
    Path("parts").mkdir()
    lines = Path(name).read_text().splitlines(keepends=True)
    for part in range(4):
        Path(f"parts/{part}.jsonl").write_text("".join(lines[5 * part : 5 * part + 5]))
    options = ("--range", "0:1", "--bootstrap-resamples", "50", "--created-at", "now")
    one, many = (answer(capsys, "curve", source, *options) for source in (name, "parts/*.jsonl"))
    assert many["confidence_variants"] == one["confidence_variants"]
    assert many["inputs"][0]["path"] == "parts/*.jsonl"


def test_resampling_that_takes_long_shows_its_progress_on_a_terminal(monkeypatch):
    shown = []
    monkeypatch.setattr(output.ProgressBar, "begin", lambda self, **told: shown.append(told))
    monkeypatch.setattr(output.ProgressBar, "advance", lambda self, **told: shown.append(told))
    monkeypatch.setattr(output, "SECONDS_WITHOUT_BAR", -1.0)
    monkeypatch.setattr(output.sys.stderr, "isatty", lambda: True, raising=False)
    for quiet in (True, False):
        with output.resampling_bar(lambda: 30, quiet=quiet) as progress:
            progress(10)
            progress(20)
    assert shown == [{"run": "resampling", "total": 30, "already": 10}, {"done": 20, "failed": 0}]


@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("sides", [1, 2])
def test_all_resamples_are_counted_beforehand(drawn, sides):
    done = []
    plan = BootstrapOptions(resamples=20, progress=done.append)
    options = CurveOptions(plan=plan, drawn=drawn, scale=(0, 1))
    tables = [read_items(items(12))] * sides
    curve_artifact(tables, options)
    assert sum(done) == resamples_of(tables, options)
