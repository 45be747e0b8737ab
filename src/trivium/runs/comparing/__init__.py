"""Compares two runs: pairs their attempts, checks comparability and decides on each difference."""
