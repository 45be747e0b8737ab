"""How sure a prediction claims to be: confidence functions of an item's signals (spec: metrics, S.9)."""
