"""Judge: one rubric, judged for a batch of attempts at once (spec: metrics, T2)."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from trivium.metrics.judge.models.asking import PATIENCE, Answered, GivenUp, Patience, Question, ask
from trivium.metrics.judge.models.opening import ModelOff, open_model
from trivium.metrics.judge.prompts.answer import Answer
from trivium.metrics.judge.prompts.preparing import Prepared, prepare
from trivium.metrics.judge.prompts.shown import shown
from trivium.metrics.judge.rubrics.scoring import raw_of, value_of
from trivium.metrics.judge.signals.consistency import consistency, modal
from trivium.metrics.judge.signals.evidence import quotes_found, retrieval
from trivium.metrics.judge.signals.similarity import EvidenceSimilarity
from trivium.metrics.judge.signals.tokens import token_signals
from trivium.metrics.metric import Subject
from trivium.suites.rubrics.rubric import Dimension, Rubric
from trivium.suites.settings import JudgeSettings

if TYPE_CHECKING:
    from pydantic_ai.models import Model

log = logging.getLogger(__name__)

CONCURRENCY = 16
SAMPLED_TEMPERATURE = 0.7
"""Of several samples (T2.5); a single one has 0."""

Answers = dict[str, Answer]


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What came of judging one dimension of one attempt.

    Attributes:
        status: ok, abstained, skipped (does not apply), or failed (no judge answered).
        value: In [0, 1], when it is ok.
        raw: In the unit of its scale.
        reason: The judge's, or why there is no judgement.
        detail: Everything that is recorded of it (T2.5).
    """

    status: Literal["ok", "abstained", "skipped", "failed"]
    value: float | None = None
    raw: Any = None
    reason: str
    detail: dict[str, Any] = {}


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
        """Judge with the first model that answers."""
        due = asked.dimensions
        passed_over: list[str] = []
        for name in self._models_for(subject):
            try:
                model = await models.get(name)
                samples = await self._samples(model, asked, limit)
            except ModelOff as off:
                passed_over.append(str(off))
                self._tell_once(f"the judge {name} is off: {off}")
            except GivenUp as why:
                passed_over.append(str(why))
                log.info("%s, repeat %d: %s", subject.attempt.case, subject.attempt.repeat, why)
            else:
                facts = {"model": name, "prompt": asked.prompt} | _taken(samples, len(due))
                if passed_over:
                    facts["passed_over"] = passed_over
                return {each.name: self._judgement(each, samples, asked.texts, facts) for each in due}
        why_not = "; ".join(passed_over) or "judge.models names none"
        return {each.name: Judgement(status="failed", reason=f"no judge: {why_not}") for each in due}

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

    def _judgement(
        self,
        dimension: Dimension,
        samples: Sequence[Answered[Answers]],
        texts: dict[str, str],
        facts: dict[str, Any],
    ) -> Judgement:
        values = [
            value_of(sample.answer[dimension.name], dimension, scale=self.rubric.scale or self.settings.scale)
            for sample in samples
        ]
        value = modal(values)
        sample = samples[values.index(value)]
        answer = sample.answer[dimension.name]
        there = quotes_found(answer.evidence, texts.values())
        signals: dict[str, Any] = {
            "llm_evidence_count": sum(there),
            "verbalized_confidence": answer.confidence,
            **retrieval(answer.evidence, texts.get("source"), similar=self._similar),
            **token_signals(sample.logprobs, sample.text, dimension.name, tokens=self.settings.tokens),
        }
        if self.settings.samples > 1:
            signals |= consistency(values)
        detail: dict[str, Any] = facts | {
            "reason": answer.reason,
            "evidence": [
                {"quote": quote, "found": found} for quote, found in zip(answer.evidence, there, strict=True)
            ],
            "evidence_similarity": self._similar.kind,
            "signals": signals,
        }
        if answer.criteria:
            detail["criteria"] = {
                name: {"score": score, "explanation": answer.explanations[name]}
                for name, score in answer.criteria.items()
            }
        if dimension.claims or dimension.aspects:
            each = "claims" if dimension.claims else "aspects"
            detail[each] = msgspec.to_builtins(getattr(answer, each))
            if value is not None:
                detail["level"] = nearest_level(value, dimension.levels)
        if self.settings.samples > 1:
            detail["samples"] = values
            detail["samples_asked"] = self.settings.samples
        if (dimension.claims or dimension.aspects) and value is None:
            why = "the output makes no claim" if dimension.claims else "nothing is asked for"
            return Judgement(status="skipped", reason=why, detail=detail)
        return Judgement(
            status="ok" if value is not None else "abstained",
            value=value,
            raw=raw_of(answer, dimension),
            reason=answer.reason or "the judge gave no reason",
            detail=detail,
        )

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


def nearest_level(value: float, levels: dict[str, float]) -> str:
    """The level whose value is nearest; ties go down (spec: metrics, T2.4)."""
    return min(levels, key=lambda name: (abs(levels[name] - value), levels[name]))


def _taken(samples: Sequence[Answered[Answers]], dimensions: int) -> dict[str, Any]:
    """What the request took, which its dimensions share."""
    costs = [sample.cost_usd for sample in samples]
    known = [cost for cost in costs if cost is not None]
    return {
        "tokens": {
            "input": sum(sample.input_tokens for sample in samples),
            "output": sum(sample.output_tokens for sample in samples),
        },
        "cost_usd": sum(known) if len(known) == len(costs) else None,
        "latency_seconds": max(sample.seconds for sample in samples),
        "requests": sum(sample.requests for sample in samples),
        "shared_by": dimensions,
    }
