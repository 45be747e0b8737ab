"""Runs the documentation: writes its files, runs its commands and Python code, and compares their output.

A page is one scenario in an empty folder. A block with a file name after its language is written to a file.
In a ``console`` block each line after ``$`` is run, and its output must contain the lines below it in that
order; ``…`` matches anything. A ``python`` block is run, and a ``text`` block right after it is compared with
its output in the same way.
"""

import contextlib
import io
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from tests.encoders import ONNX, only_installed
from trivium.cli.main import run_command, trivium
from trivium.traces.recording import config as configuring

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/design").glob("*.md")),
    *sorted((ROOT / "docs/definitions").glob("*.md")),
]

CHANGES = sorted((ROOT / "changelog.d").glob("+*"))

_FENCE = re.compile(r"^```(\S+)[ ]?(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OPTION = re.compile(r"(?<!\S)--[a-z][a-z0-9-]*")
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)[^)]*\)")


class Block(NamedTuple):
    language: str
    label: str
    text: str


def blocks(page: Path) -> list[Block]:
    return [Block(*found.groups()) for found in _FENCE.finditer(page.read_text(encoding="utf-8"))]


def assert_contains(output: str, shown: str) -> None:
    """Check that the output contains every shown line, in order."""
    lines = iter([line.rstrip() for line in _normalised(output).splitlines()])
    for line in _normalised(shown).splitlines():
        if line.strip() in {"", "…"}:
            continue
        pattern = ".*".join(re.escape(piece) for piece in line.rstrip().split("…"))
        assert any(re.fullmatch(pattern, each) for each in lines), f"missing: {line!r}\noutput:\n{output}"


def _normalised(text: str) -> str:
    """Replace run ids and special spaces, which differ between runs and platforms."""
    return re.sub(r"\d{8}-\d{6}-[0-9a-f]{4}", "RUN", re.sub(r"[\u00a0\u202f]", " ", text))


@pytest.fixture
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, with no model to ask, no hub to fetch from, and a terminal of 80 columns.

    Without PyTorch, as `make demo` installs it, which takes seconds to import: ONNX Runtime runs encoders,
    and Opik does without the metrics for which it would import PyTorch and NLTK.
    """
    only_installed(monkeypatch, *ONNX)
    for name in ("bert_score", "nltk"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "no cache"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdin", io.StringIO())  # nobody types
    # Traces go to logs/traces, even if another test or page has configured another folder.
    monkeypatch.setattr(configuring._Current, "recording", configuring.Recording())
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "PAPER_REVIEW_MODEL", "TRIVIUM_STORE"):
        monkeypatch.delenv(key, raising=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
@pytest.mark.usefixtures("_alone")
def test_files_commands_and_code_of_a_page_give_the_output_it_shows(
    page: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    printed = ""
    for language, label, text in blocks(page):
        if label:
            target = Path(label)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        elif language == "python":
            printed = _run_python(text, names)
        elif language == "text":
            assert_contains(printed, text)
        elif language == "console":
            _run_commands(text, capfd)


def _run_python(code: str, names: dict[str, object]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "page", "exec"), names)
    return out.getvalue()


def _run_commands(session: str, capfd: pytest.CaptureFixture[str]) -> None:
    for step in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, shown = step.replace("\\\n", " ").partition("\n")
        words = shlex.split(command, comments=True)
        if words[0] != "trivium":
            continue  # a pip or make line, which other tests cover
        capfd.readouterr()
        code = run_command(words[1:])
        output = capfd.readouterr()
        assert code != 1, output.err
        assert_contains(output.out if code != 2 else output.err, shown)
        if code == 2:
            assert shown.strip(), f"{command}: {output.err}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = _LINK.findall(page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def options_of(command: click.Command) -> Iterator[str]:
    """The long options of a command and of all below it."""
    context = click.Context(command)
    for parameter in command.get_params(context):
        yield from (each for each in (*parameter.opts, *parameter.secondary_opts) if each.startswith("--"))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from options_of(below)


def test_every_change_that_is_not_released_has_a_name_that_a_release_takes() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    types = "|".join(each["directory"] for each in config["type"])
    named = {path.name for path in (ROOT / "changelog.d").iterdir()} - {"README.md"}
    assert {name for name in named if not re.fullmatch(rf"\+[a-z0-9-]+\.({types})\.md", name)} == set()


def test_every_option_that_the_newest_changes_name_is_there() -> None:
    """A commit from a stale tree takes a feature away and its tests; its words in the changes stay."""
    from trivium.integrations.pytest.plugin import pytest_addoption

    released = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("<!-- releases -->")[2]
    newest = re.split(r"^## .*$", released, flags=re.MULTILINE)[1]
    texts = [newest, *(path.read_text(encoding="utf-8") for path in CHANGES if ".removal." not in path.name)]
    codes = [code for text in texts for code in re.findall(r"`([^`]+)`", text)]
    named = {word for code in codes for word in _OPTION.findall(code)}
    assert named
    parser = pytest.Parser(_ispytest=True)
    pytest_addoption(parser)
    of_pytest = {name for each in parser.getgroup("trivium").options for name in each.names()}
    assert named - {*options_of(trivium), *of_pytest} == set()
