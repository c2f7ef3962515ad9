"""Smallest service first; long jobs wait for planned starts, which others may put off a little."""

from fairlead.sim.virtual.policies.policy import SHORT_FIRST_STARTS, SimPolicy
from fairlead.sim.virtual.policies.ssf import service

SHORT_FIRST = SimPolicy(
    "short-first", "smallest service first; long jobs are not started beside a planned start",
    "estimate", service, backfill=SHORT_FIRST_STARTS,
)  # fmt: skip
