"""The scheduler itself: events in, instructions out. No I/O and no clock."""
