"""The costs of a run: the requests of its judges, and the time, tokens and money of the agent."""

__all__: list[str] = []
