"""Calls agents: one module for each kind that Trivium can call."""
