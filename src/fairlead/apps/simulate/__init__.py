"""`fairlead sim`: traces in virtual time through the real engine."""

from fairlead.apps.simulate.runs import SimRun
from fairlead.apps.simulate.simulate import SimOptions, runs_of, simulate, simulate_cluster

__all__ = ["SimOptions", "SimRun", "runs_of", "simulate", "simulate_cluster"]
