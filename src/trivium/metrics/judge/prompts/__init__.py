"""Prompts: what a judge is shown, and the answer it has to give."""
