"""Interval: between which two numbers a figure lies, and how that was found out."""

import msgspec


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A two-sided confidence interval.

    Attributes:
        low: Lower end, inside the figure's range.
        high: Upper end, inside the figure's range.
        level: Nominal coverage, in (0, 1).
        method: How it was made, in a few words.
        n: Values that entered.
        groups: Clusters that entered; what is uncertain is which groups were met.
        std_error: Standard error of the figure, in its unit; 0 where all values are equal.
    """

    low: float
    high: float
    level: float
    method: str
    n: int
    groups: int
    std_error: float
