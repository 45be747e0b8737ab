"""Compares two runs: pairs their attempts, checks comparability and decides on each difference."""

__all__: list[str] = []
