"""Calls: which tool calls of a trace count, in what order, and how they meet those expected."""
