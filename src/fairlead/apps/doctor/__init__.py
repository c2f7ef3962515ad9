"""`fairlead doctor`: faults of the cluster that no event reports, and what to do about each."""
