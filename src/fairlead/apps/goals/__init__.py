"""`fairlead goals`: what nodes cost, what is used of it, and what could be saved."""
