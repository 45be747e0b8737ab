import asyncio
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import numpy as np
import pytest

import trivium as tv
from tests.agents.asked import Waits, asked
from trivium.agents.attempt import AgentFailure, Attempt
from trivium.agents.invoke import Waiting, attempt_seed, invoke
from trivium.agents.loading import load_agent
from trivium.suites.case import Case
from trivium.suites.settings import Limits


class Failing:
    """Raises each of the given errors once, then answers."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, question):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


class Refused(Exception):
    """As the clients of model providers raise it."""

    def __init__(self, status, headers=None):
        super().__init__(f"refused with {status}")
        self.status_code = status
        self.response = httpx.Response(status, headers=headers or {})


def test_an_answer_is_an_attempt_of_its_case_and_repeat():
    attempt = asked(str.upper, input="shout", repeat=3)
    assert (attempt.case, attempt.repeat, attempt.output, attempt.error) == ("c1", 3, "SHOUT", None)
    assert 0 <= attempt.seconds < 60
    assert attempt.metadata == {}


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError("gone"),
        TimeoutError("the socket"),
        httpx.ConnectError("no route"),
        httpx.ReadTimeout("slow"),
        Refused(408),
        Refused(425),
        Refused(429),
        Refused(500),
        Refused(503),
        AgentFailure("try me again", retryable=True),
    ],
    ids=repr,
)
def test_what_may_pass_is_asked_again(error):
    agent, waits = Failing(error), Waits()
    attempt = asked(agent, waits=waits)
    assert attempt.output == "answer"
    assert attempt.metadata == {"tries": 2}
    assert (agent.calls, len(waits)) == (2, 1)


@pytest.mark.parametrize(
    "error",
    [ValueError("mine"), Refused(400), Refused(401), Refused(404), AgentFailure("no"), KeyError("k")],
    ids=repr,
)
def test_what_will_not_pass_is_asked_once(error):
    agent, waits = Failing(error), Waits()
    attempt = asked(agent, waits=waits)
    assert attempt.failed
    assert (agent.calls, waits) == (1, [])


def test_an_error_says_itself_whether_asking_again_helps():
    busy, final = ValueError("busy"), ConnectionError("banned")
    busy.retryable, final.retryable = True, False
    assert asked(Failing(busy)).output == "answer"
    assert asked(Failing(final)).error == "ConnectionError: banned"


def test_an_error_raised_from_one_of_the_connection_is_asked_again():
    wrapped = RuntimeError("the client's own")
    wrapped.__cause__ = httpx.ConnectError("no route")
    assert asked(Failing(wrapped)).output == "answer"


def test_retries_end_and_the_reason_counts_the_tries():
    agent = Failing(*[ConnectionError("down")] * 9)
    attempt = asked(agent, retries=3)
    assert agent.calls == 4
    assert attempt.error == "ConnectionError: down (tried 4 times)"
    assert attempt.metadata == {"tries": 4}


def test_no_retries_when_none_are_wanted():
    agent = Failing(ConnectionError("down"))
    assert asked(agent, retries=0).error == "ConnectionError: down"
    assert agent.calls == 1


def test_waits_double_within_their_jitter_and_repeat_with_the_seed():
    def waits_of(seed):
        waits = Waits()
        asked(Failing(*[ConnectionError()] * 9), retries=9, waits=waits, seed=seed)
        return waits

    waits = waits_of(1)
    full = [min(30.0, 0.5 * 2**n) for n in range(9)]
    assert all(bound / 2 <= wait <= bound for wait, bound in zip(waits, full, strict=True))
    assert waits == waits_of(1)
    assert waits != waits_of(2)


@pytest.mark.parametrize("header", ["7", " 7 "])
def test_a_server_that_says_when_is_not_asked_earlier(header):
    waits = Waits()
    asked(Failing(Refused(429, {"Retry-After": header})), waits=waits)
    assert waits == [7.0]


def test_a_wait_that_the_cause_of_an_error_asks_for_is_observed():
    wrapped = RuntimeError("the model cannot be asked")
    wrapped.__cause__ = Refused(429, {"Retry-After": "7"})
    waits = Waits()
    asked(Failing(wrapped), waits=waits)
    assert waits == [7.0]


def test_a_date_in_retry_after_counts_from_now():
    waits = Waits()
    then = datetime.now(UTC) + timedelta(seconds=100)
    when = format_datetime(then, usegmt=True)  # in whole seconds
    asked(Failing(Refused(503, {"Retry-After": when})), waits=waits)
    assert (then - datetime.now(UTC)).total_seconds() - 1 <= waits[0] <= 100


@pytest.mark.parametrize("header", ["soon", "-5", "1e5", "Mon, 99 Foo"])
def test_an_unreadable_retry_after_changes_nothing(header):
    waits = Waits()
    asked(Failing(Refused(429, {"Retry-After": header})), waits=waits)
    assert 0.25 <= waits[0] <= 0.5


def test_a_date_without_a_zone_is_utc():
    waits = Waits()
    asked(Failing(Refused(429, {"Retry-After": "Wed, 21 Oct 2015 07:28:00"})), waits=waits)
    assert 0.25 <= waits[0] <= 0.5


def test_a_wait_longer_than_an_attempt_may_take_is_given_up():
    waits = Waits()
    attempt = asked(Failing(Refused(429, {"Retry-After": "86400"})), waits=waits)
    assert "asked to wait 86,400 s" in attempt.error
    assert waits == []


def test_a_hanging_coroutine_is_given_up_and_not_asked_again():
    calls = []

    async def hang(question):
        calls.append(question)
        await asyncio.Event().wait()

    attempt = asked(hang, seconds=0.05)
    assert attempt.error == "no answer within 0.05 s (limits.seconds)"
    assert len(calls) == 1
    assert attempt.seconds >= 0.05


def test_a_coroutine_that_will_not_be_cancelled_is_left_behind():
    async def both():
        release = asyncio.Event()

        async def stubborn(question):
            while True:
                try:
                    await release.wait()
                    return "too late"
                except asyncio.CancelledError:
                    continue

        agent, case = load_agent(stubborn), Case(id="1", input="")
        attempt = await invoke(agent, case, 0, Limits(seconds=0.02), seed=1, waiting=Waiting(grace=0.02))
        release.set()
        return attempt

    assert asyncio.run(both()).error.startswith("no answer within")


def test_a_coroutine_that_cancels_itself_fails_its_attempt_only():
    async def cancels(question):
        raise asyncio.CancelledError

    assert asked(cancels).error == "the agent cancelled itself"


def test_a_coroutine_that_wants_to_end_the_process_fails_its_attempt_only():
    async def leaves(question):
        raise SystemExit(3)

    assert asked(leaves).error == "the agent raised SystemExit: 3"


def test_ctrl_c_in_a_coroutine_ends_the_run():
    async def interrupted(question):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asked(interrupted)


def test_a_cancelled_run_cancels_its_agent():
    state = []

    async def run():
        asked_now = asyncio.Event()

        async def agent(question):
            asked_now.set()
            try:
                await asyncio.Event().wait()
            finally:
                state.append("cleaned up")

        task = asyncio.create_task(invoke(load_agent(agent), Case(id="1", input=""), 0, Limits(), seed=1))
        await asked_now.wait()
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
    assert state == ["cleaned up"]


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (float("nan"), "the output is nan, which JSON does not have"),
        ({"a": [1.0, float("inf")]}, "output.a[1] is inf, which JSON does not have"),
        (b"bytes", "the output is a bytes, which is no JSON value; expected a text or a JSON value"),
        pytest.param(
            object(),
            "the output is an object, which is no JSON value; expected a text or a JSON value",
            id="object",
        ),
        ({1.5: "x"}, "the output has a key of type float; JSON has texts only"),
        (None, "nothing came back"),
        ({"output": None}, "nothing came back"),
        (Attempt(case="", output="x", seconds=float("nan")), "seconds is nan; expected a finite number"),
        (Attempt(case="", output="x", seconds=-1.0), "seconds is -1.0; expected a finite number"),
        (Attempt(case="", output="x", reward=float("inf")), "reward is inf; expected a finite number"),
    ],
    ids=repr,
)
def test_nonsense_is_a_failed_attempt_with_its_reason(output, reason):
    attempt = asked(lambda question: output)
    assert (attempt.error, attempt.output) == (reason, None)


def test_an_output_over_the_limit_fails_its_attempt():
    assert asked(lambda q: "x" * 100, output_bytes=100).output == "x" * 100
    attempt = asked(lambda q: "x" * 101, output_bytes=100)
    assert attempt.error == "the output is larger than 100 bytes (limits.output_bytes)"
    assert attempt.output is None


def test_the_limit_counts_bytes_not_characters():
    assert asked(lambda q: "é" * 60, output_bytes=100).failed
    assert asked(lambda q: ["é" * 30] * 2, output_bytes=100).failed


def test_what_stores_cannot_hold_is_replaced_and_flagged():
    attempt = asked(lambda q: "a\0b\ud800c")
    assert attempt.output == "a\u2400b\ufffdc"
    assert set(attempt.flags) == {"lone_surrogates", "nul"}


def test_secrets_do_not_reach_the_reason():
    def agent(question):
        raise ValueError("401 for https://api.example/v1?api_key=abc123secret with Bearer abcdefghij1234")

    error = asked(agent).error
    assert "abc123secret" not in error
    assert "abcdefghij1234" not in error
    assert "401 for https://api.example/v1" in error


def test_a_long_reason_is_cut_with_a_count():
    def agent(question):
        raise ValueError("word " * 2_000_000)

    error = asked(agent).error
    assert len(error) < 2_100
    assert "characters more)" in error


def test_an_unreadable_reason_is_reported():
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError

    def agent(question):
        raise Odd

    assert asked(agent).error == "Odd: (its text cannot be read)"


def test_every_attempt_has_a_seed_of_its_own_that_repeats_with_the_run():
    seeds = {attempt_seed(s, c, r) for s in range(5) for c in ("a", "b", "a\0") for r in range(5)}
    assert len(seeds) == 75
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert attempt_seed(1, "a", 0) == attempt_seed(1, "a", 0)


def test_many_attempts_at_once_each_keep_their_own_answer():
    gate = threading.Barrier(8)

    def agent(question):
        gate.wait(timeout=30)
        return question

    async def run():
        adapter = load_agent(agent)
        cases = [Case(id=str(i), input=f"q{i}") for i in range(8)]
        return await asyncio.gather(*(invoke(adapter, case, 0, Limits(), seed=1) for case in cases))

    assert [attempt.output for attempt in asyncio.run(run())] == [f"q{i}" for i in range(8)]


@pytest.mark.parametrize(
    "fields",
    [
        {"usage": {"input_tokens": "many"}}, {"usage": 3}, {"reward": "high"}, {"error": 7},
        {"seconds": "long"}, {"metadata": "none"}, {"metadata": {3: 4}}, {"flags": "late"}, {"flags": (1,)},
    ],
)  # fmt: skip
def test_a_field_of_the_wrong_type_fails_that_attempt_alone(fields, tmp_path):
    def agent(question):
        return tv.Attempt(case="", output="yes", **(fields if question == "bad" else {}))

    cases = [{"id": each, "input": each, "references": ["yes"]} for each in ("good", "bad", "fine")]
    run = tv.evaluate(cases, agent=agent, metrics=["success"], store=f"sqlite:///{tmp_path / 's.db'}")
    errors = {attempt.case: attempt.error for attempt in run.attempts()}
    assert (errors["good"], errors["fine"]) == (None, None)
    assert "has a field of the wrong type" in errors["bad"]


def test_the_fields_of_an_attempt_may_be_what_their_names_say(tmp_path):
    def agent(question):
        usage = {"input_tokens": 3, "cost_usd": 0.5}
        return tv.Attempt(case="", output="yes", usage=usage, reward=np.float32(0.5), metadata={"a": (1, 2)})

    cases = [{"id": "a", "input": "q", "references": ["yes"]}]
    run = tv.evaluate(cases, agent=agent, metrics=["success"], store=f"sqlite:///{tmp_path / 's.db'}")
    (attempt,) = run.attempts()
    assert attempt.usage.input_tokens == 3
    assert attempt.reward == 0.5
    assert attempt.error is None
