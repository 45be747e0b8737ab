"""Comparisons to draw and print."""

from typing import Any

import msgspec

from tests.reports import moved_case_samples
from trivium.runs.comparing.comparison import Comparison, MetricDelta, Move
from trivium.suites.settings import DecideSettings
from trivium.trust.decision import DEFAULT_PRIOR

HOSTILE = "<script>alert(1)</script>|`x`\x1b[31m\u202e@all"


def delta(mean: float | None, reach: float | None, answer: str = "pass", **fields: Any) -> MetricDelta:
    given: dict[str, Any] = {
        "delta": mean,
        "ci95": None if reach is None or mean is None else (mean - reach, mean + reach),
        "p": 0.0002,
        "p_holm": 0.0006,
        "share_positive": 0.999,
        "mde": 0.05,
        "wins": 1_234,
        "losses": 5,
        "ties": 0,
        "base": 0.5,
        "head": 0.5 + (mean or 0),
        "n": 1_239,
        "pairs": 4_956,
        "left_out": 0,
        "groups": 40,
        "method": "cluster t",
        "answer": answer,
        "probability": 0.25,
        "probabilities": (0.25,),
        "needs_cases": 0,
        "worst": (),
    }
    return MetricDelta(**given | fields)


def comparison(**fields: Any) -> Comparison:
    given: dict[str, Any] = {
        "base": "20260101-000000-aaaa",
        "head": "20260102-000000-bbbb",
        "suite": "paper-reviews",
        "answer": "inconclusive",
        "reason": "composite could be worse by more than the 0.02 margin, or unchanged.",
        "decided_by": ("composite", "pass_rate"),
        "metrics": {
            "composite": delta(-0.01, 0.05, "inconclusive", needs_cases=812, p_holm=0.34),
            "pass_rate": delta(0.1, 0.05),
            "coordination_quality": delta(-0.09, 0.03, "fail"),
            "time": delta(0.0, 0.002, "pass", mde=None),
        },
        "only_base": ("q1",),
        "only_head": ("q8", "q9"),
        "unpaired": {"base": 4, "head": 8},
        "moved": ("q3",),
        "moves": (
            Move(case="q3", base=0.9, head=0.2, delta=-0.7),
            Move(case="q4", base=0.2, head=0.3, delta=0.1),
        ),
        "moves_of": "composite",
        "moved_cases": moved_case_samples.calm(),
        "unchanged": False,
        "margin": 0.02,
        "level": 0.95,
        "resamples": 10_000,
        "seed": 42,
        "warnings": ("4 of 90 attempts of base have no counterpart and take no part",),
    }
    answer = (given | fields)["answer"]
    words = {"pass": "not worse", "fail": "worse", "inconclusive": "likely not worse"}
    decided = {"proof": answer, "verdict": words[answer], "probability": 0.25, "prior": DEFAULT_PRIOR}
    return Comparison(**decided | {"decide": DecideSettings(policy="proof")} | given | fields)


def hostile() -> Comparison:
    """Every text that comes from elsewhere says what it should not."""
    made = comparison(
        suite=HOSTILE,
        base=HOSTILE,
        head=HOSTILE,
        reason=HOSTILE,
        warnings=(HOSTILE,),
        only_base=(HOSTILE,),
        moves_of=HOSTILE,
        moved_cases=moved_case_samples.hostile(),
        decided_by=(HOSTILE,),
        metrics={HOSTILE: delta(0.1, 0.05, "inconclusive", needs_cases=None)},
    )
    moves = tuple(msgspec.structs.replace(move, case=HOSTILE) for move in made.moves)
    return msgspec.structs.replace(made, moves=moves)
