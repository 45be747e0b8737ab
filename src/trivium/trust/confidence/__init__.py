"""Computes how confident a prediction is from an item's signals (spec: metrics, S.9)."""

__all__: list[str] = []
