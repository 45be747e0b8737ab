"""Adds judgements recorded elsewhere to a run (docs/definitions/files.md#judgements).

The stored run does not change: a new run has its attempts and scores, and the judgements.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from trivium.agents.attempt import Attempt
from trivium.errors import ItemsError, Problems
from trivium.metrics.evaluation import evaluation
from trivium.metrics.metric import Score
from trivium.runs.certificates import Certificates, stated_or_certified
from trivium.runs.items.files import RunAttempts, read_records
from trivium.runs.items.records import Judgement
from trivium.runs.summarize import summarise
from trivium.store.records import Provenance, RunRecord, StoredEvaluation
from trivium.store.store import Store
from trivium.suites.settings_loader import with_changes
from trivium.values import batched

AT_ONCE = 256


def import_judgements(
    store: Store, source: RunRecord, path: str | Path, certificates: Sequence[str | Path] = ()
) -> RunRecord:
    """Store a new run with the attempts and scores of another run and judgements from a file.

    Args:
        store: The store of both runs.
        source: The run.
        path: File of judgements, .jsonl, .csv or .parquet.
        certificates: Files of certificates, which decide which judgements are accepted without a person; by
            default those of the run's suite.

    Raises:
        ItemsError: If the file is invalid, or judges an unknown attempt or a metric that is computed.
        SuiteError: If a certificate is invalid.
    """
    judgements = _Judgements(path)
    judgements.check(store, source)
    settings = source.settings
    if certificates:
        named = {"judge": {"certificate": [str(each) for each in certificates]}}
        settings = with_changes(settings, named, source="--certificate")
    run = store.new_run(
        id=store.new_run_id(),
        suite_name=source.suite_name,
        suite=source.suite,
        kind=source.kind,
        settings=settings,
        provenance=judgements.provenance(source),
        due=source.due,
        attempts_from=source.attempts_from or source.number,
    )
    try:
        marking = Certificates(settings, run.provenance)
        groups = list(store.groups(run.suite, settings.group))
        for batch in batched(_scored_attempts(store, source), AT_ONCE):
            evaluations = []
            for position, attempt, scores in batch:
                judged = judgements.scores(attempt.case, attempt.repeat)
                marked = marking.marked(scores | judged, groups[position])
                folded = evaluation(attempt, marked, settings)
                evaluations.append(StoredEvaluation(position=position, evaluation=folded))
            store.save(run, evaluations=evaluations)
        store.save_case_scores(run, store.case_scores(source))
        store.finish(run, "done", summary=msgspec.to_builtins(summarise(store, run)))
    except BaseException:
        store.finish(run, "interrupted", summary=None)
        raise
    return store.run(run.id)


def _scored_attempts(store: Store, run: RunRecord) -> Iterator[tuple[int, Attempt, dict[str, Score]]]:
    """Yield position, attempt and scores of every scored attempt, in suite order."""
    attempts = store.attempts(run)
    for scored in store.evaluations(run):
        key = scored.position, scored.evaluation.repeat
        stored = next(each for each in attempts if (each.position, each.attempt.repeat) == key)
        yield scored.position, stored.attempt, dict(scored.evaluation.scores)


def judgement_rows(store: Store, run: RunRecord) -> Iterator[Judgement]:
    """Yield the judgements of a run as records of a file.

    Fallbacks are left out, and so is a rubric's overall score, because no judge gave it.
    """
    for stored in store.evaluations(run):
        for score in stored.evaluation.scores.values():
            given = score.tier == "judge" and score.status in {"ok", "abstained"}
            if given and "pass_mark" not in score.detail:
                yield Judgement(
                    case=stored.evaluation.case,
                    repeat=stored.evaluation.repeat,
                    dimension=score.name,
                    value=score.value,
                    reason=score.reason,
                    **(
                        {key: score.detail[key] for key in _KEPT if key in score.detail}
                        | {"confidence": stated_or_certified(score.detail)}
                    ),
                )


_KEPT = ("model", "prompt", "confidence", "signals", "tokens", "cost_usd", "latency_seconds", "shared_by")


class _Judgements:
    """The judgements of a file by attempt."""

    def __init__(self, path: str | Path) -> None:
        self._path = str(path)
        self._problems = Problems(self._path, ItemsError)
        self._found: dict[tuple[str, int], dict[str, tuple[int, Judgement]]] = {}
        for number, judgement in read_records(Path(path), Judgement, self._problems.at_line):
            of_attempt = self._found.setdefault((judgement.case, judgement.repeat), {})
            before = of_attempt.setdefault(judgement.dimension, (number, judgement))[0]
            if before != number:
                self._problems.at_line(
                    number,
                    f'"{judgement.dimension}" of repeat {judgement.repeat} of case "{judgement.case}" '
                    f"is judged in line {before} already",
                )

    def check(self, store: Store, run: RunRecord) -> None:
        """Check that every judgement belongs to an attempt of the run, and to no computed metric.

        Raises:
            ItemsError: If any does not.
        """
        tiers: dict[str, str] = {}
        attempts: set[tuple[str, int]] = set()
        for stored in store.evaluations(run):
            attempts.add((stored.evaluation.case, stored.evaluation.repeat))
            tiers |= {score.name: score.tier for score in stored.evaluation.scores.values()}
        known = RunAttempts(attempts)
        for (case, repeat), of_attempt in self._found.items():
            for dimension, (number, _) in of_attempt.items():
                if missing := known.missing(case, repeat, suggests=not self._problems.full):
                    self._problems.at_line(number, missing)
                elif tiers.get(dimension, "judge") != "judge":
                    self._problems.at_line(
                        number, f'"{dimension}" is computed, not judged: tier {tiers[dimension]}'
                    )
        self._problems.check()

    def scores(self, case: str, repeat: int) -> dict[str, Score]:
        """Return the judgements of an attempt as scores by dimension."""
        found = self._found.get((case, repeat), {})
        return {name: _score(judgement) for name, (_, judgement) in found.items()}

    def provenance(self, source: RunRecord) -> Provenance:
        """The provenance of a run with the file, the judges and the prompts of the judgements."""
        every = [judgement for found in self._found.values() for _, judgement in found.values()]
        return msgspec.structs.replace(
            source.provenance,
            judgements={"file": self._path, "count": len(every), "of_run": source.id},
            judges=sorted({judgement.model for judgement in every if judgement.model is not None}),
            prompts=sorted({judgement.prompt for judgement in every if judgement.prompt is not None}),
        )


def _score(judgement: Judgement) -> Score:
    detail = {key: value for key in _KEPT if (value := getattr(judgement, key)) is not None}
    return Score(
        name=judgement.dimension,
        tier="judge",
        value=judgement.value,
        status="abstained" if judgement.value is None else "ok",
        reason=judgement.reason or ("the judge abstained" if judgement.value is None else None),
        method="imported",
        detail=detail,
    )
