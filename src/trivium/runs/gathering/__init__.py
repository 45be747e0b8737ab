"""Gathering: the evaluations of a run made columns of figures, as they are scored or read back."""
