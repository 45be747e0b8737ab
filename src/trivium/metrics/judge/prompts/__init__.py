"""Prompts of judges: context, instructions, and the answer format."""
