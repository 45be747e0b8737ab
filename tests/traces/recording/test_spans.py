"""What is recorded of functions, coroutines, generators and blocks."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

import trivium as tv
from tests.traces.recording.work import add, search, spans_of, stream, words
from trivium.errors import InputError

pytestmark = pytest.mark.usefixtures("nothing_is_written")


def test_a_function_is_a_span_with_its_arguments_and_its_result():
    span = spans_of(add, 1)["add"]
    assert (span.kind, span.input, span.output, span.ok) == ("tool", {"a": 1}, 3, True)
    assert 0 <= span.end - span.start < 60


def test_decorated_functions_give_what_they_gave():
    assert add(1, b=4) == 5
    assert asyncio.run(search("x")) == ["X"]
    assert list(words("a b")) == ["a", "b"]
    assert add.__name__ == "add"


def test_more_arguments_than_names_are_recorded():
    @tv.trace.tool
    def total(first, *rest, **named):
        return 0

    assert spans_of(lambda: total(1, 2, 3, by=4))["total"].input == {"first": 1, "rest": [2, 3], "by": 4}


def test_a_method_is_recorded_without_itself():
    class Shop:
        @tv.trace.tool
        def price(self, item):
            return 3

    assert spans_of(lambda: Shop().price("tea"))["price"].input == {"item": "tea"}


def test_spans_stand_below_the_one_that_is_open_and_know_their_agent():
    @tv.trace.agent("researcher")
    async def research(question):
        return (await asyncio.gather(search(question), search("more")))[0]

    @tv.trace.agent
    async def manager(question):
        add(1)
        return await research(question)

    with tv.trace.recorded() as recorded:
        asyncio.run(manager("why"))
    manager_span, added, researched, *searched = recorded.trace.spans
    assert [span.name for span in recorded.trace.spans] == [
        "manager",
        "add",
        "researcher",
        "search",
        "search",
    ]
    assert added.parent == manager_span.id == researched.parent
    assert {span.parent for span in searched} == {researched.id}
    assert [span.agent for span in recorded.trace.tool_calls] == ["manager", "researcher", "researcher"]
    (message,) = recorded.trace.messages[:1]
    assert (message.sender, message.receiver) == ("manager", "researcher")


def test_generators_are_open_from_the_first_item_to_the_last():
    @tv.trace.agent
    def boss():
        pieces = words("one two")
        add(1)
        first = next(pieces)
        add(2)
        return [first, *pieces]

    with tv.trace.recorded() as recorded:
        assert boss() == ["one", "two"]
    spans = recorded.trace.spans
    boss_span = spans[0]
    # What the consumer does between two items is not the generator's.
    assert {span.parent for span in spans[1:]} == {boss_span.id}
    (pieces,) = [span for span in spans if span.name == "words"]
    assert pieces.output == "onetwo"


def test_async_generators_say_what_they_streamed():
    async def consume():
        return [word async for word in stream("a b c")]

    span = spans_of(consume)["model-1"]
    assert (span.kind, span.output, span.input) == ("llm", "abc", {"prompt": "a b c"})


def test_a_generator_may_be_sent_to_thrown_into_and_closed():
    heard = []

    @tv.trace.tool
    def listener():
        while True:
            try:
                heard.append((yield len(heard)))
            except KeyError as error:
                heard.append(error)

    def use():
        made = listener()
        next(made)
        assert made.send("x") == 1
        assert made.throw(KeyError("k")) == 2
        made.close()

    span = spans_of(use)["listener"]
    assert heard[0] == "x"
    assert isinstance(heard[1], KeyError)
    assert (span.ok, span.output) == (True, [0, 1, 2])


def test_an_async_generator_may_be_closed_early_and_thrown_into():
    closed = []

    @tv.trace.tool
    async def numbers():
        try:
            for number in range(9):
                try:
                    yield number
                except KeyError:
                    yield -1
        finally:
            closed.append(True)

    async def use():
        made = numbers()
        assert await anext(made) == 0
        assert await made.athrow(KeyError()) == -1
        await made.aclose()

    span = spans_of(use)["numbers"]
    assert closed == [True]
    assert (span.ok, span.output) == (True, [0, -1])


def test_a_generators_value_comes_back():
    @tv.trace.tool
    def counted():
        yield 1
        return "done"

    def outer():
        return (yield from counted())

    made = outer()
    next(made)
    with pytest.raises(StopIteration) as end:
        next(made)
    assert end.value.value == "done"


def _plain():
    raise ValueError("no such city")


async def _coroutine():
    raise ValueError("no such city")


def _generator():
    yield 1
    raise ValueError("no such city")


async def _async_generator():
    yield 1
    raise ValueError("no such city")


async def _consumed(made):
    return [item async for item in made]


def _block():
    with tv.trace.tool("t"):
        _plain()


@pytest.mark.parametrize(
    "call",
    [
        tv.trace.tool("t")(_plain),
        lambda: asyncio.run(tv.trace.tool("t")(_coroutine)()),
        lambda: list(tv.trace.tool("t")(_generator)()),
        lambda: asyncio.run(_consumed(tv.trace.tool("t")(_async_generator)())),
        _block,
    ],
)
def test_what_raises_is_a_failed_span_and_raises_on(call):
    with tv.trace.recorded() as recorded, pytest.raises(ValueError, match="no such city"):
        call()
    (span,) = recorded.trace.spans
    assert span.ok is False
    assert span.attributes == {"error": "ValueError: no such city"}


def test_a_plain_function_may_hand_back_a_coroutine():
    @tv.trace.tool
    def later():
        return search("x")

    span = spans_of(later)["later"]
    assert (span.output, span.ok) == (["X"], True)


@pytest.mark.parametrize("cost", [-0.5, float("nan"), float("inf"), True, "0.5"])
def test_a_cost_that_cannot_be_one_is_left_out(cost):
    def talk():
        with tv.trace.llm("model") as span:
            span.used(input_tokens=3, cost_usd=cost)

    usage = spans_of(talk)["model"].usage
    assert (usage.input_tokens, usage.cost_usd) == (3, None)


def test_a_block_says_what_it_did():
    async def talk():
        async with tv.trace.llm("model-2", input={"prompt": "hi"}) as span:
            span.output = "hello"
            span.used(input_tokens=3, output_tokens=5, cost_usd=0.01)
            span.note(context="greeting", temperature=0.5)

    span = spans_of(talk)["model-2"]
    assert (span.input, span.output) == ({"prompt": "hi"}, "hello")
    assert (span.usage.input_tokens, span.usage.output_tokens, span.usage.cost_usd) == (3, 5, 0.01)
    assert span.attributes == {"context": "greeting", "temperature": 0.5}


def test_code_deep_inside_reaches_the_open_span():
    @tv.trace.tool
    def outer():
        tv.trace.current().failed("the service was down")
        tv.trace.current().output = "nothing"
        return "ignored"

    span = spans_of(outer)["outer"]
    assert (span.ok, span.output, span.attributes["error"]) == (False, "nothing", "the service was down")


def test_messages_come_from_the_agent_at_work_or_from_who_is_named():
    @tv.trace.agent
    def lead():
        tv.trace.message("writer", {"task": "draft"}, type="handoff")
        tv.trace.message("lead", "done", sender="writer", type="result_delivery")

    with tv.trace.recorded() as recorded:
        lead()
    first, second = recorded.trace.messages
    assert (first.sender, first.receiver, first.type, first.content) == (
        "lead", "writer", "handoff", {"task": "draft"},
    )  # fmt: skip
    assert (second.sender, second.receiver) == ("writer", "lead")
    with tv.trace.recorded(), pytest.raises(InputError, match="sender"):
        tv.trace.message("writer")


def test_threads_that_carry_the_context_record_below_it():
    @tv.trace.agent
    def boss():
        with ThreadPoolExecutor(3) as pool:
            carried = tv.trace.carried(add)
            return [future.result() for future in [pool.submit(carried, n) for n in range(5)]]

    with tv.trace.recorded() as recorded:
        assert boss() == [2, 3, 4, 5, 6]
    assert len(recorded.trace.tool_calls) == 5
    assert {span.parent for span in recorded.trace.tool_calls} == {recorded.trace.spans[0].id}


def test_blocks_that_collect_do_not_mix_and_nest():
    async def one(name):
        with tv.trace.recorded() as recorded, tv.trace.agent(name):
            await search(name)
        return recorded.trace

    async def many():
        with tv.trace.recorded() as outer, tv.trace.agent("outer"):
            inner = await asyncio.gather(*(one(f"a{n}") for n in range(5)))
        return outer.trace, inner

    outer, inner = asyncio.run(many())
    assert [span.name for span in outer.spans] == ["outer"]
    assert [[span.name for span in trace.spans] for trace in inner] == [[f"a{n}", "search"] for n in range(5)]
    assert all(trace.spans[0].parent is None for trace in inner)


def test_what_never_ends_is_unfinished():
    with tv.trace.recorded() as recorded:
        pieces = words("a b")
        next(pieces)
        (span,) = recorded.trace.spans
    assert (span.ok, span.end) == (None, None)
    pieces.close()


def test_nothing_recorded_is_no_trace():
    with tv.trace.recorded() as recorded:
        pass
    assert recorded.trace is None


def test_nesting_implies_messages_between_agents_that_record_none():
    @tv.trace.agent
    def writer():
        return "a draft"

    @tv.trace.agent
    def researcher():
        return "a page"

    with tv.trace.recorded() as recorded, tv.trace.agent("lead"):
        tv.trace.message("writer", "write", type="data_transfer")
        writer()
        researcher()
    assert [(m.sender, m.receiver, m.type) for m in recorded.trace.messages] == [
        ("lead", "writer", "data_transfer"),
        ("writer", "lead", "result_delivery"),
        ("lead", "researcher", "task_request"),
        ("researcher", "lead", "result_delivery"),
    ]
