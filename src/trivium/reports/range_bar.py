"""A figure with its interval, drawn in characters on the line from 0 to 1."""


def range_bar(
    mean: float | None,
    interval: tuple[float, float] | None,
    *,
    columns: int,
) -> str:
    """``····├──●──┤·········``: ● is the mean, ├ ┤ the interval.

    Args:
        mean: In [0, 1]; values outside stick to the edge.
        interval: Ends in [0, 1].
        columns: Width in characters.
    """

    def place(value: float) -> int:
        return round(min(1.0, max(0.0, value)) * (columns - 1))

    cells = ["·"] * columns
    if interval is not None:
        low, high = place(interval[0]), place(interval[1])
        cells[low : high + 1] = "─" * (high - low + 1)
        cells[low], cells[high] = "├", "┤"
    if mean is not None:
        cells[place(mean)] = "●"
    return "".join(cells)
