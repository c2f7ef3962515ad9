"""Queues of teams: what each may use, what each should have, and which unit is tried next."""
