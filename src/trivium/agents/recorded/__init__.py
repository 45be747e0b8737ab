"""Attempts that were recorded elsewhere: one file a source, one line in the registry."""
