"""Items, labels, judgements and calibrators: records and their files."""

__all__: list[str] = []
