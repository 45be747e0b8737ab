"""Judges of worker processes, asked by the process of the run: same scores, one limit, budget and cache."""

import asyncio
import json
import socket
import threading
from collections import Counter
from functools import partial

import msgspec
import pytest

import trivium as tv
from tests.judge_server import Reaction, at, failure
from tests.metrics.judge.client.test_direct_client import call
from tests.metrics.judge.client.test_executor import GPT
from tests.metrics.judge.client.test_parameters import refuses
from tests.runs.judging.suites import MODEL, PRICES, billed, provider, suite
from tests.runs.worker_metrics import FATAL
from trivium.agents.failures import reason
from trivium.errors import TriviumError
from trivium.metrics.judge.budget.budget import BudgetExhausted
from trivium.metrics.judge.client import executor as executor_module
from trivium.metrics.judge.client import remote
from trivium.metrics.judge.client.executor import JudgeExecutor
from trivium.metrics.judge.client.model_factory import ModelUnavailable
from trivium.metrics.judge.client.models import Model
from trivium.metrics.judge.client.remote import MAX_TOKEN_BYTES, Address, UnexpectedError
from trivium.metrics.judge.client.request import GivenUp
from trivium.metrics.registry import REGISTERED, build_metrics
from trivium.runs.engines import processes
from trivium.runs.engines.workers import Workers
from trivium.store.judge_cache import cache_size
from trivium.store.store import Store
from trivium.suites.settings import JudgeSettings

CASES, AT_ONCE = 300, 5


@pytest.fixture(autouse=True)
def _no_more_metrics_than_before():
    before = dict(REGISTERED)
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


def outputs(count=CASES):
    return [{"case": f"c{index}", "output": f"Review {index}. It is sound."} for index in range(count)]


def scored(folder, name, **options):
    """A run, and its scores without what differs from time to time."""
    own = suite(CASES, concurrency=AT_ONCE)
    run = tv.evaluate(own, outputs=outputs(), store=f"{folder}/{name}.db", **options)
    return run, comparable(run)


def comparable(run):
    """The scores of a run; when an answer came, and so how long it took, differs from time to time."""
    found = []
    for each in run.evaluations():
        scores = msgspec.to_builtins(each.scores)
        for score in scores.values():
            score.get("detail", {}).pop("latency_seconds", None)
        found.append((each.case, scores, each.passed, each.composite.value))
    return found


def test_scores_and_costs_are_those_of_one_process(tmp_path, monkeypatch):
    seen = {}
    for name, workers in (("one", 1), ("two", 2)):
        with provider(monkeypatch) as server:
            run, scores = scored(tmp_path, name, workers=workers)
        spent = run.summary().spent
        assert spent.cost_usd == pytest.approx(billed(server)[0])
        seen[name] = scores, server.counts["requests"], spent.requests, round(spent.cost_usd, 9)
    assert seen["two"] == seen["one"]
    assert seen["two"][1] == CASES


def deadly(folder, **judge):
    """A run of two workers, one of whose attempts ends the process that scores it."""
    cases = [{"id": str(n), "input": f"Review paper {n}.", "references": ["sound"]} for n in range(CASES)]
    given = [{"case": str(n), "output": f"Review {n}. It is sound."} for n in range(CASES)]
    metrics = ["clarity", "tests.runs.worker_metrics:Deadly"]
    own = {"name": "lost", "cases": cases, "metrics": metrics, "judge": {"models": [MODEL]} | judge}
    return tv.evaluate(tv.Suite.from_dict(own), outputs=given, store=f"{folder}/lost.db", workers=2)


def test_a_worker_that_is_lost_costs_no_answer_twice(tmp_path, monkeypatch):
    """Its part is scored again, and what was judged already is in the cache."""
    with provider(monkeypatch) as server:
        run = deadly(tmp_path)
    prompts = Counter(question.prompt for question in server.requests)
    assert len(prompts) == CASES
    assert max(prompts.values()) == 1
    lost = [each.case for each in run.evaluations() if each.scores["clarity"].status == "error"]
    assert set(lost) == FATAL - {str(CASES)} == {"10"}


def test_a_model_that_cannot_be_asked_is_named_once(tmp_path, monkeypatch, caplog):
    with provider(monkeypatch, plan=lambda _: failure(401, message="no such key")) as server:
        run, _ = scored(tmp_path, "two", workers=2)
    assert server.counts["requests"] <= AT_ONCE
    assert caplog.text.count(f"the judge {MODEL} is off: gpt-4o-mini: HTTP 401: no such key") == 1
    assert run.summary().metrics["clarity"].status["fallback"] == CASES


def test_a_budget_that_is_used_up_is_named_once(tmp_path, monkeypatch, caplog):
    """The processes that follow lost ones say it again, with another sum for another request."""
    prices = {MODEL: {"input": 1000.0, "output": 1000.0}}
    with provider(monkeypatch) as server:
        deadly(tmp_path, budget_usd=1e-6, prices=prices)
    assert server.counts["requests"] == 0
    assert caplog.text.count("the budget of $1e-06 is used up") == 1


