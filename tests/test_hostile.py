"""What agents, outputs and traces may do to a run: it ends and says what happened, and texts stay texts."""

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from trivium.cli.main import run_command
from trivium.store.store import Store

HOSTILE = (
    "<script>alert(1)</script> </pre> ]]> <!-- --> &amp; <img src=x onerror=alert(1)> \x1b[31mred\x1b[0m "
    "\x07 | a | [b](javascript:alert(1)) `c` {{7*7}} ${7*7} \u202etxt.exe \ud800 \x00 =cmd() "
    "'; DROP TABLE runs; --"
)

AGENTS = {
    "raises": ("raise ValueError('no idea')", "ValueError: no idea"),
    "raises without a text": ("raise Mute()", "Mute: (its text cannot be read)"),
    "exits": ("raise SystemExit(3)", "the agent raised SystemExit: 3"),
    "interrupts": ("raise KeyboardInterrupt", "the agent raised KeyboardInterrupt"),
    "recurses": ("return answer(question)", "RecursionError: maximum recursion depth exceeded"),
    "has no memory": ("raise MemoryError", "MemoryError"),
    "hangs": ("threading.Event().wait()", "no answer within 1 s (limits.seconds)"),
    "floods": ("return 'x' * 2_000_000", "the output is larger than 1,000,000 bytes (limits.output_bytes)"),
    "floods in pieces": ("return ['x' * 1000] * 2000", "the output is larger than 1,000,000 bytes"),
    "says nothing": ("return None", "nothing came back"),
    "says nonsense": ("return object()", "the output is an object, which is no JSON value"),
    "says no number": ("return {'output': float('nan')}", "the output is nan, which JSON does not have"),
    "says bytes": ("return b'x'", "the output is a bytes, which is no JSON value"),
    "says itself": ("a = []; a.append(a); return a", "the output is nested deeper than 200 levels"),
    "says wrong fields": (
        "return {'output': 'x', 'seconds': 'fast'}",
        "the answer has a field of the wrong type",
    ),
}


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRIVIUM_STORE", raising=False)


def suite(*ids: str, seconds: float = 60, **keys) -> str:
    cases = [{"id": each, "input": each, "references": ["good"]} for each in ids]
    limits = {"seconds": seconds, "output_bytes": 1_000_000}
    settings = {"name": "s", "metrics": ["jaccard", "success"], "success": {"exact": True}, "limits": limits}
    Path("s.json").write_text(json.dumps(settings | keys | {"cases": cases}))
    return "s.json"


def time_for(captured: str) -> float:
    """Seconds for an agent of which that is said: only one that hangs is to run out of them."""
    return 1 if "no answer" in captured else 60


def answer(capsys, *words: str) -> tuple[int, dict]:
    capsys.readouterr()
    code = run_command([*words, "--json"])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, json.loads(captured.out)


@pytest.mark.parametrize(("does", "captured"), AGENTS.values(), ids=AGENTS.keys())
def test_a_run_survives_and_reports_anything_an_agent_does(capsys, does, captured):
    Path("an_agent.py").write_text(
        "import threading\n"
        "class Mute(Exception):\n"
        "    def __str__(self): raise RuntimeError\n"
        "def answer(question):\n"
        "    if question == 'bad':\n"
        f"        {does}\n"
        "    return 'good'\n"
    )
    cases = suite("before", "bad", "after", seconds=time_for(captured))
    code, summary = answer(capsys, "run", cases, "--agent", "an_agent.py:answer")
    assert code == 3
    assert (summary["attempts"], summary["passed"], summary["failed"]) == (3, 2, 1)
    (failure,) = summary["failures"]
    assert failure["case"] == "bad"
    assert failure["why"].startswith(captured)


@pytest.mark.parametrize(
    ("does", "captured"),
    [
        ("raise KeyboardInterrupt", "the agent raised KeyboardInterrupt"),
        ("sys.exit(5)", "the agent raised SystemExit: 5"),
        ("raise asyncio.CancelledError", "the agent cancelled itself"),
        ("raise GeneratorExit", "the agent raised GeneratorExit"),
    ],
)
def test_a_coroutine_ends_no_process(capsys, does, captured):
    Path("a_coroutine.py").write_text(
        "import asyncio, sys\n"
        "async def answer(question):\n"
        "    if question == 'bad':\n"
        f"        {does}\n"
        "    return 'good'\n"
    )
    code, summary = answer(capsys, "run", suite("before", "bad", "after"), "--agent", "a_coroutine.py:answer")
    assert (code, summary["passed"]) == (3, 2)
    assert summary["failures"][0]["why"].startswith(captured)


