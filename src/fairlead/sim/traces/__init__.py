"""Readers of traces: nodes and jobs with their submit and run times."""
