"""Options of a comparison, checked."""

import msgspec

from trivium.errors import ComparisonError, Problem


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How two runs are compared.

    Attributes:
        margin: The loss that does not matter, in [0, 1].
        level: Of the intervals, in (0, 1).
        resamples: Of the bootstrap, at least 1.
        seed: Of the bootstrap, at least 0.
    """

    margin: float
    level: float
    resamples: int
    seed: int

    def check(self) -> None:
        """Refuse what is out of range, all of it at once.

        Raises:
            ComparisonError: If anything is.
        """
        rules = (
            ("margin", self.margin, "0 to 1", 0 <= self.margin <= 1),
            ("level", self.level, "between 0 and 1", 0 < self.level < 1),
            ("resamples", self.resamples, "at least 1", self.resamples >= 1),
            ("seed", self.seed, "at least 0", self.seed >= 0),
        )
        problems = [
            Problem(name, f"found {value:g}, expected {rule}") for name, value, rule, met in rules if not met
        ]
        if problems:
            raise ComparisonError("", problems)
