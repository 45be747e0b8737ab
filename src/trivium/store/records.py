"""What the store hands out about a run."""

from typing import Any, Literal

import msgspec

from trivium.agents.attempt import Attempt
from trivium.metrics.evaluation import Evaluation
from trivium.suites.case import Case

RunKind = Literal["agent", "recorded", "human"]
RunState = Literal["running", "done", "interrupted"]


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as it is stored.

    Attributes:
        number: Rises with every run of the store.
        id: What people call it.
        suite_name: Name of the suite.
        suite: Digest of the suite's cases.
        kind: ``agent`` was asked, ``recorded`` was read, ``human`` is people's own outputs.
        state: running, done or interrupted. A killed run stays ``running`` until it is resumed.
        created: Unix time, seconds.
        finished: Unix time, or None.
        attempts_from: Number of the run whose attempts this one scores, or None.
        due: Attempts that it should have, or None when that is not known beforehand.
        settings: The suite's settings.
        provenance: Versions, commit, seed, host (see ``trivium.runs.provenance``).
        summary: The last summary, or None.
    """

    number: int
    id: str
    suite_name: str
    suite: str
    kind: RunKind
    state: RunState
    created: float
    finished: float | None
    attempts_from: int | None
    due: int | None
    settings: dict[str, Any]
    provenance: dict[str, Any]
    summary: dict[str, Any] | None


class StoredAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt and where it stands.

    Attributes:
        position: Place of its case in the suite, from 0.
        attempt: The attempt.
        case: The case, where it is at hand, or None for the suite's at that position. Stored with the
            attempt only where it is its own (leave-one-out).
    """

    position: int
    attempt: Attempt
    case: Case | None = None


class StoredEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluation and the place of its case in the suite, from 0."""

    position: int
    evaluation: Evaluation
