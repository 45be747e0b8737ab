"""Functions, coroutines and generators whose work is recorded."""

import asyncio

import trivium as tv


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
