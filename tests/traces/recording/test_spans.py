"""What is recorded of functions, coroutines, generators and blocks."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

import trivium as tv
from trivium.errors import InputError
from trivium.traces.recording import configuring


@pytest.fixture(autouse=True)
def _nothing_is_written(monkeypatch):
    monkeypatch.setattr(configuring._Now, "recording", configuring.Recording(folder=None))


def spans_of(work, *arguments):
    with tv.trace.recorded() as recorded:
        result = work(*arguments)
        if asyncio.iscoroutine(result):
            asyncio.run(result)
    return {span.name: span for span in recorded.trace.spans}


@tv.trace.tool
def add(a, b=2):
    return a + b


@tv.trace.tool("search")
async def search(query):
    await asyncio.sleep(0)
    return [query.upper()]


@tv.trace.tool
def words(text):
    yield from text.split()


@tv.trace.llm(name="model-1")
async def stream(prompt):
    for word in prompt.split():
        await asyncio.sleep(0)
        yield word


def test_a_function_is_a_span_with_its_arguments_and_its_result():
    span = spans_of(add, 1)["add"]
    assert (span.kind, span.input, span.output, span.ok) == ("tool", {"a": 1}, 3, True)
    assert 0 <= span.end - span.start < 60


def test_decorated_functions_give_what_they_gave():
    assert add(1, b=4) == 5
    assert asyncio.run(search("x")) == ["X"]
    assert list(words("a b")) == ["a", "b"]
    assert add.__name__ == "add"


def test_more_arguments_than_names_are_kept():
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


class _Usage:
    prompt_tokens = 7
    completion_tokens = 2


class _Answer:
    usage = _Usage()

    def model_dump(self, mode):
        return {"text": "yes", "mode": mode}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (_Answer(), (7, 2)),
        ({"usage": {"input_tokens": 7, "output_tokens": 2}}, (7, 2)),
        ({"usage": {"prompt_tokens": 7, "completion_tokens": None}}, (7, None)),
        ({"usage": {"input_tokens": "many"}}, None),
        ("text", None),
    ],
)
def test_the_tokens_of_a_models_answer_are_taken_from_it(answer, expected):
    usage = spans_of(tv.trace.llm("m")(lambda: answer))["m"].usage
    assert (usage and (usage.input_tokens, usage.output_tokens)) == expected


def test_pydantic_models_are_recorded_by_their_fields():
    assert spans_of(tv.trace.tool("t")(_Answer))["t"].output == {"text": "yes", "mode": "json"}


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


def test_off_records_nothing_and_the_code_runs_on():
    @tv.trace.agent
    async def agent():
        tv.trace.message("other", "x")
        tv.trace.current().note(a=1)
        tv.trace.current().used(input_tokens=1)
        tv.trace.current().failed("x")
        with tv.trace.span("step") as span:
            span.output = 1
        list(words("a"))
        return [await search("q"), [word async for word in stream("s t")], add(1)]

    assert asyncio.run(agent()) == [["Q"], ["s", "t"], 3]


def test_values_that_are_no_json_are_told_and_bounded():
    class Odd:
        def __repr__(self):
            return "<odd>"

    class Evil:
        def __repr__(self):
            raise RuntimeError("no")

    loop = []
    loop.append(loop)
    outputs = {
        "object": Odd(), "evil": Evil(), "loop": loop, "nan": float("nan"), "long": "x" * 100_000,
        "many": list(range(100_000)), "half": "a\ud800b",
    }  # fmt: skip
    found = {
        name: spans_of(tv.trace.tool("t")(lambda v=value: v))["t"].output for name, value in outputs.items()
    }
    assert found["object"] == "<odd>"
    assert found["evil"] == "[Evil is not recorded: RuntimeError]"
    assert "is not recorded" in found["loop"]
    assert len(found["long"]) < 70_000
    assert len(found["many"]) < 70_000
    assert found["half"] == "a\ufffdb"


def test_without_content_it_is_told_what_happened_and_nothing_of_what_was_said(monkeypatch):
    monkeypatch.setattr(configuring._Now, "recording", configuring.Recording(folder=None, content=False))

    @tv.trace.tool
    def fails(secret):
        tv.trace.current().note(context="travel", note="private")
        raise ValueError("private")

    with tv.trace.recorded() as recorded, tv.trace.agent("a"):
        tv.trace.message("b", "private")
        with pytest.raises(ValueError, match="private"):
            fails("private")
    assert "private" not in repr(recorded.trace)
    (call,) = recorded.trace.tool_calls
    assert call.attributes == {"error": "ValueError", "context": "travel"}


def test_secrets_and_own_patterns_are_masked_wherever_they_stand(monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", "hunter2-hunter2")
    tv.trace.configure(folder=None, mask=[r"\d{3}-\d{4}"])

    @tv.trace.tool
    def call(headers, phone):
        tv.trace.message("b", {"deep": [{"password": "tea", "say": "hunter2-hunter2"}]}, sender="a")
        raise ValueError("Bearer abcdefghijklmnop12345 for 555-1234")

    with tv.trace.recorded() as recorded, pytest.raises(ValueError, match="Bearer"):
        call({"Authorization": "Bearer abcdefghijklmnop12345", "n": 1}, phone="call 555-1234")
    told = repr(recorded.trace)
    for secret in ("hunter2", "abcdefghijklmnop", "555-1234", "tea"):
        assert secret not in told
    assert recorded.trace.spans[0].input["headers"]["n"] == 1


@pytest.mark.parametrize(("options", "place"), [({"mask": ["("]}, "mask"), ({"rotate_bytes": 0}, "rotate")])
def test_wrong_settings_are_told(options, place):
    with pytest.raises(InputError, match=place):
        tv.trace.configure(**options)


def test_nesting_tells_of_agents_between_whom_nothing_is_said():
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
