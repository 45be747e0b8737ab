"""A budget is never passed, whatever becomes of the requests; and no request waits that need not."""

import asyncio
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metrics.judge.budget.calls import call, reply
from trivium.metrics.judge.budget.budget import Budget, InputTokenBound
from trivium.metrics.judge.budget.ledger import Draw, Ledger, Spending
from trivium.metrics.judge.budget.prices import Prices
from trivium.metrics.judge.client.providers import GivenUp

NAME = "openai:gpt-4o-mini"
ABOUT = ("clarity",)
CALL = call()
PRICES = Prices([NAME], {NAME: {"input": 1000, "output": 2000}})
"""A tenth of a cent for each token read, a fifth for each that is written."""
MOST_READ = InputTokenBound().most(CALL)
SHARED = len(b"You judge.") + 2 * len(msgspec.json.encode(CALL.schema)) + 600
"""Of what a call reads at most: that of what all calls share."""
OWN = MOST_READ - 1 - SHARED
MAX_TOKENS = MOST_READ + CALL.max_tokens + 1
MOST_USD = MOST_READ * 0.001 + (CALL.max_tokens + 1) * 0.002


def make_budget(**options) -> Budget:
    return Budget(PRICES, **options)


def total(ledger) -> Spending:
    return sum(ledger.entries().values(), Spending())


def test_without_a_budget_everything_is_allowed_and_counted():
    async def work():
        ledger = Ledger()
        one = make_budget(ledger=ledger)
        holds = [await one.reserve(CALL, about=ABOUT) for _ in range(100)]
        for hold in holds:
            assert one.settle(hold, reply(1000, 500), billed=True) == pytest.approx(2.0)
        one.record_cached(CALL, about=ABOUT)
        return ledger

    found = asyncio.run(work()).entries()
    assert set(found) == {(NAME, ABOUT)}
    entry = found[NAME, ABOUT]
    assert (entry.requests, entry.answered, entry.from_cache) == (100, 100, 1)
    assert (entry.input_tokens, entry.output_tokens) == (100_000, 50_000)
    assert entry.cost_usd == pytest.approx(200.0)


def test_without_a_price_tokens_are_counted_and_the_cost_is_unknown():
    async def work():
        ledger = Ledger()
        one = Budget(Prices(["ollama:m"], {}), ledger=ledger)
        hold = await one.reserve(call(model="m", provider="ollama"), about=ABOUT)
        assert one.settle(hold, reply(10, 5), billed=True) is None
        return total(ledger)

    spent = asyncio.run(work())
    assert (spent.input_tokens, spent.output_tokens, spent.cost_usd, spent.unpriced) == (10, 5, 0.0, 1)


def test_a_request_that_could_pass_the_budget_is_refused():
    async def work():
        with pytest.raises(GivenUp, match=r"budget of \$0\.5 .*judge\.budget_usd"):
            await make_budget(budget_usd=0.5).reserve(CALL, about=ABOUT)
        with pytest.raises(GivenUp, match=r"budget of 50 tokens .*judge\.budget_tokens"):
            await make_budget(budget_tokens=50).reserve(CALL, about=ABOUT)
        await make_budget(budget_usd=MOST_USD, budget_tokens=MAX_TOKENS).reserve(CALL, about=ABOUT)

    asyncio.run(work())


def test_a_refusal_is_put_into_words_though_another_process_gives_back_right_after_it():
    class Refusing(Ledger):
        def draw(self, draw: Draw) -> bool:
            return False  # and by the time that what is committed is read, it is nothing

    for name, bound in (("usd", MOST_USD), ("tokens", MAX_TOKENS)):
        with pytest.raises(GivenUp, match=rf"is used up.*judge\.budget_{name}"):
            asyncio.run(
                make_budget(ledger=Refusing(), **{f"budget_{name}": bound}).reserve(CALL, about=ABOUT)
            )


def test_a_request_waits_for_those_in_flight_that_may_leave_enough():
    async def work():
        one = make_budget(budget_tokens=2 * MAX_TOKENS - 50)
        first = await one.reserve(CALL, about=ABOUT)
        waiting = asyncio.create_task(one.reserve(CALL, about=ABOUT))
        await asyncio.sleep(0)
        assert not waiting.done()
        one.settle(first, reply(MOST_READ, 10), billed=True)
        second = await waiting
        waiting = asyncio.create_task(one.reserve(CALL, about=ABOUT))
        await asyncio.sleep(0)
        one.settle(second, reply(MOST_READ, 10), billed=True)
        with pytest.raises(GivenUp):
            await waiting

    asyncio.run(work())


@pytest.mark.parametrize(
    "budget",
    [{"budget_usd": 2.2 * MOST_USD}, {"budget_tokens": int(2.2 * MAX_TOKENS)}],
    ids=["usd", "tokens"],
)
def test_what_an_answer_left_is_there_for_the_next_while_others_are_in_flight(budget):
    async def work():
        one = make_budget(**budget)
        first, _second = [await one.reserve(CALL, about=ABOUT) for _ in range(2)]
        waiting = asyncio.create_task(one.reserve(CALL, about=ABOUT))
        await asyncio.sleep(0)
        assert not waiting.done()
        one.settle(first, reply(5, 5), billed=True)
        await asyncio.wait_for(waiting, 30)

    asyncio.run(work())


