"""Encoders: models that turn the tokens of a text into vectors, behind one interface."""
