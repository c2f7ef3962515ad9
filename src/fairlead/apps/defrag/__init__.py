"""`fairlead defrag`: which moves would let waiting pods and gangs start."""
