"""`fairlead run`: the scheduler as a running program, and the parts that work beside it."""
