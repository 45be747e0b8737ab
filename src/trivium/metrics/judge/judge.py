"""Judges a batch of attempts by one rubric.

Definitions: docs/definitions/judge.md#samples, docs/definitions/judge.md#panel.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, wait
from functools import partial

import msgspec

from trivium.metrics.judge.budget.budget import answer_tokens
from trivium.metrics.judge.budget.prices import context_chars
from trivium.metrics.judge.client.models import JudgeExecutor
from trivium.metrics.judge.client.providers import GivenUp
from trivium.metrics.judge.client.request import ModelRequest
from trivium.metrics.judge.client.scheduler import RequestScheduler
from trivium.metrics.judge.client.structured_output import StructuredAnswer, ask
from trivium.metrics.judge.evidence import EvidenceSimilarity, quoted_document, retrieval
from trivium.metrics.judge.judgement import Judgement, judgement_of, unjudged, usage_of
from trivium.metrics.judge.panel import combine_votes, no_judgement
from trivium.metrics.judge.prompts.context import Context, build_context, why_without
from trivium.metrics.judge.prompts.prompt import PreparedRequest, WithoutCase, prepare_requests
from trivium.metrics.metric import MetricInput, Stopped
from trivium.suites.rubrics.rubric import Dimension, Rubric
from trivium.suites.settings import JudgeSettings

log = logging.getLogger(__name__)

SAMPLED_TEMPERATURE = 0.7
TOP_LOGPROBS = 5
"""Temperature of several samples (docs/definitions/judge.md#samples); a single sample uses 0."""

Judgements = dict[str, Judgement]


class Judge:
    """Judges some dimensions of a rubric, in one request per attempt and sample or one per dimension.

    Judgements stay with the attempt, so that the metrics of the dimensions share them.

    Args:
        rubric: The rubric.
        dimensions: The dimensions to judge.
        settings: The suite's settings.
        encoder: The suite's encoder, if it compares quotes.
        executor: Runs the requests of all judges of the suite.
    """

    def __init__(
        self,
        rubric: Rubric,
        dimensions: Sequence[Dimension],
        settings: JudgeSettings,
        *,
        encoder: str | None = None,
        executor: JudgeExecutor,
    ) -> None:
        self.rubric = rubric
        self.dimensions = tuple(dimensions)
        self.settings = settings
        self.executor = executor
        self._similar = EvidenceSimilarity(settings.evidence_similarity, encoder=encoder)
        self._known: WithoutCase = {}

    def prefetch(self, metric_inputs: Sequence[MetricInput]) -> None:
        """Start judging attempts without waiting; :meth:`judge` returns the judgements."""
        for metric_input in metric_inputs:
            if self not in metric_input.prefetched:
                metric_input.prefetched[self] = self.executor.submit(partial(self._judge_one, metric_input))

    def judge(self, metric_inputs: Sequence[MetricInput]) -> list[Judgements]:
        """Return the judgements of every attempt by dimension. A failing model raises nothing.

        Raises:
            Stopped: If the executor was closed before.
        """
        self.prefetch(metric_inputs)
        futures = [metric_input.prefetched[self] for metric_input in metric_inputs]
        wait(futures)  # wakes up once, not for each future
        try:
            return [each.result() for each in futures]
        except CancelledError:
            raise Stopped from None

    def close(self) -> None:
        """Cancel judgements under way and close the connections."""
        self.executor.close()

    async def _judge_one(self, metric_input: MetricInput) -> Judgements:
        settings = self.settings
        most = int(min([settings.excerpt_chars, *map(context_chars, self._models_for(metric_input))]))
        context = build_context(
            metric_input,
            excerpt_chars=most,
            excerpts=settings.excerpts,
            contexts=any("contexts" in each.sees for each in self.dimensions),
        )
        found: Judgements = {}
        due: list[Dimension] = []
        for dimension in self.dimensions:
            unseen = [context.unrecorded[name] for name in dimension.sees if name in context.unrecorded]
            if unseen:
                found[dimension.name] = Judgement(status="skipped", missing=True, reason=unseen[0])
            elif not dimension.applies_to(context.texts):
                found[dimension.name] = Judgement(status="skipped", reason=why_without(dimension.needs))
            else:
                due.append(dimension)
        if due:
            ask = self._ask_panel if settings.panel else self._ask_in_order
            requests = self._prepared(due, metric_input, context)
            pending = [ask(metric_input, context, prepared) for prepared in requests]
            # A task for each takes time, and there is often one.
            judged = [await pending[0]] if len(pending) == 1 else await asyncio.gather(*pending)
            for judgements in judged:
                found |= judgements
        return found

    def _prepared(
        self, due: Sequence[Dimension], metric_input: MetricInput, context: Context
    ) -> list[PreparedRequest]:
        case, settings = metric_input.case, self.settings
        return prepare_requests(self.rubric, due, case, context, settings, known=self._known)

    async def _ask_panel(
        self, metric_input: MetricInput, _context: Context, prepared: PreparedRequest
    ) -> Judgements:
        """Judge with every model of a panel."""
        asking = [self._vote(name, metric_input, prepared) for name in self._models_for(metric_input)]
        votes = await asyncio.gather(*asking)

        def evidence(quotes: Sequence[str]) -> dict[str, float | None]:
            return retrieval(quotes, quoted_document(prepared.texts), similar=self._similar)

        def combined() -> Judgements:
            return {
                each.name: combine_votes(
                    each, [vote[each.name] for vote in votes], retrieval_signals=evidence
                )
                for each in prepared.dimensions
            }

        return await self._compute(combined)

    async def _ask_in_order(
        self, metric_input: MetricInput, context: Context, prepared: PreparedRequest
    ) -> Judgements:
        """Take each dimension from the first model that answers it.

        Definition: docs/definitions/judge.md#unavailable-judge.

        Only the dimensions that a model answers wrongly twice go to the next model.
        """
        judgements: Judgements = {}
        failures: dict[str, list[Judgement]] = {each.name: [] for each in prepared.dimensions}
        left = prepared.dimensions
        for name in self._models_for(metric_input):
            if len(left) < len(prepared.dimensions):
                (prepared,) = self._prepared(left, metric_input, context)
            found = await self._vote(name, metric_input, prepared)
            for each in left:
                if found[each.name].status == "failed":
                    failures[each.name].append(found[each.name])
                else:
                    judgements[each.name] = _with_earlier_failures(failures[each.name], found[each.name])
            left = tuple(each for each in left if each.name not in judgements)
            if not left or found[left[0].name].detail["unjudged"] == "budget":
                break  # the budget allows no other model either
        return judgements | {each.name: no_judgement(failures[each.name]) for each in left}

    async def _vote(self, name: str, metric_input: MetricInput, prepared: PreparedRequest) -> Judgements:
        """Return one model's judgement of every dimension."""
        try:
            model = self.executor.models.opened(name)
            samples = await self._samples(model, prepared)
        except GivenUp as why:
            if why.cause == "unavailable":
                self.executor.warn_once(name, f"the judge {name} is off: {why}")
            elif why.cause == "budget":
                self.executor.warn_once("the budget", str(why))
            else:
                log.info("%s, repeat %d: %s", metric_input.attempt.case, metric_input.attempt.repeat, why)
            if why.cause == "cut":
                self.executor.warn_once(f"the context of {name}", f"the judge {name}: {why}")
            return {each.name: unjudged(name, str(why), why.cause) for each in prepared.dimensions}
        facts: dict[str, object] = {"model": name, "prompt": prepared.prompt}
        if left_out := samples[-1].results[-1].left_out:
            facts["left_out"] = list(left_out)
        facts |= usage_of(samples, len(prepared.dimensions))
        return await self._compute(partial(self._read, samples, prepared, facts))

    async def _compute(self, work: Callable[[], Judgements]) -> Judgements:
        """Run a function; with an encoder on another thread, because it would block the loop."""
        return work() if self._similar.kind == "cosine" else await asyncio.to_thread(work)

    def _read(
        self, samples: Sequence[StructuredAnswer], prepared: PreparedRequest, facts: Mapping[str, object]
    ) -> Judgements:
        return {
            each.name: judgement_of(
                each,
                samples,
                Context(prepared.texts, prepared.cut),
                facts,
                key=prepared.key(each),
                scale=self.rubric.scale or self.settings.scale,
                settings=self.settings,
                similar=self._similar,
            )
            for each in prepared.dimensions
        }

    def _models_for(self, metric_input: MetricInput) -> tuple[str, ...]:
        by_complexity = self.settings.models_by_complexity
        return by_complexity.get(metric_input.case.complexity, self.settings.models)

    async def _samples(self, model: RequestScheduler, prepared: PreparedRequest) -> list[StructuredAnswer]:
        """Return the answered samples; raise the first error if there are none."""
        settings = self.settings
        names = tuple(each.name for each in prepared.dimensions)
        thinks = model.description.thinks(settings.reasoning_effort)
        usual = 0.0 if settings.samples == 1 else SAMPLED_TEMPERATURE

        async def one(index: int) -> StructuredAnswer:
            request = ModelRequest(
                provider=model.description.provider,
                address=model.description.base_url,
                model=model.description.name,
                instructions=prepared.static,
                case=prepared.case,
                turns=(prepared.ask,),
                schema=prepared.schema,
                output="native",
                temperature=usual if settings.temperature is None else settings.temperature,
                seed=(settings.seed or 0) + index,
                max_tokens=settings.max_tokens or answer_tokens(prepared.dimensions, thinks=thinks),
                top_logprobs=TOP_LOGPROBS,
                sample=index,
            )
            return await ask(self.executor.models, model.name, request, names, prepared.parse)

        if settings.samples == 1:
            return [await one(0)]
        results = await asyncio.gather(*map(one, range(settings.samples)), return_exceptions=True)
        answered = [result for result in results if isinstance(result, StructuredAnswer)]
        failed = [result for result in results if isinstance(result, BaseException)]
        unexpected = [each for each in failed if not isinstance(each, GivenUp)]
        if unexpected or not answered:
            raise (unexpected or failed)[0]
        return answered


def _with_earlier_failures(failures: Sequence[Judgement], judgement: Judgement) -> Judgement:
    """Add to a judgement why earlier models did not judge."""
    if not failures:
        return judgement
    earlier = ", ".join(each.detail["model"] for each in failures)
    return msgspec.structs.replace(
        judgement,
        method=f"{judgement.detail['model']} in place of {earlier}",
        detail=judgement.detail | {"passed_over": [each.reason for each in failures]},
    )
