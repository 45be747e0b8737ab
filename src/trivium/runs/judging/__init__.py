"""Judges of a run: their purse and answers, what they are, and what they cost."""
