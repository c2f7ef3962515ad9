"""Which waiting jobs start now, by counts of GPUs and known run times alone."""
