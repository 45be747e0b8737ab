"""Further attempts of two compared versions, where they tell most, until the comparison is decided.

Definition: docs/definitions/decisions.md#confirm.
"""
