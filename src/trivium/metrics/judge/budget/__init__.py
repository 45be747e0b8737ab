"""What judges may spend: budgets, their ledger, and prices of models."""
