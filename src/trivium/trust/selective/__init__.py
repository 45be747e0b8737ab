"""Measures the risk of an agent that may abstain (docs/definitions/selective.md#risk-coverage-curve)."""
