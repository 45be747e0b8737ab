"""Signals: what tells how sure a judgement is (spec: metrics, T2.5)."""
