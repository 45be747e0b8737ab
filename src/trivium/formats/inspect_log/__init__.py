"""Inspect log."""
