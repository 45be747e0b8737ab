"""Traces for other tools: what ``trivium export`` and ``trivium traces export`` write of them."""
