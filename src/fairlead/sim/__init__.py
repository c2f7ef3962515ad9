"""The imagined cluster, and the real control plane started for tests."""
