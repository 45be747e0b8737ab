"""``trivium confirm``, ``compare --confirm`` and ``run --confirm`` as a user types them."""

import json
from pathlib import Path

import pytest

from trivium.cli.main import run_command

AGENT = """
from pathlib import Path


def answer(question, *, repeat):
    with Path("{name}.log").open("a") as log:
        log.write(question + "\\n")
    if {fails!r} and repeat:
        raise RuntimeError("the key has expired")
    output = "no" if question in {broken!r} else "yes"
    return {{"output": output, "usage": {{"input_tokens": 100, "output_tokens": 10, "cost_usd": 0.01}}}}
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cases = [{"id": f"q{i}", "input": f"q{i}", "references": ["yes"]} for i in range(30)]
    suite = {"name": "small", "metrics": ["success"], "success": {"exact": True}, "cases": cases}
    Path("suite.json").write_text(json.dumps(suite))
    agent("before")
    agent("after", broken=["q3", "q7"])


def agent(name, *, broken=(), fails=False):
    text = AGENT.format(name=name, broken=list(broken), fails=fails)
    Path(f"{name}.py").write_text(text)


@pytest.fixture
def outcome(capsys):
    def call(*arguments):
        capsys.readouterr()
        code = run_command(list(map(str, arguments)))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def asked(name):
    log = Path(f"{name}.log")
    return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.fixture
def runs(outcome):
    found = []
    for name in ("before", "after"):
        _, out, err = outcome("run", "suite.json", "--agent", f"{name}.py:answer", "--json")
        assert out, err
        found.append(json.loads(out)["run"])
        Path(f"{name}.log").unlink()
    return found


def flat(text):
    return " ".join(text.split())


def test_it_says_what_it_costs_before_and_what_was_asked_and_broke_after(outcome, runs):
    code, out, err = outcome("confirm", "--calls", 30)  # the newest run, against the one before
    made = asked("before"), asked("after")

    assert "asking again: at most 30 calls, about $0.3000, 3,300 tokens if a call costs" in flat(err)
    assert f"{sum(made)} further attempts were made: {made[0]} of base and {made[1]} of head" in flat(out)
    assert f"head ${made[1] / 100:.4f}, {110 * made[1]} tokens" in flat(out)
    assert "Broke: q3 and q7." in flat(out)
    assert code in {0, 1}
    listed = outcome("list")[1]
    assert flat(listed).count("small · answer, confirms") == 2


def test_compare_asks_first_and_shows_what_it_is_asked_for(outcome, runs):
    code, out, _ = outcome("compare", "--confirm", 20, "--json", "--policy", "proof", "--about", "these")
    shown = json.loads(out)

    assert (shown["base"], shown["head"]) == tuple(runs)
    confirmed = shown["confirmed"]
    assert (
        confirmed["base"]["attempts"] + confirmed["head"]["attempts"]
        == asked("before") + asked("after")
        <= 20
    )
    assert code in {1, 4}
    markdown = outcome("compare", *runs, "--markdown", "-")[1]
    assert "further attempts were made" in markdown
    outcome("compare", *runs, "--html", "page.html", "--quiet")
    assert "further attempts were made" in Path("page.html").read_text()


def test_a_run_is_confirmed_against_another(outcome, runs):
    code, out, err = outcome(
        *("run", "suite.json", "--agent", "after.py:answer", "--against", runs[0], "--confirm", 20),
    )

    assert asked("after") > 30
    assert asked("before") > 0
    assert "Broke: q3 and q7." in flat(out)
    assert "asking again: at most 20 calls" in flat(err)
    assert code in {0, 1}


def test_the_agent_of_the_suite_is_asked(outcome, runs):
    suite = json.loads(Path("suite.json").read_text()) | {"agent": "after.py:answer"}
    Path("suite.json").write_text(json.dumps(suite))
    outcome("run", "suite.json", "--against", runs[0], "--confirm", 20, "--quiet")

    assert asked("after") > 30


def test_the_policy_decides_the_exit_code(outcome, runs):
    assert outcome("confirm", *runs, "--calls", 8, "--policy", "strict", "--quiet")[0] == 1
    assert outcome("compare", *runs, "--policy", "proof", "--margin", 0.9, "--quiet")[0] in {0, 4}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["confirm", "nowhere", "RUN", "--calls", "5"], 'no run is called "nowhere"'),
        (["confirm", "BASE", "RUN", "--calls", "0"], "'--calls': 0 is not in the range x>=1"),
        (["confirm", "BASE", "RUN", "--calls", "-4"], "'--calls': -4 is not in the range x>=1"),
        (["confirm", "BASE", "RUN", "--calls", "many"], "'many' is not a valid integer"),
        (["confirm", "BASE", "RUN"], "Missing option '--calls'"),
        (["confirm", "BASE", "RUN", "--calls", "5", "--agent", "gone.py:answer"], "there is no file gone.py"),
        (["compare", "--confirm", "0"], "'--confirm': 0 is not in the range x>=1"),
        (
            ["compare", "--agent", "after.py:answer"],
            "--agent says who is asked again: it needs --confirm CALLS",
        ),
        (
            ["run", "suite.json", "--agent", "after.py:answer", "--confirm", "5"],
            "--confirm CALLS needs --against",
        ),
        (
            [*("run", "suite.json", "--agent", "after.py:answer", "--against", "BASE"), "--confirm", "0"],
            "'--confirm': 0 is not in the range x>=1",
        ),
        (
            ["run", "suite.json", "--agent", "after.py:answer", "--against", "nowhere", "--confirm", "5"],
            'no run is called "nowhere"',
        ),
        (
            [
                *("run", "suite.json", "--agent", "x.py:a", "--against", "BASE"),
                "--confirm",
                "5",
                "--until-decided",
            ],
            "--confirm and --until-decided exclude each other",
        ),
    ],
)
def test_bad_input_is_said_in_plain_words_and_nothing_is_asked(outcome, runs, words, message):
    names = {"BASE": runs[0], "RUN": runs[1]}
    code, _, err = outcome(*(names.get(word, word) for word in words))

    assert code == 2
    assert message in flat(err)
    assert (asked("before"), asked("after")) == (0, 0)


def test_an_agent_that_fails_at_every_attempt_ends_with_2(outcome, runs):
    agent("after", broken=["q3", "q7"], fails=True)
    code, _, err = outcome("confirm", *runs, "--calls", 30)

    assert code == 2
    assert "after.py:answer: all of the first" in flat(err)
    assert "the key has expired" in flat(err)
    assert "nothing is decided by them, and they do not count" in flat(err)


def test_costs_below_zero_are_refused(outcome):
    suite = json.loads(Path("suite.json").read_text()) | {"decide": {"costs": {"call": -1}}}
    Path("suite.json").write_text(json.dumps(suite))
    code, _, err = outcome("run", "suite.json", "--agent", "after.py:answer")

    assert code == 2
    assert "decide.costs.call: found the number -1, expected a number of at least 0" in flat(err)


def test_calls_that_cost_more_than_they_save_are_not_made(outcome):
    suite = json.loads(Path("suite.json").read_text()) | {"decide": {"costs": {"call": 1}}}
    Path("suite.json").write_text(json.dumps(suite))
    for name in ("before", "after"):
        outcome("run", "suite.json", "--agent", f"{name}.py:answer", "--quiet")
        Path(f"{name}.log").unlink()
    outcome("compare", "--confirm", 30)

    assert (asked("before"), asked("after")) == (0, 0)
