"""Panels: several judges of one attempt, and what they say together."""
