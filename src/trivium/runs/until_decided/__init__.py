"""Runs that ask cases in random order and stop when an answer is decided.

Definition: docs/definitions/comparisons.md#until-decided.
"""
