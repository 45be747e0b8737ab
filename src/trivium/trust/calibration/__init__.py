"""Calibration: maps confidences to probabilities and measures their quality (spec: metrics, S.10, S.11)."""
