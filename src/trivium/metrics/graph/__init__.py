"""The trace tier: the graphs of what agents did, and their measures."""
