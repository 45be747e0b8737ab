"""Writes traces in formats of other tools, for ``trivium export`` and ``trivium traces export``."""
