"""Queues in every API that describes them."""
