"""Smallest remaining service (GPUs times time) first, preemptive, as in the Muri artifact."""

from fairlead.sim.virtual.policies.policy import FIRST_FIT, SimPolicy
from fairlead.sim.virtual.policies.replacing import replace_all
from fairlead.sim.virtual.policies.ssf import service

SRSF = SimPolicy(
    "srsf", "smallest remaining service first, preemptive, moves are free", "exact", service,
    placement=FIRST_FIT, interrupt=replace_all,
)  # fmt: skip
