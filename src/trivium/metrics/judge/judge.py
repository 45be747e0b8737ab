"""Judges a batch of attempts by one rubric (spec: metrics, T2)."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, wait
from functools import partial

import msgspec

from trivium.metrics.judge.budget.budget import Spent, answer_tokens
from trivium.metrics.judge.budget.prices import context_chars
from trivium.metrics.judge.client.executor import JudgeExecutor, Model
from trivium.metrics.judge.client.model_factory import ModelUnavailable
from trivium.metrics.judge.client.request import GivenUp
from trivium.metrics.judge.client.structured_output import Answered, Question, ask
from trivium.metrics.judge.evidence import EvidenceSimilarity, retrieval
from trivium.metrics.judge.judgement import Judgement, judgement_of, taken
from trivium.metrics.judge.panel import Missing, Vote, combined
from trivium.metrics.judge.prompts.context import Shown, shown
from trivium.metrics.judge.prompts.prompt import Prepared, prepare
from trivium.metrics.metric import MetricInput, Stopped
from trivium.suites.rubrics.rubric import Dimension, Rubric
from trivium.suites.settings import JudgeSettings

log = logging.getLogger(__name__)

SAMPLED_TEMPERATURE = 0.7
"""Temperature of several samples (T2.5); a single sample uses 0."""

Judgements = dict[str, Judgement]


class Judge:
    """Judges some dimensions of a rubric, in one request an attempt and sample or in one a dimension.

    What it found stays with the attempt, so that the metrics of its dimensions share it.

    Args:
        rubric: Whose dimensions they are.
        dimensions: Those that are wanted.
        settings: The suite's.
        encoder: The suite's, where quotes are compared by it.
        executor: Where models are asked, together with the suite's other judges.
        told: What the suite's judges have logged something about, so that not each of them says it.
    """

    def __init__(
        self,
        rubric: Rubric,
        dimensions: Sequence[Dimension],
        settings: JudgeSettings,
        *,
        encoder: str | None = None,
        executor: JudgeExecutor,
        told: set[str] | None = None,
    ) -> None:
        self.rubric = rubric
        self.dimensions = tuple(dimensions)
        self.settings = settings
        self.executor = executor
        self._similar = EvidenceSimilarity(settings.evidence_similarity, encoder=encoder)
        self._told = set() if told is None else told

    def prefetch(self, subjects: Sequence[MetricInput]) -> None:
        """Start judging attempts without waiting; :meth:`judge` returns the judgements."""
        for subject in subjects:
            if self not in subject.prefetched:
                subject.prefetched[self] = self.executor.submit(partial(self._judge_one, subject))

    def judge(self, subjects: Sequence[MetricInput]) -> list[Judgements]:
        """Return the judgements of every attempt by dimension. A failing model raises nothing.

        Raises:
            Stopped: If the executor was closed before.
        """
        self.prefetch(subjects)
        judged = [subject.prefetched[self] for subject in subjects]
        wait(judged)  # awake once for all of them, not for each
        try:
            return [each.result() for each in judged]
        except CancelledError:
            raise Stopped from None

    def close(self) -> None:
        """Cancel what is being judged and close the connections."""
        self.executor.close()

    async def _judge_one(self, subject: MetricInput) -> Judgements:
        settings = self.settings
        most = int(min([settings.excerpt_chars, *map(context_chars, self._models_for(subject))]))
        texts = shown(subject, excerpt_chars=most, excerpts=settings.excerpts)
        found: Judgements = {}
        due: list[Dimension] = []
        for dimension in self.dimensions:
            if not dimension.applies_to(texts.texts):
                why = f"there is no {' or '.join(dimension.needs)} to judge it by"
                found[dimension.name] = Judgement(status="skipped", reason=why)
            else:
                due.append(dimension)
        if due:
            requests = prepare(self.rubric, due, subject.case, texts, self.settings)
            judged = [self._judge_due(subject, texts, asked) for asked in requests]
            for judgements in await asyncio.gather(*judged):
                found |= judgements
        return found

    async def _judge_due(self, subject: MetricInput, texts: Shown, asked: Prepared) -> Judgements:
        """Judge with every model of a panel, or with the first that answers."""
        models = self._models_for(subject)
        if self.settings.panel:
            return await self._by_panel(models, subject, asked)
        return await self._by_first(models, subject, texts, asked)

    async def _by_panel(self, models: Sequence[str], subject: MetricInput, asked: Prepared) -> Judgements:
        missing: list[Missing] = []
        votes: list[tuple[str, Judgements]] = []
        asking = [self._vote(name, subject, asked) for name in models]
        for name, found in zip(models, await asyncio.gather(*asking), strict=True):
            if isinstance(found, Spent | Missing):
                missing.append(Missing(model=name, reason=str(found)))
            else:
                votes.append((name, found))
        if not votes:
            return {each.name: _nobody(missing) for each in asked.dimensions}
        return await self._worked_out(partial(self._combined_all, votes, missing, asked))

    async def _by_first(
        self, models: Sequence[str], subject: MetricInput, texts: Shown, asked: Prepared
    ) -> Judgements:
        """Take each dimension from the first model that answers it (spec: metrics, T2.6).

        One that a model answers wrongly twice goes to the next model by itself; the others stay as they are.
        """
        judged: Judgements = {}
        missing: dict[str, list[Missing]] = {each.name: [] for each in asked.dimensions}
        left = asked.dimensions
        for name in models:
            if len(left) < len(asked.dimensions):
                (asked,) = prepare(self.rubric, left, subject.case, texts, self.settings)
            found = await self._vote(name, subject, asked)
            for each in left:
                if isinstance(found, Spent | Missing):
                    missing[each.name].append(Missing(model=name, reason=str(found)))
                elif found[each.name].status == "failed":
                    missing[each.name].append(Missing(model=name, reason=found[each.name].reason))
                else:
                    judged[each.name] = _passed_over(missing[each.name], found[each.name])
            left = tuple(each for each in left if each.name not in judged)
            if not left or isinstance(found, Spent):
                break  # of those that are left another model would cost money too
        return judged | {each.name: _nobody(missing[each.name]) for each in left}

    async def _vote(self, name: str, subject: MetricInput, asked: Prepared) -> Judgements | Missing | Spent:
        """Return one model's judgement of every dimension, or why there is none."""
        try:
            model = await self.executor.model(name)
            samples = await self._samples(model, asked)
        except ModelUnavailable as unavailable:
            self._tell_once(name, f"the judge {name} is off: {unavailable}")
            return Missing(model=name, reason=str(unavailable))
        except GivenUp as why:
            log.info("%s, repeat %d: %s", subject.attempt.case, subject.attempt.repeat, why)
            return Missing(model=name, reason=str(why))
        except Spent as spent:
            self._tell_once("the budget", str(spent))
            return spent
        facts: dict[str, object] = {"model": name, "prompt": asked.prompt}
        if model.parameters.refused:
            facts["left_out"] = list(model.parameters.refused)
        facts |= taken(samples, len(asked.dimensions))
        return await self._worked_out(partial(self._read, samples, asked, facts))

    async def _worked_out(self, work: Callable[[], Judgements]) -> Judgements:
        """Do some work; with an encoder on another thread, as it would block the loop."""
        return work() if self._similar.kind == "cosine" else await asyncio.to_thread(work)

    def _read(self, samples: Sequence[Answered], asked: Prepared, facts: Mapping[str, object]) -> Judgements:
        return {
            each.name: judgement_of(
                each,
                samples,
                asked.texts,
                asked.cut,
                facts,
                key=asked.key(each),
                scale=self.rubric.scale or self.settings.scale,
                settings=self.settings,
                similar=self._similar,
            )
            for each in asked.dimensions
        }

    def _combined_all(
        self, votes: Sequence[tuple[str, Judgements]], missing: Sequence[Missing], asked: Prepared
    ) -> Judgements:
        return {each.name: self._combined(each, votes, missing, asked) for each in asked.dimensions}

    def _combined(
        self,
        dimension: Dimension,
        votes: Sequence[tuple[str, Judgements]],
        missing: Sequence[Missing],
        asked: Prepared,
    ) -> Judgement:
        name = dimension.name
        there = [(model, found[name]) for model, found in votes]
        voted = [Vote(model=model, judgement=each) for model, each in there if each.status != "failed"]
        unusable = [
            Missing(model=model, reason=each.reason) for model, each in there if each.status == "failed"
        ]
        if not voted:
            return _nobody([*missing, *unusable])
        return combined(
            dimension,
            voted,
            [*missing, *unusable],
            backed=lambda quotes: retrieval(quotes, asked.texts.get("source"), similar=self._similar),
        )

    def _models_for(self, subject: MetricInput) -> tuple[str, ...]:
        by_complexity = self.settings.models_by_complexity
        return by_complexity.get(subject.case.complexity, self.settings.models)

    async def _samples(self, model: Model, asked: Prepared) -> list[Answered]:
        """Return the samples; failed ones are left out unless all failed."""
        settings = self.settings
        usual = 0.0 if settings.samples == 1 else SAMPLED_TEMPERATURE

        async def one(index: int) -> Answered:
            question = Question(
                static=asked.static,
                case=asked.case,
                ask=asked.ask,
                schema=asked.schema,
                temperature=usual if settings.temperature is None else settings.temperature,
                seed=(settings.seed or 0) + index,
                max_tokens=settings.max_tokens or answer_tokens(asked.dimensions, thinks=model.thinks),
                sample=index,
                about=tuple(each.name for each in asked.dimensions),
            )
            return await ask(self.executor, model, question, asked.parse)

        results = await asyncio.gather(*map(one, range(settings.samples)), return_exceptions=True)
        answered = [result for result in results if isinstance(result, Answered)]
        failed = [result for result in results if isinstance(result, BaseException)]
        unforeseen = [each for each in failed if not isinstance(each, GivenUp | Spent)]
        if unforeseen or not answered:
            raise (unforeseen or failed)[0]
        return answered

    def _tell_once(self, about: str, line: str) -> None:
        if about not in self._told:
            self._told.add(about)
            log.warning(line)


def _passed_over(missing: Sequence[Missing], judgement: Judgement) -> Judgement:
    """Add to a judgement why earlier models did not give it."""
    if not missing:
        return judgement
    why_not = {"passed_over": [each.reason for each in missing]}
    return msgspec.structs.replace(
        judgement,
        method=f"{judgement.detail['model']} in place of {', '.join(each.model for each in missing)}",
        detail=judgement.detail | why_not,
    )


def _nobody(missing: Sequence[Missing]) -> Judgement:
    why_not = "; ".join(each.reason for each in missing) or "judge.models names none"
    return Judgement(status="failed", reason=f"no judge: {why_not}")
