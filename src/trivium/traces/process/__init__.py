"""Analyses how agents spend their time and which work they repeat (docs/process.md)."""
