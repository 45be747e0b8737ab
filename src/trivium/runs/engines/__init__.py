"""Calls agents concurrently, and scores recorded outputs in one process or in several."""
