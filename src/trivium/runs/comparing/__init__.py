"""Comparing two runs: what pairs, what may be compared, and what the difference decides."""
