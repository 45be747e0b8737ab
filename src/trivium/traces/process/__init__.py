"""How an agent spent its time, and what it did again: the process that a trace tells (docs/process.md)."""
