"""Readings in; metrics and decision records out."""
