"""Spending: prices, the budget of a run, and the ledger of what was spent."""
