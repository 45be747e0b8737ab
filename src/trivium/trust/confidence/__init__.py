"""Computes how confident a prediction is from an item's signals.

Definition: docs/definitions/selective.md#confidence.
"""
