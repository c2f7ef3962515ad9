"""HTTP servers of all programs: limits, health and metrics, and who may see what."""
