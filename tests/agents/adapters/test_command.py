import asyncio
import os
import select
import sys
import threading

import pytest

from tests.agents.asked import asked
from trivium.agents.adapters.command import CommandAgent
from trivium.agents.invoke import attempt_seed, invoke
from trivium.errors import AgentError
from trivium.suites.case import Case
from trivium.suites.settings import Limits


def python(code):
    return [sys.executable, "-c", code]


def test_the_input_goes_in_and_what_is_printed_is_the_output():
    assert asked("cmd:cat", input="grüße\n").output == "grüße\n"


def test_an_input_that_is_no_text_goes_in_as_json():
    assert asked("cmd:cat", input={"a": [1, "é"]}).output == '{"a":[1,"é"]}'


def test_a_command_is_split_as_a_shell_would_but_runs_in_none():
    assert asked("cmd: printf '%s|' 'a b' $HOME *").output == "a b|$HOME|*|"


def test_the_environment_holds_case_repeat_and_seed():
    code = (
        "import os; print(*(os.environ['TRIVIUM_' + k] for k in ('CASE', 'REPEAT', 'SEED')), sep='|', end='')"
    )
    assert asked(python(code), repeat=3, seed=9).output == f"c1|3|{attempt_seed(9, 'c1', 3)}"


def test_a_command_need_not_read_its_input():
    assert asked(python("print('done')"), input="x" * 5_000_000).output == "done\n"


def test_a_status_other_than_zero_fails_the_attempt_with_the_end_of_its_complaints():
    code = """if True:
        import sys
        sys.stderr.write("a-very-long-word" * 10_000 + " the reason, token=abc12345")
        print("half")
        sys.exit(3)
    """
    attempt = asked(python(code))
    assert attempt.error == "the command ended with status 3: … the reason, token=[masked]"
    assert attempt.output is None


def test_a_status_without_a_word_is_a_reason_too():
    assert asked("cmd:false").error == "the command ended with status 1"


def test_a_killed_command_fails_its_attempt():
    code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    assert asked(python(code)).error == "the command was killed by signal 15"


def test_a_flood_is_cut_off_without_being_held():
    code = "import sys\nwhile True: sys.stdout.write('x' * 1_000_000)"
    attempt = asked(python(code), output_bytes=100_000)
    assert attempt.error == "the output is larger than 100,000 bytes (limits.output_bytes)"


def test_output_that_is_no_text_fails_its_attempt():
    attempt = asked(python("import sys; sys.stdout.buffer.write(b'ab\\xff')"))
    assert attempt.error == "the output is not UTF-8 (byte 2)"


def wait_until_gone(pid):
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 60)[0])
    finally:
        os.close(handle)


PARENT = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
with open(sys.argv[1], "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
"""


@pytest.fixture
def pids(tmp_path):
    """A pipe through which a command tells its own id and that of the child it started."""
    path = tmp_path / "pids"
    os.mkfifo(path)
    return path


def test_what_a_command_leaves_running_does_not_hold_it_up(pids):
    command = [*python(PARENT + "print('done')"), str(pids)]

    async def run():
        pid_text = asyncio.create_task(asyncio.to_thread(pids.read_text))
        attempt = await invoke(CommandAgent(command), Case(id="1", input=""), 0, Limits(), seed=1)
        return attempt, await pid_text

    attempt, pid_text = asyncio.run(run())
    assert attempt.output == "done\n"
    assert all(wait_until_gone(int(pid)) for pid in pid_text.split())


def test_a_cancelled_run_kills_its_command_with_all_that_it_started(pids):
    command = [*python(PARENT + "child.wait()"), str(pids)]
    pid_text = ""

    async def run():
        nonlocal pid_text
        task = asyncio.create_task(invoke(CommandAgent(command), Case(id="1", input=""), 0, Limits(), seed=1))
        pid_text = await asyncio.to_thread(pids.read_text)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
    assert all(wait_until_gone(int(pid)) for pid in pid_text.split())


def test_commands_run_from_any_thread():
    outputs = []
    thread = threading.Thread(target=lambda: outputs.append(asked("cmd:cat", input="q").output))
    thread.start()
    thread.join(timeout=60)
    assert outputs == ["q"]


def test_a_command_over_its_time_fails_its_attempt():
    attempt = asked("cmd:sleep 1000", seconds=0.05)
    assert attempt.error == "no answer within 0.05 s (limits.seconds)"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("cmd:", "the command is empty"),
        ("cmd:echo 'open", "cannot be split into words: No closing quotation"),
        ("cmd:no-such-program-here --x", 'there is no program "no-such-program-here"'),
    ],
)
def test_a_command_that_cannot_run_is_refused_beforehand(command, says):
    with pytest.raises(AgentError, match=says):
        asked(command)


def test_a_program_that_goes_away_fails_its_attempt(tmp_path):
    program = tmp_path / "agent.sh"
    program.write_text("#!/bin/sh\ncat\n")
    program.chmod(0o755)
    agent = CommandAgent([str(program)])
    program.unlink()
    attempt = asyncio.run(invoke(agent, Case(id="1", input=""), 0, Limits(), seed=1))
    assert "No such file or directory" in attempt.error
