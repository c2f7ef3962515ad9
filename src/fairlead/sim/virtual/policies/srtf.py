"""Shortest remaining time first, preemptive, as in the Muri artifact."""

from fairlead.sim.virtual.policies.policy import FIRST_FIT, SimPolicy
from fairlead.sim.virtual.policies.replacing import replace_all
from fairlead.sim.virtual.policies.sjf import run_time

SRTF = SimPolicy(
    "srtf", "shortest remaining time first, preemptive, moves are free", "exact", run_time,
    placement=FIRST_FIT, interrupt=replace_all,
)  # fmt: skip
