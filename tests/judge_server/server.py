"""The server, on a thread of its own: what it has been asked and what becomes of each question."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Self

import msgspec

from tests.judge_server.answer import Answer
from tests.judge_server.conditions import Conditions, Gate
from tests.judge_server.faults import ANSWER, Plan, Reaction
from tests.judge_server.fill import fill
from tests.judge_server.line import Line
from tests.judge_server.question import Api, Question, read
from tests.judge_server.wire import answer_text, envelope, error, events

Answerer = Callable[[Question], Any]


class JudgeServer:
    """Answers as OpenAI and Anthropic do, from entering the context to leaving it.

    Args:
        answer: What the model says to a question: a JSON value, a text, or an `Answer`. By default whatever
            the schema allows, the same for the same prompt.
        latency: Seconds until an answer, or a function of the question.
        rate: Requests a second let through, beyond it 429; none for no limit.
        plan: The reaction to each question, such as `faults(…)` or `at({3: RESET})`.
        conditions: All of these and more in one; instead of them.
        changes: Other conditions from a number of answers given on, so that a day turns half-way.
        text: What the default answer says where no schema is given.
        words: Length of each text in a default answer by a schema.
        vary: Let the default answer differ each time the same prompt comes, as a model at a temperature.
        record: Keep the questions in ``requests``; without, only counts are kept.
        port: 0 for any free one.
    """

    def __init__(
        self,
        *,
        answer: Answerer | None = None,
        latency: float | Callable[[Question], float] = 0.0,
        rate: float | None = None,
        plan: Plan | None = None,
        conditions: Conditions | None = None,
        changes: dict[int, Conditions] | None = None,
        text: str = "The text says what it sets out to say.",
        words: int = 8,
        vary: bool = False,
        record: bool = True,
        port: int = 0,
    ) -> None:
        self.answer, self.text, self.words = answer, text, words
        self.conditions = conditions or Conditions(latency=latency, rate=rate, plan=plan)
        """May be set at any time; holds for requests that arrive from then on."""
        self.changes = dict(changes or {})
        self.vary, self.record, self.port = vary, record, port
        self.stopping = False
        self.requests: list[Question] = []
        self.counts: Counter[str] = Counter()
        """Requests by what they met, and "requests", "answered", "abandoned" (the client left first)."""
        self.in_flight = self.peak_in_flight = 0
        self.connections = self.peak_connections = 0
        self.problems: list[BaseException] = []
        """What went wrong in the server itself; leaving the context raises it."""
        self._seen: Counter[str] = Counter()
        self._gate = Gate()
        self.lines: set[Line] = set()

    @property
    def openai_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def anthropic_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(
            target=asyncio.run, args=[self._serve(ready)], name="judge-server", daemon=True
        )
        self._thread.start()
        ready.wait()
        if self.problems:
            raise self.problems[0]
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self.problems and kind is None:
            raise self.problems[0]

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            server = await self._loop.create_server(lambda: Line(self), "127.0.0.1", self.port, backlog=1024)
        except OSError as problem:
            self.problems.append(problem)
            ready.set()
            return
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stop.wait()
        for _ in range(3):
            await asyncio.sleep(0)  # takes note of clients that left before the end
        self.stopping = True
        server.close()
        for line in list(self.lines):
            line.transport.abort()
        await asyncio.sleep(0)  # lets the connections notice
        await server.wait_closed()

    def take(
        self, api: Api, path: str, headers: dict[str, str], body: dict[str, Any]
    ) -> tuple[Question, Reaction]:
        """Notes a question and decides what becomes of it."""
        now = time.monotonic()
        question = read(
            api=api, number=self.counts["requests"], path=path, headers=headers, body=body, time=now
        )
        self.counts["requests"] += 1
        if self.record:
            self.requests.append(question)
        conditions = self.conditions
        wait = self._gate.wait(conditions, now)
        if wait:
            question.reaction = "over_rate"
            hint = None
            if conditions.retry_after is not None:
                hint = f"{wait:.3f}" if conditions.retry_after == "exact" else f"{int(wait) + 1}"
            reaction = Reaction(kind="failure", status=429, retry_after=hint)
        else:
            reaction = conditions.plan(question) if conditions.plan else ANSWER
            question.reaction = reaction.kind
        self.counts[question.reaction] += 1
        if reaction.latency is None:
            given = conditions.latency if reaction.kind not in _QUICK else conditions.failure_latency
            reaction = msgspec.structs.replace(
                reaction, latency=given(question) if callable(given) else given
            )
        return question, reaction

    def body(self, question: Question, reaction: Reaction) -> bytes:
        """The bytes of an answer's body."""
        if reaction.kind == "failure":
            return reaction.body or msgspec.json.encode(
                error(question.api, reaction.status, reaction.message)
            )
        if reaction.kind == "garbled":
            return reaction.body or b"<html><body>Bad gateway</body></html>"
        self.counts["answered"] += reaction.kind not in _UNHEARD
        if (change := self.changes.pop(self.counts["answered"], None)) is not None:
            self.conditions = change
        answers = [self._answer(question, sample) for sample in range(question.samples)]
        whole = envelope(question, answers, reaction.kind)
        return (
            events(whole, answer_text(answers[0], reaction.kind))
            if question.stream
            else msgspec.json.encode(whole)
        )

    def _answer(self, question: Question, sample: int) -> Answer:
        if self.answer is not None:
            given = self.answer(question)
            return given if isinstance(given, Answer) else Answer(output=given)
        if question.schema is None:
            return Answer(output=self.text)
        prompt = question.prompt
        key = blake2b(prompt.encode(), digest_size=16).hexdigest()
        self._seen[key] += self.vary
        seed = f"{key}:{self._seen[key]}:{sample}"
        return Answer(output=fill(question.schema, seed=seed, text=prompt, words=self.words))


_QUICK = {"failure", "reset"}
_UNHEARD = {"cut", "stall"}
