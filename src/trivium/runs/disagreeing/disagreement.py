"""Disagreement: what judges and people think apart about one dimension of one attempt."""

from typing import Literal

import msgspec

from trivium.showing import Shown

Kind = Literal["judges", "people", "runs"]
"""Judges of one panel, the judge and people's labels, or the judges of two runs."""


class Opinion(msgspec.Struct, frozen=True, kw_only=True):
    """What one of them thinks.

    Attributes:
        by: Who: a model, ``people``, or a model of another run.
        value: In [0, 1]; None where it abstained.
        reason: In its words, or None.
    """

    by: str
    value: float | None
    reason: str | None = None


class Disagreement(msgspec.Struct, frozen=True, kw_only=True):
    """One dimension of one attempt on which not all are of one opinion.

    Attributes:
        case: Id of the case.
        repeat: Which attempt of the case.
        dimension: What was judged.
        kind: Who disagrees.
        apart: Distance of the highest and the lowest value, in [0, 1]; None where fewer than two gave one.
        opinions: What each thinks.
    """

    case: str
    repeat: int
    dimension: str
    kind: Kind
    apart: float | None
    opinions: tuple[Opinion, ...]


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """How often, and how far, opinions on a dimension are apart.

    Attributes:
        kind: Who was compared.
        dimension: On what.
        compared: Attempts on which at least two of them have an opinion.
        agreed: Those where all opinions are the same.
        abstained: Those where some abstained and some gave a score.
        mean_apart: Mean distance where at least two gave a score; None where there is none.
        largest: The largest distance, or None.
        leaning: Mean of the run's judge minus the other, in [-1, 1]; None among judges of one panel.
    """

    kind: Kind
    dimension: str
    compared: int
    agreed: int
    abstained: int
    mean_apart: float | None
    largest: float | None
    leaning: float | None


class Disagreements(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """Where the judges of a run disagree with each other, with people, or with another run's.

    Attributes:
        run: The run.
        suite: Its suite.
        against: The other run, or None.
        labels: The file of people's labels, or None.
        tallies: By kind and dimension.
        found: The disagreements, the farthest apart first, then those where only some abstained.
        left_out: Further ones that are not in ``found``.
        notes: What a reader must know, such as what could not be compared.
    """

    run: str
    suite: str
    against: str | None
    labels: str | None
    tallies: tuple[Tally, ...]
    found: tuple[Disagreement, ...]
    left_out: int
    notes: tuple[str, ...]
