"""Calls agents and makes attempts from their responses, or from recorded outputs."""
