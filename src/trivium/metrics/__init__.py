"""How an attempt is scored: metrics of three tiers, their registry, the composite."""