def test_a_certificate_keeps_a_run_in_one_process(tmp_path, monkeypatch, caplog):
    settings = suite(2).settings
    metrics = build_metrics(["clarity", "similarity"], settings)
    given = msgspec.structs.replace(settings.judge, certificate=("file.json",))
    certified = msgspec.structs.replace(settings, judge=given)
    assert processes.process_count(4, metrics, settings) == 4
    assert processes.process_count(None, metrics, settings) == 1, "a judged run waits for its provider"
    assert processes.process_count(4, metrics, certified) == 1
    assert "certificates follow all judgements in one process" in caplog.text


@pytest.fixture
def server(monkeypatch):
    with provider(monkeypatch, latency=0.01) as server:
        yield server


@pytest.fixture
def made():
    """Makes executors: the first asks, the others let it ask for them."""
    executors = []

    def make(count=1, on_lost=lambda: None, **settings):
        judge = JudgeSettings(**{"models": (GPT,)} | settings)
        executors.extend(JudgeExecutor(judge) for _ in range(1 + count))
        address = executors[0].serve("127.0.0.1")
        for each in executors[1:]:
            each.connect(address, on_lost=on_lost)
        return executors

    yield make
    for each in executors:
        each.close()


def ask(executor, *requests):
    async def all_of_them():
        asking = [executor.ask(GPT, each, about=("clarity",)) for each in requests]
        return await asyncio.gather(*asking, return_exceptions=True)

    return executor.submit(all_of_them)


def answers(executors, count=40):
    """The answers to distinct requests of all executors at the same time."""
    waiting = [
        ask(each, *[call(GPT, turns=(f"Text {place}.{n}.",)) for n in range(count)])
        for place, each in enumerate(executors)
    ]
    return [answer for each in waiting for answer in each.result()]


def test_all_executors_share_one_limit_of_requests_in_flight(made, server):
    assert len(answers(made(3, concurrency=AT_ONCE)[1:])) == 120
    assert server.peak_in_flight == AT_ONCE


def test_the_limit_is_used_while_more_waits_than_the_run_holds(made, server, monkeypatch):
    monkeypatch.setattr(executor_module, "MAX_CONCURRENT_JUDGEMENTS", 4 * AT_ONCE)
    monkeypatch.setattr(remote, "MAX_BYTES_IN_HAND", 100_000)
    there = made(2, concurrency=AT_ONCE)[1:]
    text = "A long text. " * 1_000
    waiting = [
        ask(each, *[call(GPT, turns=(f"{place}.{n}. {text}",)) for n in range(60)])
        for place, each in enumerate(there)
    ]
    found = [answer for each in waiting for answer in each.result()]
    assert {each.requests for each in found} == {1}
    assert (len(found), server.peak_in_flight) == (120, AT_ONCE)


def test_all_executors_share_one_budget(made, server):
    budget = {"budget_usd": 0.0009, "prices": PRICES, "concurrency": 2}
    found = answers(made(2, **budget)[1:])
    spent = [each for each in found if isinstance(each, BudgetExhausted)]
    assert 0 < len(spent) < len(found)
    assert all(str(each).startswith("the budget of $0.0009") for each in spent)
    assert billed(server)[0] <= 0.0009


def test_a_parameter_that_is_refused_is_left_out_by_all(made, server):
    plan = refuses("temperature")
    server.conditions = msgspec.structs.replace(server.conditions, plan=plan)
    found = answers(made(2, concurrency=AT_ONCE)[1:])
    refused = sum("temperature" in question.body for question in server.requests)
    assert refused <= 2 * AT_ONCE, "those in flight, and each that follows one before it is known"
    assert {each.left_out for each in found} == {("temperature",)}


def test_equal_requests_of_several_executors_are_sent_once(made, server):
    waiting = [ask(each, call(GPT)) for each in made(3)[1:]]
    found = [answer for each in waiting for answer in each.result()]
    assert sorted(each.requests for each in found) == [0, 0, 1]
    assert len({each.response.text for each in found}) == 1
    assert len(server.requests) == 1


def test_an_answer_that_is_dropped_is_asked_again(made, server):
    _, executor = made()
    (first,) = ask(executor, call(GPT)).result()
    executor.drop([first.key])
    (second,) = ask(executor, call(GPT)).result()
    assert (second.requests, len(server.requests)) == (1, 2)


@pytest.mark.parametrize("token", ["", "0" * 64, "é", "x" * (MAX_TOKEN_BYTES + 1)])
def test_without_the_token_nothing_is_answered(made, server, token):
    address = made(0)[0].serve("127.0.0.1")
    executor = JudgeExecutor(JudgeSettings(models=(GPT,)))
    with pytest.raises(TriviumError, match=r"cannot be reached at 127\.0\.0\.1:\d+: it ends the connection"):
        executor.connect(address._replace(token=token), on_lost=lambda: None)
    executor.close()


