"""Runs that ask cases in random order and stop when an answer is decided (spec: metrics, B.6)."""
