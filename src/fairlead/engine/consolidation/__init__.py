"""Consolidation: moving running units so that a waiting one starts."""
