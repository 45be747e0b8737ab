"""Judge: one rubric, judged for a batch of attempts at once (spec: metrics, T2)."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from threading import Lock
from typing import TYPE_CHECKING

from trivium.metrics.judge.judgement import Answers, Judgement, judgement_of, taken
from trivium.metrics.judge.models.asking import PATIENCE, Answered, GivenUp, Patience, Question, ask
from trivium.metrics.judge.models.opening import ModelOff, open_model
from trivium.metrics.judge.panels.combining import Missing, Vote, combined
from trivium.metrics.judge.prompts.preparing import Prepared, prepare
from trivium.metrics.judge.prompts.shown import shown
from trivium.metrics.judge.signals.evidence import retrieval
from trivium.metrics.judge.signals.similarity import EvidenceSimilarity
from trivium.metrics.metric import Subject
from trivium.suites.rubrics.rubric import Dimension, Rubric
from trivium.suites.settings import JudgeSettings

if TYPE_CHECKING:
    from pydantic_ai.models import Model

log = logging.getLogger(__name__)

CONCURRENCY = 16
SAMPLED_TEMPERATURE = 0.7
"""Of several samples (T2.5); a single one has 0."""

Judgements = dict[str, Judgement]


class Judge:
    """Judges some dimensions of a rubric, in one request an attempt and sample or in one a dimension.

    What it found is remembered for one batch, so that the metrics of its dimensions share it.

    Args:
        rubric: Whose dimensions they are.
        dimensions: Those that are wanted.
        settings: The suite's.
        encoder: The suite's, where quotes are compared by it.
        patience: How long a failing provider is tried.
    """

    def __init__(
        self,
        rubric: Rubric,
        dimensions: Sequence[Dimension],
        settings: JudgeSettings,
        *,
        encoder: str | None = None,
        patience: Patience = PATIENCE,
    ) -> None:
        self.rubric = rubric
        self.dimensions = tuple(dimensions)
        self.settings = settings
        self._patience = patience
        self._similar = EvidenceSimilarity(settings.evidence_similarity, encoder=encoder)
        self._limit = settings.concurrency or CONCURRENCY
        self._lock = Lock()
        self._batch: Sequence[Subject] | None = None
        self._found: list[Judgements] = []
        self._left = 0
        self._told: set[str] = set()

    def judge(self, subjects: Sequence[Subject]) -> list[Judgements]:
        """The judgements of every attempt, by dimension; a batch is judged once. No failing model raises."""
        with self._lock:
            if self._batch is not subjects:
                # A thread of its own, for the caller's may run an event loop (a notebook).
                with ThreadPoolExecutor(1) as thread:
                    self._found = thread.submit(asyncio.run, self._judge_all(subjects)).result()
                self._batch, self._left = subjects, len(self.dimensions)
            found = self._found
            self._left -= 1
            if self._left <= 0:
                self._batch, self._found = None, []
            return found

    async def _judge_all(self, subjects: Sequence[Subject]) -> list[Judgements]:
        async with AsyncExitStack() as stack:
            models = _Models(stack)
            limit = asyncio.Semaphore(self._limit)
            return await asyncio.gather(*(self._judge_one(subject, models, limit) for subject in subjects))

    async def _judge_one(self, subject: Subject, models: "_Models", limit: asyncio.Semaphore) -> Judgements:
        settings = self.settings
        texts = shown(subject, excerpt_chars=settings.excerpt_chars, excerpts=settings.excerpts)
        found: Judgements = {}
        due: list[Dimension] = []
        for dimension in self.dimensions:
            if dimension.needs and not any(texts.get(name) for name in dimension.needs):
                why = f"there is no {' or '.join(dimension.needs)} to judge it by"
                found[dimension.name] = Judgement(status="skipped", reason=why)
            else:
                due.append(dimension)
        if due:
            requests = prepare(self.rubric, due, subject.case, texts, self.settings)
            judged = [self._judge_due(subject, asked, models, limit) for asked in requests]
            for judgements in await asyncio.gather(*judged):
                found |= judgements
        return found

    async def _judge_due(
        self, subject: Subject, asked: Prepared, models: "_Models", limit: asyncio.Semaphore
    ) -> Judgements:
        """Judge with every model of a panel, or with the first that answers."""
        names = self._models_for(subject)
        missing: list[Missing] = []
        votes: list[tuple[str, Judgements]] = []
        if self.settings.panel:
            asking = [self._vote(name, subject, asked, models, limit) for name in names]
            for name, found in zip(names, await asyncio.gather(*asking), strict=True):
                if isinstance(found, Missing):
                    missing.append(found)
                else:
                    votes.append((name, found))
            if votes:
                return {each.name: self._combined(each, votes, missing, asked) for each in asked.dimensions}
        else:
            for name in names:
                found = await self._vote(name, subject, asked, models, limit, passed_over=missing)
                if not isinstance(found, Missing):
                    return found
                missing.append(found)
        why_not = "; ".join(each.reason for each in missing) or "judge.models names none"
        return {
            each.name: Judgement(status="failed", reason=f"no judge: {why_not}") for each in asked.dimensions
        }

    async def _vote(
        self,
        name: str,
        subject: Subject,
        asked: Prepared,
        models: "_Models",
        limit: asyncio.Semaphore,
        *,
        passed_over: Sequence[Missing] = (),
    ) -> Judgements | Missing:
        """What one model says of every dimension, or why it says nothing."""
        try:
            samples = await self._samples(await models.get(name), asked, limit)
        except ModelOff as off:
            self._tell_once(f"the judge {name} is off: {off}")
            return Missing(model=name, reason=str(off))
        except GivenUp as why:
            log.info("%s, repeat %d: %s", subject.attempt.case, subject.attempt.repeat, why)
            return Missing(model=name, reason=str(why))
        facts = {"model": name, "prompt": asked.prompt} | taken(samples, len(asked.dimensions))
        if passed_over:
            facts["passed_over"] = [each.reason for each in passed_over]
        return {
            each.name: judgement_of(
                each,
                samples,
                asked.texts,
                facts,
                scale=self.rubric.scale or self.settings.scale,
                settings=self.settings,
                similar=self._similar,
            )
            for each in asked.dimensions
        }

    def _combined(
        self,
        dimension: Dimension,
        votes: Sequence[tuple[str, Judgements]],
        missing: Sequence[Missing],
        asked: Prepared,
    ) -> Judgement:
        return combined(
            dimension,
            [Vote(model=name, judgement=judgements[dimension.name]) for name, judgements in votes],
            missing,
            backed=lambda quotes: retrieval(quotes, asked.texts.get("source"), similar=self._similar),
        )

    def _models_for(self, subject: Subject) -> tuple[str, ...]:
        by_complexity = self.settings.models_by_complexity
        return by_complexity.get(subject.case.complexity, self.settings.models)

    async def _samples(
        self, model: "Model", asked: Prepared, limit: asyncio.Semaphore
    ) -> list[Answered[Answers]]:
        """As many answers as were asked for; those that fail are left out, unless all do."""
        settings = self.settings
        usual = 0.0 if settings.samples == 1 else SAMPLED_TEMPERATURE

        async def one(index: int) -> Answered[Answers]:
            question = Question(
                instructions=asked.instructions,
                text=asked.body,
                schema=asked.schema,
                temperature=usual if settings.temperature is None else settings.temperature,
                seed=(settings.seed or 0) + index,
                timeout=settings.timeout,
            )
            async with limit:
                return await ask(model, question, asked.parse, patience=self._patience)

        results = await asyncio.gather(*map(one, range(settings.samples)), return_exceptions=True)
        answered = [result for result in results if isinstance(result, Answered)]
        if not answered:
            raise next(result for result in results if isinstance(result, BaseException))
        return answered

    def _tell_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            log.warning(line)


class _Models:
    """The models of one batch, each opened once; their connections end with the batch's event loop."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._open: dict[str, Model | ModelOff] = {}

    async def get(self, name: str) -> "Model":
        if name not in self._open:
            try:
                model = open_model(name)
            except ModelOff as off:
                self._open[name] = off
            else:
                self._open[name] = model
                await self._stack.enter_async_context(model)
        found = self._open[name]
        if isinstance(found, ModelOff):
            raise found
        return found
