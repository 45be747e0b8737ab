"""The trace tier: metrics of tool calls and of interactions between agents."""
