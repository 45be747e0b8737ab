"""Confidence functions: compute how confident a prediction is from an item's signals (spec: metrics, S.9)."""
