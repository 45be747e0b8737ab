"""Engines: where attempts are asked."""
