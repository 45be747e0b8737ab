"""Maps confidences to probabilities and measures their quality.

Definitions: docs/definitions/calibration.md#cross-fitting, docs/definitions/calibration.md#ece.
"""
