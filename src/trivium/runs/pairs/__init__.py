"""Pairs: the outputs of two runs, compared by a judge case by case."""
