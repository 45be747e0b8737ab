"""Two runs of one suite, and a judge that decides by content or by position."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trivium as tv
from trivium.agents.attempt import Attempt
from trivium.metrics.evaluation import Composite, Evaluation
from trivium.store.records import StoredAttempt, StoredEvaluation
from trivium.store.store import Store
from trivium.suites.case import Case

GPT, MINI, CLAUDE = "openai:gpt-4o", "openai:gpt-4o-mini", "anthropic:claude-haiku-4-5"


def stored_run(
    store: Store,
    name: str,
    outputs: Mapping[str, Sequence[str | None]],
    *,
    suite: str = "digest",
    groups: Mapping[str, str] | None = None,
    source: str | None = "A source.",
    **settings: Any,
) -> tv.Run:
    """A run of one case an entry, an attempt each output; None is an attempt that failed."""
    record = store.new_run(
        id=name,
        suite_name="reviews",
        suite=suite,
        kind="recorded",
        settings=settings,
        due=sum(map(len, outputs.values())),
    )
    cases = [
        Case(id=case, input=f"Question {case}?", source=source, group=(groups or {}).get(case))
        for case in outputs
    ]
    store.save_cases(suite, cases)
    attempts, evaluations = [], []
    for place, (case, own) in enumerate(outputs.items()):
        for repeat, output in enumerate(own):
            error = "TimeoutError" if output is None else None
            attempt = Attempt(case=case, repeat=repeat, output=output, error=error)
            attempts.append(StoredAttempt(position=place, attempt=attempt))
            folded = Evaluation(
                case=case, repeat=repeat, scores={}, composite=Composite(value=None, parts={}), failed=error
            )
            evaluations.append(StoredEvaluation(position=place, evaluation=folded))
    store.save(record, attempts=attempts, evaluations=evaluations)
    store.finish(record, "done", summary=None)
    return tv.Run(store, store.run(name))


def shown(prompt: str) -> tuple[str, str]:
    """What stands first and what second."""
    first, second = (
        re.search(rf"<<<{name} (\w+)>>>\n(.*?)\n<<<end of {name} \1>>>", prompt, re.DOTALL)
        for name in ("first", "second")
    )
    return first[2], second[2]


def saying(decide: Callable[[str, str], str | None]) -> Callable[[Any], Any]:
    """A model that answers every dimension it is asked about by what stands first and second."""

    def answer(question: Any) -> Any:
        level = decide(*shown(question.prompt))
        judgement = {"evidence": [], "reason": f"{level} it is", "level": level, "confidence": 4}
        return dict.fromkeys(question.schema["properties"], judgement)

    return answer


def by_length(first: str, second: str) -> str:
    """The longer one is better."""
    return "tie" if len(first) == len(second) else "first" if len(first) > len(second) else "second"
