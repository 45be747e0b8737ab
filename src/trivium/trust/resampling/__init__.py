"""Resamples groups: what is drawn, and statistics of all of it (docs/definitions/intervals.md#bootstrap)."""

__all__: list[str] = []
