"""The usual way to a model: what it opened is closed, whatever came between."""

import asyncio

from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

from tests.metrics.judge.client.test_direct_client import call
from trivium.metrics.judge.client.pydantic_ai_models import PydanticAIClient


class Slow(FunctionModel):
    """A model that takes its time to be entered, which is given up the first time."""

    def __init__(self):
        super().__init__(lambda *_: ModelResponse(parts=[TextPart("{}")]))
        self.begun = asyncio.Event()
        self.entered = 0

    async def __aenter__(self):
        if not self.begun.is_set():
            self.begun.set()
            await asyncio.Event().wait()
        self.entered += 1
        return self

    async def __aexit__(self, *_):
        self.entered -= 1


def test_a_model_that_was_given_up_while_it_was_opened_is_opened_again_and_closed():
    model = Slow()

    async def ask():
        client = PydanticAIClient(model, "python:slow")
        first = asyncio.create_task(client.send(call("function:slow")))
        await model.begun.wait()
        first.cancel()
        await asyncio.wait([first])
        assert (await client.send(call("function:slow"))).text == "{}"
        assert model.entered == 1
        await client.close()

    asyncio.run(ask())
    assert model.entered == 0
