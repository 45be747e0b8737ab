"""The text tier: similarity of an output to its references, success and time."""
