"""Metrics that a language model scores."""

__all__: list[str] = []
