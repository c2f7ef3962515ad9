"""What we write: binds that must be certain, and events and conditions that may wait."""
