"""What an agent did: spans, messages, traces, and the readers of foreign formats."""
