"""Adapters: one module for each kind of agent that Trivium can call."""

__all__: list[str] = []
