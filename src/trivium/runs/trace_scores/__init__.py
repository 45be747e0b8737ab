"""Scores recorded traces that belong to no suite: figures by agent and tool, metrics, the worst traces."""
