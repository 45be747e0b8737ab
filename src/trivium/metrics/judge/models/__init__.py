"""Models: how a language model is opened and asked, whatever the day its provider has."""
