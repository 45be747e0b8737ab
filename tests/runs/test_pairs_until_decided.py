"""Pairs are judged only until it is decided which run wins more."""

import json

import numpy as np
import pytest

import trivium as tv
from tests.judge_server import REFUSAL, JudgeServer
from tests.metrics.judge.asked import served
from tests.runs.compared_runs import GPT, by_length, saying, stored_run
from trivium.cli.main import run_command
from trivium.errors import ComparisonError
from trivium.runs.pairwise import PairsUntilDecided
from trivium.runs.pairwise_result import DimensionVerdict, JudgedPair, OrderVerdict
from trivium.runs.until_decided.order import place_of
from trivium.store.store import Store

JUDGE = {"models": [GPT], "rubric": ["review"], "concurrency": 4}
COUNT = 80


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'store.db'}"


def two(store, *, better=1.0, **settings):
    """Head's outputs are longer, which the judge prefers, in a share of the cases, and else shorter."""
    rng = np.random.default_rng(5)
    longer = rng.random(COUNT) < better
    base = stored_run(store, "old", {f"c{i}": ["some text"] for i in range(COUNT)}, **settings)
    head = {f"c{i}": ["some text, and more" if longer[i] else "short"] for i in range(COUNT)}
    return base, stored_run(store, "new", head, judge={"models": [GPT]}, **settings)


@pytest.mark.parametrize(("better", "decided"), [(1.0, "win"), (0.0, "loss")])
def test_it_stops_when_it_is_decided_who_wins(url, monkeypatch, better, decided):
    server = JudgeServer(answer=saying(by_length))
    with Store(url) as store, served(server, monkeypatch):
        runs = two(store, better=better)
        found = tv.judge_pairs(*runs, judge=JUDGE, until_decided=True)
        asked = len(server.requests)
        again = tv.judge_pairs(*runs, judge=JUDGE, until_decided=True)
    assert found.decided == again.decided == decided
    assert asked == 2 * len(found.pairs) == len(server.requests)
    assert 8 < len(found.pairs) < 24
    assert found.not_asked == COUNT - len(found.pairs)
    figure = found.figures["overall"]
    assert (figure.method, figure.p) == ("betting, valid at every look", None)
    assert figure.ci95[0] >= 0.5 if decided == "win" else figure.ci95[1] <= 0.5
    assert found.figures["clarity"].method != figure.method
    winner = "head" if decided == "win" else "base"
    said = f"{len(found.pairs)} of 80 pairs were judged, in random order, until it was decided that {winner}"
    assert found.notes[0].startswith(said)
    order = sorted((f"c{i}" for i in range(COUNT)), key=lambda case: place_of("old new", case))
    assert {pair.case for pair in found.pairs} == set(order[: len(found.pairs)])
    assert [int(pair.case[1:]) for pair in found.pairs] == sorted(int(pair.case[1:]) for pair in found.pairs)


def test_what_is_not_decided_is_judged_whole(url, monkeypatch):
    with Store(url) as store, served(JudgeServer(answer=saying(by_length)), monkeypatch):
        found = tv.judge_pairs(*two(store, better=0.5), judge=JUDGE, until_decided=True)
    assert (found.decided, found.not_asked, len(found.pairs)) == (None, 0, COUNT)
    assert "and it is not decided which run wins more" in found.notes[0]


def test_pairs_without_an_answer_decide_nothing(url, monkeypatch):
    with Store(url) as store, served(JudgeServer(plan=lambda _: REFUSAL), monkeypatch):
        found = tv.judge_pairs(*two(store), judge=JUDGE, until_decided=True)
    assert (found.decided, found.errors) == (None, COUNT)
    assert found.figures["overall"].ci95 == (0.0, 1.0)


def test_runs_that_stopped_early_are_refused(url):
    with Store(url) as store:
        runs = two(store, until_decided=True)
        with pytest.raises(ComparisonError, match="run old stopped early itself"):
            tv.judge_pairs(*runs, judge=JUDGE, until_decided=True)


def test_the_command_says_what_was_not_asked(url, monkeypatch, capsys):
    with Store(url) as store:
        two(store)
    with served(JudgeServer(answer=saying(by_length)), monkeypatch):
        given = ["pairs", "old", "new", "--store", url, "--until-decided"]
        assert run_command([*given, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["decided"] == "win"
        assert found["not_asked"] > 40
        assert run_command(given) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"{found['not_asked']} were not asked" in said
    assert "betting, valid at every look" in said


def judged(group, number, verdict):
    orders = (OrderVerdict(first="base", verdict=verdict, status="ok", reason=""),)
    verdicts = {"overall": DimensionVerdict(verdict=verdict, consistent=True, orders=orders)}
    return JudgedPair(case=f"{group}.{number}", repeat=0, group=group, how="judged", verdicts=verdicts)


@pytest.mark.parametrize("ties", [0.0, 0.7])
def test_wrong_decisions_are_rare_between_equals(ties):
    """Neither run wins more: either answer is wrong; groups of 1 to 4 whose pairs resemble each other."""
    rng, worlds, wrong = np.random.default_rng(11), 80, 0
    for _ in range(worlds):
        one = PairsUntilDecided("overall", level=0.95)
        groups = [(f"g{number}", int(size)) for number, size in enumerate(rng.integers(1, 5, 80))]
        pairs = [(name, at) for name, size in groups for at in range(size)]
        leaning = {name: rng.beta(1, 1) for name, _ in groups}
        for wave in one.waves(
            pairs, lambda pair: (pair[0], tv.Case(id="x", input="?")), order_of="a b", at_least=5
        ):
            one.take(
                [
                    judged(
                        name,
                        at,
                        "tie" if rng.random() < ties else "win" if rng.random() < leaning[name] else "loss",
                    )
                    for name, at in wave
                ]
            )
        wrong += one.decided is not None
    assert wrong <= 0.05 * worlds + 2.6 * np.sqrt(worlds * 0.05 * 0.95)
