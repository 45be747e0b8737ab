"""The kinds of agent that can be asked: one file each."""
