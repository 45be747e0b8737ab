"""Measures the risk of an agent that may abstain (spec: metrics, S.1 to S.8)."""

__all__: list[str] = []
