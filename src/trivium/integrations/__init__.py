"""Trivium inside other tools, and theirs inside Trivium: one file a neighbour, imported when asked for."""
