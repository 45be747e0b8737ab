"""Items, labels and judgements as records and files (spec: files; metrics, S and H)."""
