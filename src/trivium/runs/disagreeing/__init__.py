"""Disagreeing: where judges contradict each other, another run's judge, or people."""
