"""An agent that logs its calls, for runs that are killed in a subprocess."""

import asyncio
import os
import random

_LOG = os.open(os.environ["AGENT_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_WATCHER = int(os.environ["AGENT_WATCHER"])


def _say(what: str) -> None:
    line = f"{what}\n".encode()
    os.write(_LOG, line)
    os.write(_WATCHER, line)


async def answer(question: str, *, repeat: int) -> str:
    _say(f"begin {question} {repeat}")
    await asyncio.sleep(random.uniform(0.0, 0.02))  # an agent takes its time
    _say(f"end {question} {repeat}")
    return f"answer to {question}"
