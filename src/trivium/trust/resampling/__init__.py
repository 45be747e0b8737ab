"""Resamples groups: what is drawn, and statistics of all of it (spec: metrics, B.1)."""

__all__: list[str] = []