def test_unbilled_requests_cost_nothing_and_unknown_costs_count_at_their_maximum():
    async def work():
        ledger = Ledger()
        one = make_budget(budget_usd=MOST_USD, ledger=ledger)
        for _ in range(20):
            one.settle(await one.reserve(CALL, about=ABOUT), None, billed=False)
        one.settle(await one.reserve(CALL, about=ABOUT), None, billed=True)
        told = rf"\${MOST_USD:.6f} is spent, and a request may cost \${MOST_USD:.6f} "
        with pytest.raises(GivenUp, match=told):
            await one.reserve(CALL, about=ABOUT)
        return total(ledger)

    spent = asyncio.run(work())
    assert (spent.requests, spent.answered, spent.unknown) == (21, 0, 1)
    assert spent.unknown_usd == pytest.approx(MOST_USD)
    assert spent.unknown_tokens == MAX_TOKENS


def test_unknown_costs_are_reported_at_their_maximum_without_a_budget_too():
    async def work():
        ledger = Ledger()
        one = make_budget(ledger=ledger)
        one.settle(await one.reserve(CALL, about=ABOUT), None, billed=True)
        one.settle(await one.reserve(CALL, about=ABOUT), reply(0, 0), billed=True)  # which says no counts
        return total(ledger)

    spent = asyncio.run(work())
    assert spent.unknown_usd == pytest.approx(2 * MOST_USD)
    assert (spent.requests, spent.answered, spent.unknown) == (2, 1, 2)


def test_the_shared_tokens_of_requests_are_estimated_from_an_answer():
    """Instructions and schema of 9,000 bytes were 500 tokens, with a text of 20 bytes."""
    long = {"type": "object", "properties": {f"field_{n}": {"type": "integer"} for n in range(100)}}
    calls = [
        msgspec.structs.replace(call(text=text), instructions="Judge it. " * 300, schema=long)
        for text in ("x" * 20, "y" * 400)
    ]

    async def work():
        one = make_budget(budget_tokens=10_000_000)
        first = await one.reserve(calls[0], about=ABOUT)
        one.settle(first, reply(500, 50), billed=True)
        return first.input_tokens, (await one.reserve(calls[1], about=ABOUT)).input_tokens

    before, after = asyncio.run(work())
    assert before > 9000
    assert 500 - 20 + 400 <= after < 1.25 * 500 + 400 + 60


def test_a_request_in_flight_is_in_the_books_until_its_end_is_known():
    async def work():
        ledger = Ledger()
        one = make_budget(ledger=ledger)
        first, second = [await one.reserve(CALL, about=ABOUT) for _ in range(2)]
        in_flight = total(ledger)
        one.settle(first, reply(10, 5), billed=True)
        one.settle(second, None, billed=False)
        return in_flight, total(ledger)

    in_flight, after = asyncio.run(work())
    assert (in_flight.requests, in_flight.unknown, in_flight.unknown_tokens) == (2, 2, 2 * MAX_TOKENS)
    assert in_flight.unknown_usd == pytest.approx(2 * MOST_USD)
    assert (after.requests, after.answered, after.unknown, after.unknown_tokens) == (2, 1, 0, 0)
    assert after.unknown_usd == pytest.approx(0)


def test_a_model_without_a_price_is_not_asked_on_a_budget_in_usd():
    async def work():
        with pytest.raises(GivenUp, match="no price of groq:other"):
            await make_budget(budget_usd=1.0).reserve(call(model="other", provider="groq"), about=ABOUT)

    asyncio.run(work())


def test_a_model_without_a_price_is_asked_on_a_budget_in_tokens():
    async def work():
        unpriced = call(model="other", provider="groq")
        return await make_budget(budget_tokens=MAX_TOKENS).reserve(unpriced, about=ABOUT)

    hold = asyncio.run(work())
    assert (hold.price, hold.usd, hold.tokens) == (None, 0.0, MAX_TOKENS)


def test_a_provider_that_counts_more_than_the_bound_raises_it():
    async def work():
        one = make_budget(budget_tokens=10 * MAX_TOKENS)
        hold = await one.reserve(CALL, about=ABOUT)
        one.settle(hold, reply(3 * MOST_READ, 2 * CALL.max_tokens), billed=True)
        return (await one.reserve(CALL, about=ABOUT)).tokens

    assert asyncio.run(work()) == pytest.approx(3 * MOST_READ + 2 * CALL.max_tokens, abs=3)


