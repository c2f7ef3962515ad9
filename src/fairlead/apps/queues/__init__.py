"""`fairlead queue` and what else shows queues: their figures as plain values, and as text."""
