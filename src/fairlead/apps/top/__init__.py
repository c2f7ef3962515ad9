"""`fairlead top`: what the GPUs are doing, who has them, and what would have been enough."""
