"""Calls agents and makes attempts from their responses, or from recorded outputs."""

__all__: list[str] = []
