"""Items, labels and calibrators as records and files."""
