"""Analyses how agents spend their time and which work they repeat (docs/process.md)."""

__all__: list[str] = []
