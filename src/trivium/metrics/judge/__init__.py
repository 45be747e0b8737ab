"""The judge tier: what a language model makes of an attempt."""
