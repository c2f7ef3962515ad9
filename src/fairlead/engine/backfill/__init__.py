"""Planned starts of waiting units, and which others may start before them."""