@given(seed=st.integers(0, 10**6), budget=st.floats(0.5, 40), at_once=st.integers(1, 30))
def test_a_budget_is_never_passed(seed, budget, at_once):
    """Truth is kept apart from the budget: what was really billed, of what came back and of what did not."""
    rng = random.Random(seed)
    billed = 0.0
    ledger = Ledger()
    one = make_budget(budget_usd=budget, ledger=ledger)
    shared = rng.randrange(1, SHARED)  # the same text is as many tokens every time

    async def ask() -> None:
        nonlocal billed
        while True:
            hold = await one.reserve(CALL, about=ABOUT)
            assert ledger.committed()[0] >= billed
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            read, written = shared + rng.randrange(OWN), rng.randrange(CALL.max_tokens)
            cost = read * 0.001 + written * 0.002
            end = rng.random()
            if end < 0.2:
                one.settle(hold, None, billed=False)
            elif end < 0.3:
                billed += cost  # nobody ever hears of it
                one.settle(hold, None, billed=True)
            else:
                billed += cost
                one.settle(hold, reply(read, written), billed=True)

    async def work() -> None:
        ends = await asyncio.gather(*(ask() for _ in range(at_once)), return_exceptions=True)
        assert all(isinstance(end, GivenUp) for end in ends), ends

    asyncio.run(work())
    assert billed <= budget
    assert total(ledger).most_usd >= billed - 1e-9
    assert total(ledger).most_usd > budget - MOST_USD - 1e-9, "what is left is less than a request may cost"
    one.close()
    assert ledger.committed()[0] == pytest.approx(total(ledger).most_usd)


@given(seed=st.integers(0, 10**6), kills=st.integers(1, 6))
def test_a_budget_is_not_passed_by_a_run_that_is_killed_again_and_again(seed, kills):
    """A kill keeps what was drawn, and loses any of the latest notes; what was in flight may be billed."""
    rng = random.Random(seed)
    budget, billed = 20.0, 0.0
    entries: dict = {}
    committed = (0.0, 0)
    for _ in range(kills):
        ledger = Ledger()
        for entry, spent in entries.items():
            ledger.record(entry, spent)
        ledger.draw(Draw(usd=committed[0], tokens=committed[1]))
        one = make_budget(budget_usd=budget, ledger=ledger)

        async def ask(one=one, ledger=ledger) -> None:
            nonlocal billed, entries, committed
            holds = []
            try:
                for _ in range(rng.randrange(1, 12)):
                    async with asyncio.timeout(0.05):  # killed while it waits for what never comes
                        holds.append(await one.reserve(CALL, about=ABOUT))
                    cost = rng.random() * MOST_USD
                    billed += cost
                    if rng.random() < 0.6:
                        entries = dict(ledger.entries()) if rng.random() < 0.5 else entries
                        read = int((cost * 1000) // 1)
                        one.settle(holds.pop(), reply(min(read, MOST_READ), 0), billed=True)
                        billed += min(read, MOST_READ) * 0.001 - cost
            except (GivenUp, TimeoutError):
                pass
            committed = ledger.committed()

        asyncio.run(ask())
        assert billed <= budget + 1e-9
        assert committed[0] >= billed - 1e-9


def test_what_is_held_is_given_back_when_the_advance_cannot_be_put_down():
    class FullDisk(Ledger):
        full = True

        def draw(self, draw: Draw) -> bool:
            if self.full:
                raise OSError("no space left")
            return super().draw(draw)

    async def work():
        ledger = FullDisk()
        one = make_budget(budget_usd=MOST_USD, ledger=ledger)
        with pytest.raises(OSError, match="no space"):
            await one.reserve(CALL, about=ABOUT)
        ledger.full = False
        await one.reserve(CALL, about=ABOUT)

    asyncio.run(work())


def test_few_advances_serve_many_requests():
    class Counting(Ledger):
        draws = 0

        def draw(self, draw: Draw) -> bool:
            self.draws += 1
            return super().draw(draw)

        def give_back(self, *, usd: float, tokens: int) -> None:
            self.draws += 1
            super().give_back(usd=usd, tokens=tokens)

    async def work():
        ledger = Counting()
        one = make_budget(budget_usd=1000 * MOST_USD, ledger=ledger)
        for _ in range(1000):
            one.settle(await one.reserve(CALL, about=ABOUT), reply(100, 10), billed=True)
        return ledger.draws

    assert asyncio.run(work()) < 60


def test_of_a_budget_in_tokens_too_what_may_be_used_is_put_down_before_it_is():
    ledger = Ledger()
    spending = make_budget(budget_tokens=1_000_000, ledger=ledger)

    async def spend():
        used, held, most = 0, [], 0
        for number in range(60):
            held.append(await spending.reserve(call(max_tokens=5_000), about=("a",)))
            most = used + sum(each.tokens for each in held)
            assert ledger.committed()[1] >= most
            assert ledger.committed()[0] == 0
            if number % 3 == 2:
                spending.settle(held.pop(0), reply(40, 300), billed=True)
                used += 340
        return most

    assert asyncio.run(spend()) > 0.02 * 1_000_000  # so that one advance is not enough


def test_an_answer_that_is_longer_than_it_may_be_raises_the_bound_by_as_much():
    spending = make_budget(budget_tokens=1_000_000)

    async def held_before_and_after():
        first = await spending.reserve(call(max_tokens=1_000), about=("a",))
        spending.settle(first, reply(MOST_READ, 1_500), billed=True)
        return first.tokens, (await spending.reserve(call(max_tokens=1_000), about=("a",))).tokens

    before, after = asyncio.run(held_before_and_after())
    assert after - before == 500
