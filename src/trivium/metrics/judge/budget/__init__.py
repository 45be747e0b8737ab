"""Budgets of judges, the ledger of their spending, and prices of models."""
