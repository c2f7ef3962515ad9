"""Smallest service first with EASY backfill for the first job that finds no room."""

from fairlead.sim.virtual.policies.policy import EASY, SimPolicy
from fairlead.sim.virtual.policies.ssf import service

SSF_EASY = SimPolicy(
    "ssf-easy", "smallest service first; others do not delay the first that waits", "exact",
    service, backfill=EASY,
)  # fmt: skip
