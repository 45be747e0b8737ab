"""The trace tier: metrics of tool calls and of interactions between agents."""

__all__: list[str] = []
