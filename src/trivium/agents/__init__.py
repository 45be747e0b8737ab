"""Who is asked: attempts, the adapters that call an agent, and outputs recorded elsewhere."""
