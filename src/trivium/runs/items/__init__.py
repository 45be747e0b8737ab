"""Items, labels, judgements and calibrators: records and their files."""
