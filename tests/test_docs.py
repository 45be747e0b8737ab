"""The documentation does what it says: files are written, commands and Python run, their output compared.

A page is one scenario in an empty folder. A block whose language is followed by a file's name is written to
that file. In a ``console`` block each line after ``$`` is run, and the lines below it must come out of it in
that order; ``…`` stands for anything. A ``python`` block is run, and a ``text`` block right after it is
compared with what it printed in the same way.
"""

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from trivium.cli.main import run_command
from trivium.traces.recording import config as configuring

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_FENCE = re.compile(r"^```(\S+)[ ]?(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)[^)]*\)")


class Block(NamedTuple):
    language: str
    label: str
    text: str


def blocks(page: Path) -> list[Block]:
    return [Block(*found.groups()) for found in _FENCE.finditer(page.read_text(encoding="utf-8"))]


def assert_comes_out(shown: str, said: str) -> None:
    """Every line shown is among those said, in order."""
    lines = iter([line.rstrip() for line in _same_everywhere(said).splitlines()])
    for line in _same_everywhere(shown).splitlines():
        if line.strip() in {"", "…"}:
            continue
        pattern = ".*".join(re.escape(piece) for piece in line.rstrip().split("…"))
        assert any(re.fullmatch(pattern, each) for each in lines), f"not said: {line!r}\nsaid:\n{said}"


def _same_everywhere(text: str) -> str:
    """A text without what differs from run to run (their names) and with plain spaces only."""
    return re.sub(r"\d{8}-\d{6}-[0-9a-f]{4}", "RUN", re.sub(r"[\u00a0\u202f]", " ", text))


@pytest.fixture
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, with no model to ask, no hub to fetch from, and a terminal of 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "no cache"))
    monkeypatch.setenv("COLUMNS", "80")
    # What is recorded goes to logs/traces, whatever another test, or another page, has set.
    monkeypatch.setattr(configuring._Current, "recording", configuring.Recording())
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "PAPER_REVIEW_MODEL", "TRIVIUM_STORE"):
        monkeypatch.delenv(key, raising=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
@pytest.mark.usefixtures("_alone")
def test_what_a_page_says_is_so(page: Path, capfd: pytest.CaptureFixture[str]) -> None:
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
            assert_comes_out(text, printed)
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
            continue  # a pip or make line: the tests of the frame are elsewhere
        capfd.readouterr()
        code = run_command(words[1:])
        said = capfd.readouterr()
        assert code != 1, said.err
        assert_comes_out(shown, said.out if code != 2 else said.err)
        if code == 2:
            assert shown.strip(), f"{command}: {said.err}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = _LINK.findall(page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
