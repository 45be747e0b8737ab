"""Runs whose judges give scripted answers."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import trivium as tv
from trivium.agents.attempt import Attempt
from trivium.metrics.evaluation import Composite, Evaluation
from trivium.metrics.metric import Score
from trivium.store.records import StoredAttempt, StoredEvaluation
from trivium.store.store import Store
from trivium.suites.case import Case


def vote(model: str, value: Any, reason: Any = "so") -> dict[str, Any]:
    """One vote of a panel."""
    return {"model": model, "value": value, "reason": reason}


def judgement(value: float | None, *, name: str = "clarity", **fields: Any) -> Score:
    """A judged score."""
    status = "ok" if value is not None else "abstained"
    return Score(name=name, tier="judge", value=value, **({"status": status} | fields))


def judged_run(
    store: Store,
    scores: Mapping[str, Sequence[Score]],
    *,
    outputs: Mapping[str, str] | None = None,
    suite: str = "digest",
) -> tv.Run:
    """A stored run of one case an entry, with these scores."""
    record = store.new_run(
        id=f"run-{secrets.token_hex(3)}",
        suite_name="apart",
        suite=suite,
        kind="recorded",
        settings={},
        due=len(scores),
        attempts_from=None,
    )
    store.save_cases(suite, [Case(id=case, input="q") for case in scores])
    by_case = outputs or {}
    store.save(
        record,
        attempts=[
            StoredAttempt(position=place, attempt=Attempt(case=case, output=by_case.get(case, "text")))
            for place, case in enumerate(scores)
        ],
        evaluations=[
            StoredEvaluation(
                position=place,
                evaluation=Evaluation(
                    case=case,
                    repeat=0,
                    scores={score.name: score for score in own},
                    composite=Composite(value=None, parts={}),
                ),
            )
            for place, (case, own) in enumerate(scores.items())
        ],
    )
    store.finish(record, "done", summary=None)
    return tv.Run(store, store.run(record.id))
