"""Maps confidences to probabilities and measures their quality (spec: metrics, S.10, S.11)."""

__all__: list[str] = []
