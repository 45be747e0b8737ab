"""The text tier: how close an output is to its references."""
