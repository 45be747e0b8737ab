"""Pairs: two outputs for the same case, of which a judge says which is better."""
