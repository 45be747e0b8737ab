"""Prompts of judges: context, instructions, and the answer format."""

__all__: list[str] = []