def test_a_coroutine_that_never_awaits_runs_out_of_its_time_like_any_agent(capsys):
    Path("blocking.py").write_text(
        "import threading\n"
        "async def answer(question):\n"
        "    if question == 'bad':\n"
        "        threading.Event().wait()\n"
        "    return 'good'\n"
    )
    cases = suite("before", "bad", "after", seconds=1)
    code, summary = answer(capsys, "run", cases, "--agent", "blocking.py:answer", "--at-once", "1")
    assert (code, summary["passed"]) == (3, 2)
    assert summary["failures"][0]["why"].startswith(
        "no answer within 1 s (limits.seconds); it blocks its event loop"
    )


def test_what_a_coroutine_leaves_behind_ends_no_process(capsys):
    Path("leaving.py").write_text(
        "import asyncio, sys\n"
        "async def leave(): sys.exit(5)\n"
        "async def answer(question):\n"
        "    left = asyncio.create_task(leave())\n"
        "    await asyncio.wait([left])\n"
        "    assert isinstance(left.exception(), SystemExit)\n"
        "    return 'good'\n"
    )
    code, summary = answer(capsys, "run", suite("a", "b"), "--agent", "leaving.py:answer")
    assert (code, summary["passed"]) == (0, 2)


def test_what_an_agent_and_its_children_print_is_no_answer_of_ours():
    Path("loud.py").write_text(
        "import os, subprocess\n"
        "def answer(question):\n"
        "    print('printed', flush=True)\n"
        "    os.write(1, b'written\\n')\n"
        "    subprocess.run(['echo', 'of a child'], check=True)\n"
        "    return 'good'\n"
    )
    command = [sys.executable, "-m", "trivium", "run", suite("a"), "--agent", "loud.py:answer", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert json.loads(done.stdout)["passed"] == 1
    assert done.stderr == "printed\nwritten\nof a child\n"


@pytest.mark.parametrize(
    ("command", "captured"),
    [
        ("sh -c 'kill -9 $$'", "the command was killed by signal 9"),
        ("yes", "the output is larger than 1,000,000 bytes"),
        ("sleep 1000", "no answer within 1 s"),
        ("sh -c 'echo oops >&2; exit 1'", "the command ended with status 1: oops"),
        (r"printf '\377'", "the output is not UTF-8 (byte 0)"),
    ],
)
def test_a_run_ends_after_anything_a_command_does(capsys, command, captured):
    cases = suite("bad", seconds=time_for(captured))
    code, summary = answer(capsys, "run", cases, "--agent", f"cmd:{command}")
    assert code == 3
    assert summary["failures"][0]["why"].startswith(captured)


def score(capsys, output: dict, *cases: str, **keys) -> tuple[int, dict]:
    Path("outputs.jsonl").write_text(json.dumps(output) + "\n")
    return answer(capsys, "score", suite(*cases, **keys), "--outputs", "outputs.jsonl")


class TestTexts:
    """Texts that would be something else on a page, in a table, a terminal or a shell."""

    @pytest.fixture
    def reports(self, capsys):
        trace = {
            "trace_id": HOSTILE,
            "spans": [
                {"id": HOSTILE, "kind": "agent", "name": HOSTILE, "start": 0, "end": 2},
                {"id": "t", "parent": HOSTILE, "kind": "tool", "name": HOSTILE, "input": HOSTILE, "start": 1},
            ],
            "messages": [{"sender": HOSTILE, "receiver": "b", "type": HOSTILE, "content": HOSTILE}],
        }
        output = {"case": HOSTILE, "output": HOSTILE, "trace": trace, "metadata": {HOSTILE: HOSTILE}}
        code, _ = score(capsys, output, HOSTILE, "missing", name=HOSTILE, metrics=["jaccard", "tool_success"])
        assert code == 3
        files = ("--html", "r.html", "--markdown", "r.md", "--junit", "r.xml")
        assert run_command(["show", *files]) == 3
        return capsys.readouterr().out

    def test_are_texts_on_the_page(self, reports):
        page = Path("r.html").read_text(encoding="utf-8")
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert not re.search(r"\sonerror=alert\(1\)>(?!&)", page.replace("&gt;", ""))
        assert "\x00" not in page
        assert "49" not in re.findall(r"\{\{(.*?)\}\}", page)

    def test_are_texts_in_junit(self, reports):
        root = ElementTree.parse("r.xml").getroot()
        assert any("<script>alert(1)</script>" in (case.get("name") or "") for case in root.iter("testcase"))

    def test_are_texts_in_markdown(self, reports):
        markdown = Path("r.md").read_text(encoding="utf-8")
        outside_code = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", markdown)
        assert "<script>" not in outside_code
        assert "<img" not in outside_code
        assert "\x1b" not in markdown

    def test_do_not_steer_the_terminal(self, reports):
        assert "\x1b[31m" not in reports
        assert "\x07" not in reports
        assert "\u202e" not in reports

    def test_are_kept_and_can_be_exported_and_scored_again(self, reports, capsys):
        assert run_command(["export", "--what", "attempts", "--output", "again.jsonl"]) == 0
        (line,) = Path("again.jsonl").read_text(encoding="utf-8").splitlines()
        attempt = json.loads(line)
        assert attempt["output"] == HOSTILE.replace("\ud800", "\ufffd").replace("\x00", "\u2400")
        assert set(attempt["flags"]) == {"lone_surrogates", "nul"}
        code, summary = answer(capsys, "score", "s.json", "--outputs", "again.jsonl")
        assert (code, summary["attempts"]) == (3, 1)
        with Store(".trivium/store.db") as store:
            first, second = ([one.attempt for one in store.attempts(run)] for run in store.runs())
        assert first == second


class TestTraces:
    """Traces that are no tree, or that are broken."""

    def test_are_repaired_and_what_was_repaired_is_listed(self, capsys):
        spans = [
            {"id": "a", "parent": "b", "kind": "agent", "name": "a", "start": 0, "end": 9},
            {"id": "b", "parent": "a", "kind": "agent", "name": "b", "start": 1, "end": 8},
            {"id": "c", "parent": "nowhere", "kind": "tool", "name": "t", "start": 2, "end": 3},
            {"id": "c", "parent": "a", "kind": "tool", "name": "t", "start": 4, "end": 3},
            {"id": "d", "parent": "b", "kind": "tool", "name": "t", "start": 0, "end": 1},
            {"id": "e", "parent": "b", "kind": "tool", "name": "t", "start": 5},
        ]
        output = {"case": "1", "output": "good", "trace": {"spans": spans}}
        code, summary = score(capsys, output, "1", metrics=["jaccard", "tool_success"])
        assert (code, summary["metrics"]["tool_success"]["mean"]) == (0, 1.0)
        with Store(".trivium/store.db") as store:
            (stored,) = store.attempts(store.run())
        kinds = {problem.kind for problem in stored.attempt.trace.problems}
        assert kinds == {
            *("cycle", "orphan", "duplicate_id", "negative_duration", "clock_skew", "unfinished")
        }

    def test_of_fifty_thousand_spans_33_000_deep_are_scored_and_drawn(self, capsys):
        deep = [{"id": "0", "kind": "agent", "name": "a0", "start": 0.0, "end": 1.0}]
        deep += [
            {
                "id": f"{i}",
                "parent": f"{i - 1}",
                "kind": "agent",
                "name": f"a{i % 7}",
                "start": 0.0,
                "end": 1.0,
            }
            for i in range(1, 33_000)
        ]
        wide = [
            {
                "id": f"{i}",
                "parent": f"{i % 33_000}",
                "kind": "tool",
                "name": f"t{i % 5}",
                "start": 0,
                "end": 1,
            }
            for i in range(33_000, 50_000)
        ]
        output = {"case": "1", "output": "good", "trace": {"spans": [*deep, *wide]}}
        names = ["tool_success", "path_convergence", "coordination_quality", "centrality", "task_balance"]
        code, summary = score(capsys, output, "1", metrics=names)
        assert code == 0
        assert summary["metrics"]["tool_success"]["mean"] == 1.0
        assert {summary["metrics"][name]["n"] for name in names} == {1}
        assert run_command(["show", "--html", "r.html", "--quiet"]) == 0
        assert Path("r.html").stat().st_size < 20_000_000

    def test_that_cannot_be_read_are_an_error_of_their_scores_alone(self, capsys):
        Path("trace.json").write_text('{"spans": [')
        output = {"case": "1", "output": "good", "trace": {"file": "trace.json"}}
        code, summary = score(capsys, output, "1", metrics=["jaccard", "tool_success", "tool_efficiency"])
        assert code == 3
        assert summary["metrics"]["jaccard"]["mean"] == 1.0
        assert summary["metrics"]["tool_success"]["status"] == {"error": 1}
        assert summary["errors"] == {"attempts": 0, "scores": 4, "judgements": 0}
        assert any("the trace of the attempt cannot be read" in each for each in summary["warnings"])
