"""Tests that cached responses are not requested again."""

from datetime import UTC, datetime

import msgspec
import pytest

import trivium as tv
from tests.judge_server import MALFORMED, at, fill, rate_limited
from tests.runs.judging.suites import MODEL, provider, run, suite
from trivium.cli.main import run_command
from trivium.store.judge_cache import cache_size
from trivium.store.store import Store
from trivium.suites.settings import JudgeSettings


@pytest.fixture
def store(tmp_path):
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened


def exported(store: Store, run: str, what: str, capfdbinary) -> bytes:
    capfdbinary.readouterr()
    assert run_command(["export", run, "--what", what, "--stable", "--store", store.url]) == 0
    return capfdbinary.readouterr().out


def test_the_same_suite_again_asks_nothing_and_exports_the_same_bytes(store, monkeypatch, capfdbinary):
    """On a bad day, and with a judge that would say something else each time it is asked."""
    judged = suite(5, metrics=("similarity", "clarity", "constructiveness"), samples=2)
    plan = at({1: MALFORMED, 4: MALFORMED, 6: rate_limited()})
    with provider(monkeypatch, plan=plan, vary=True) as server:
        first = run(judged, store)
        asked = len(server.requests)
        second = run(judged, store)
        assert len(server.requests) == asked == 13
    for what in ("scores", "judgements"):
        one, other = (exported(store, each.id, what, capfdbinary) for each in (first, second))
        assert one == other
        assert b'"clarity"' in one
    spent = second.summary().spent
    assert (spent.requests, spent.cost_usd, spent.input_tokens) == (0, 0.0, 0)
    assert spent.from_cache >= 10


def test_what_is_exported_as_a_judgement_was_given_by_a_judge(store, monkeypatch, capfdbinary):
    with provider(monkeypatch):
        judged = run(suite(2, metrics=("similarity", "agent")), store)
    assert judged.summary().metrics["agent.overall"].mean is not None
    rows = [
        msgspec.json.decode(line)
        for line in exported(store, judged.id, "judgements", capfdbinary).splitlines()
    ]
    assert {row["model"] for row in rows} == {MODEL}
    assert "completeness" in {row["dimension"] for row in rows}
    assert "agent.overall" not in {row["dimension"] for row in rows}


def test_without_the_cache_every_run_asks_anew(store, monkeypatch):
    with provider(monkeypatch) as server:
        for asked in (3, 6):
            run(suite(3, cache=False), store)
            assert len(server.requests) == asked


def test_samples_are_asked_for_one_by_one_though_their_prompt_is_the_same(store, monkeypatch):
    with provider(monkeypatch) as server:
        run(suite(2, samples=3), store)
        assert len(server.requests) == 6


def test_what_could_change_an_answer_has_it_asked_anew(store, monkeypatch):
    changes = [{}, {"temperature": 0.3}, {"seed": 7}, {"step": 0.5}, {"max_tokens": 900}, {"samples": 2}]
    with provider(monkeypatch) as server:
        for number, change in enumerate(changes):
            before = len(server.requests)
            run(suite(1, **change), store)
            assert len(server.requests) > before, changes[number]


def test_what_could_not_change_an_answer_has_it_found(store, monkeypatch):
    with provider(monkeypatch) as server:
        run(suite(2), store)
        for change in ({"timeout": 3}, {"concurrency": 1}, {"budget_usd": 1.0}, {"on_failure": "fail"}):
            run(suite(2, **change), store)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-another-key-of-another-day")
        run(suite(2), store)
        assert len(server.requests) == 2


def test_no_key_is_in_the_store(store, tmp_path, monkeypatch):
    with provider(monkeypatch):
        run(suite(2), store)
    for file in tmp_path.iterdir():
        assert b"not-a-secret" not in file.read_bytes()


def test_one_score_remembers_within_the_process_alone(monkeypatch):
    with provider(monkeypatch) as server:
        judge = JudgeSettings(models=("openai:gpt-4o-mini",))
        for _ in range(2):
            assert tv.score("clarity", output="It is sound.", judge=judge).status == "ok"
        assert len(server.requests) == 2


def test_emptying_the_cache_has_all_asked_anew(store, monkeypatch):
    with provider(monkeypatch) as server:
        run(suite(2), store)
        assert run_command(["doctor", "--empty-cache", "--store", store.url]) == 0
        run(suite(2), store)
        assert len(server.requests) == 4


def test_the_doctor_says_how_large_the_cache_is(store, monkeypatch, capsys):
    with provider(monkeypatch):
        run(suite(2), store)
    assert run_command(["doctor", "--json", "--store", store.url]) == 0
    findings = {one["what"]: one for one in msgspec.json.decode(capsys.readouterr().out)}
    size = cache_size(store).bytes
    today = datetime.now(tz=UTC).date()
    assert findings["cache"]["found"].startswith(
        f"2 answers of judges, {size:,} bytes, all used since {today}"
    )
    assert run_command(["doctor", "--empty-cache", "--store", store.url]) == 0
    assert "2 answers of judges dropped" in capsys.readouterr().out
    assert run_command(["doctor", "--store", store.url]) == 0
    assert "no answers of judges" in capsys.readouterr().out


def test_an_exchange_without_a_usable_answer_keeps_the_first_response_and_drops_the_second(
    monkeypatch, store
):
    def half(question):
        told = fill(question.schema, seed=5)
        del told["clarity"]["criteria"]
        return told

    asked = suite(1, metrics=("similarity", "constructiveness", "clarity"), on_failure="skip")
    with provider(monkeypatch, answer=half) as server:
        for requests in (2, 3):
            (found,) = run(asked, store).evaluations()
            assert found.scores["constructiveness"].status == "ok"
            assert found.scores["clarity"].status == "skipped"
            assert len(server.requests) == requests
    first, again, anew = server.requests
    assert again.prompt == anew.prompt != first.prompt
