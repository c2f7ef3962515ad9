"""Programs: the only place that wires rooms together and reads configuration."""
