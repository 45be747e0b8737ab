"""Calls agents and turns what they return, or what was recorded elsewhere, into attempts."""
