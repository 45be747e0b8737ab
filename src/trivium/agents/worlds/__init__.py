"""What an agent may change: made afresh for each attempt, compared at its end, and cleaned up."""