NO_TEXT = b"\0\0\0\x18\x82\xa4type\xa6_Hello\xa5token\xa4\xff\xff\xff\xff"
DEEP = b"\0\0\4\0\x83\xa4type\xa6_Hello\xa1x" + b"\x91" * 1000 + b"\xc0" * 9


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\1\xc1", b"\xff" * 8, NO_TEXT, DEEP])
def test_another_protocol_is_refused(made, server, sent, caplog):
    address = made(0)[0].serve("127.0.0.1")
    with socket.create_connection((address.host, address.port)) as client:
        client.sendall(sent)
        assert client.recv(100) == b""
    assert caplog.text == ""


def test_an_address_where_nobody_answers_is_named():
    executor = JudgeExecutor(JudgeSettings(models=(GPT,)))
    with pytest.raises(TriviumError, match=r"cannot be reached at 127\.0\.0\.1:1: "):
        executor.connect(Address("127.0.0.1", 1, ""), on_lost=lambda: None)
    executor.close()


def test_a_host_that_is_not_this_machine_is_named():
    executor = JudgeExecutor(JudgeSettings(models=(GPT,)))
    with pytest.raises(TriviumError, match="workers cannot reach the judges of the run"):
        executor.serve("192.0.2.1")  # reserved for documentation: no machine has it
    executor.close()


def test_an_executor_that_ends_is_noticed(made, server):
    lost = threading.Event()
    made(on_lost=lost.set)[0].close()
    assert lost.wait(60)


def test_a_connection_that_falls_silent_is_checked(made, server):
    """Else a worker whose connection a firewall has forgotten would wait for an answer for ever."""
    there = made()[1]
    end = there._models._connection._transport.get_extra_info("socket")
    assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_every_failure_travels(made, server):
    here, there = made()
    plan = partial(failure, 401, message="no such key")
    server.conditions = msgspec.structs.replace(server.conditions, plan=lambda _: plan())
    (one,), (other,) = ask(here, call(GPT)).result(), ask(there, call(GPT)).result()
    assert (type(other), str(other), other.transient) == (type(one), str(one), one.transient)
    found = []
    for executor in (here, there):
        with pytest.raises(ModelUnavailable) as failed:
            executor.submit(partial(executor.model, "nobody:gpt-5")).result()
        found.append(str(failed.value))
    assert found[0] == found[1] != ""
    name = Bad(here).name
    errors = [executor.submit(partial(executor.model, name)).exception() for executor in (here, there)]
    assert [reason(each) for each in errors] == ["NoSuchThing: here"] * 2


@pytest.mark.parametrize("client", ["auto", "pydantic-ai"])
def test_a_failure_that_utf_8_cannot_hold_is_told_nevertheless(made, server, client):
    """A provider's text may have a lone surrogate, as JSON escapes allow."""
    there = made(client=client)[1]
    body = rb'{"error": {"message": "no such \ud800 key"}}'
    refusal = Reaction(kind="failure", status=401, body=body)
    server.conditions = msgspec.structs.replace(server.conditions, plan=lambda _: refusal)
    (found,) = ask(there, call(GPT)).result(60)
    assert isinstance(found, GivenUp)
    assert str(found).endswith("no such \ufffd key")


def test_an_answer_that_utf_8_cannot_hold_is_stored_and_asked_again(tmp_path, monkeypatch):
    message = {"role": "assistant", "content": "no JSON \ud800"}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    chat = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    garbled = Reaction(kind="garbled", body=json.dumps(chat).encode())
    with provider(monkeypatch, plan=at({0: garbled})) as server, Store(f"{tmp_path}/one.db") as store:
        run = tv.evaluate(suite(1), outputs=outputs(1), store=store)
        assert [each.scores["clarity"].status for each in run.evaluations()] == ["ok"]
        assert cache_size(store).answers == len(server.requests) == 2


def test_a_reply_that_cannot_be_sent_is_told(made, server):
    here, there = made()
    name = Bad(here, model=Model(name="\ud800", provider="", address="", model="", thinks=False)).name
    with pytest.raises(UnexpectedError, match="^UnicodeEncodeError: "):
        there.submit(partial(there.model, name)).result(60)


class NoSuchThing(Exception):
    """An error that nobody expects."""


class Bad:
    """A model that fails to open in a way that nobody expects, or opens as one that cannot be sent."""

    name = "bad"

    def __init__(self, executor, model=None):
        opened = model

        async def model(_):
            if opened is None:
                raise NoSuchThing("here")
            return opened

        executor._local.model = model


def test_no_worker_starts_where_a_run_is_judged_until_it_is_decided(tmp_path, monkeypatch):
    monkeypatch.setattr(Workers, "scored", None)
    own = suite(30, metrics=("clarity",), concurrency=1).with_settings(
        until_decided=True, gates={"clarity": {"at_least": 0.3}}
    )
    with provider(monkeypatch), Store(f"{tmp_path}/one.db") as store:
        run = tv.evaluate(own, outputs=outputs(30), store=store, workers=2)
    assert run.summary().gates[0].answer == "pass"
