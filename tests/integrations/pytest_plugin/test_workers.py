"""Several workers gather one run, and what ends early goes on where it was."""

from pathlib import Path
from threading import Event, Thread
from xml.etree import ElementTree

import pytest

from tests.integrations.pytest_plugin.sessions import (
    ASSERTING_EACH,
    PLUGIN,
    asked,
    runs,
    session,
    write_tests,
)
from trivium.integrations.pytest.session import exclusive_lock

pytest_plugins = ["pytester"]


def test_control_c_keeps_what_is_there_and_says_how_to_go_on(folder: pytest.Pytester) -> None:
    folder.path.joinpath("capital_agents.py").write_text("""
import _thread, asyncio, pathlib
async def agent(country):
    with open("asked.txt", "a") as file:
        file.write(country + "\\n")
    if country == "Laos" and not pathlib.Path("again").exists():
        pathlib.Path("again").touch()
        _thread.interrupt_main()
        await asyncio.sleep(3600)
    return country
""")
    write_tests(
        folder,
        "def test_one(trivium_attempt):\n    pass\n",
        mark='"capitals.yaml", agent=agent, limits={"attempts_at_once": 1}',
    )

    cut = folder.runpytest_inprocess(*PLUGIN, no_reraise_ctrlc=True)

    assert cut.ret == pytest.ExitCode.INTERRUPTED
    cut.stdout.fnmatch_lines(
        ["*capitals: interrupted; 2 attempts are stored. Resume with", "  pytest *-resume *"]
    )
    line = next(line for line in cut.outlines if "--trivium-resume" in line)

    session(folder, "--trivium-resume", line.split()[-1]).assert_outcomes(passed=4)

    assert asked(folder) == {"France": 1, "Peru": 1, "Laos": 2, "Italy": 1}
    assert len(runs(folder)) == 1


@pytest.mark.cpu(12, "pytest runs in several processes")
def test_workers_gather_one_run_and_ask_nothing_twice(
    folder: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting = folder.mkdir("meeting")
    monkeypatch.setenv("TMPDIR", str(meeting))
    gate = "def test_rate(trivium_run):\n    assert trivium_run['pass_rate'] >= 0.9\n"
    write_tests(folder, ASSERTING_EACH + gate)

    options = ("-p", "xdist", "-n", "2", "--junitxml=junit.xml", "--trivium-compare", "previous")
    result = folder.runpytest_subprocess(*PLUGIN, *options)

    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(["capitals *", "4 attempts of 4 cases*", "*no earlier run to compare*"])
    assert not list(meeting.iterdir())
    assert asked(folder) == {f"{country} 0": 1 for country in ("France", "Peru", "Laos", "Italy")}
    (run,) = runs(folder)
    tests = {
        test.get("name"): {each.get("name"): each.get("value") for each in test.iter("property")}
        for test in ElementTree.parse(folder.path / "junit.xml").iter("testcase")
    }
    assert {properties["trivium.run"] for properties in tests.values()} == {run}
    assert tests["test_one[fr]"]["trivium.score.jaccard"] == "1.0"
    assert tests["test_one[la]"]["trivium.composite"] == "0.0"
    assert tests["test_rate"]["trivium.pass_rate"] == "0.5"
    # The exact interval of 2 of 4
    assert tests["test_rate"]["trivium.pass_rate.ci95"] == "[0.068, 0.932]"


def test_when_a_worker_dies_another_goes_on_where_it_was(folder: pytest.Pytester) -> None:
    folder.path.joinpath("capital_agents.py").write_text("""
import os, pathlib
def agent(country):
    if country == "Laos" and not pathlib.Path("again").exists():
        pathlib.Path("again").touch()
        os._exit(1)
    with open("asked.txt", "a") as file:
        file.write(country + "\\n")
    return country
""")
    body = "def test_one(trivium_attempt):\n    pass\n"
    write_tests(folder, body, mark='"capitals.yaml", agent=agent, limits={"attempts_at_once": 1}')

    result = folder.runpytest_subprocess(*PLUGIN, "-p", "xdist", "-n", "1")

    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["4 attempts of 4 cases*"])
    assert set(asked(folder)) == {"France", "Peru", "Laos", "Italy"}
    assert len(runs(folder)) == 1


def test_a_file_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    held, ended, second = Event(), Event(), Event()

    def hold() -> None:
        with exclusive_lock(tmp_path / "lock"):
            held.set()
            ended.wait(60)

    def follow() -> None:
        with exclusive_lock(tmp_path / "lock"):
            assert ended.is_set()
            second.set()

    threads = [Thread(target=hold), Thread(target=follow)]
    threads[0].start()
    assert held.wait(60)
    threads[1].start()
    assert not second.wait(0.8)  # longer than it waits before it looks up
    ended.set()
    for thread in threads:
        thread.join()
    assert second.is_set()
