"""Artifacts of the trust commands: results computed from items, as plain JSON values."""
