"""Reads logs of Inspect AI as cases, attempts, scores, traces and items to calibrate on."""
