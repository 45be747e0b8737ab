"""Inspect AI: what the agents of a sample did, from the events of its log, or from its messages."""
