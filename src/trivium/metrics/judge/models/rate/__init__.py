"""Rate: when the next request to a model may be sent, found from what becomes of those before."""
